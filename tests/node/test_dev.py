"""``./dev`` as a person uses it: a cluster with real containers up and down again, and the examples in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from wharfinger.devtools.processes import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="real containers need root")

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


class Person:
    """Types commands, with a cluster in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "WHARFINGER_LOCAL": str(folder), "KUBECONFIG": str(folder / "kubeconfig")}

    def dev(self, *arguments: str) -> str:
        """Run ``./dev …``, past the installation."""
        return self._run([sys.executable, "-m", "wharfinger.devtools.dev", *arguments])

    def wharf(self, *arguments: str) -> str:
        """Run ``wharf …``."""
        return self._run([str(Path(sys.executable).parent / "wharf"), *arguments])

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, text=True, capture_output=True, check=False, timeout=240
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def objects(self, *arguments: str) -> list[dict[str, Any]]:
        """Return what ``wharf get … -o json`` lists."""
        items: list[dict[str, Any]] = json.loads(self.wharf("get", *arguments, "-o", "json"))["items"]
        return items

    def daemons(self) -> dict[str, int | None]:
        """Return every daemon's process id."""
        return {row["name"]: row["pid"] for row in json.loads(self.dev("status", "--json"))}


@pytest.fixture(scope="module")
def person() -> Iterator[Person]:
    folder = Path(tempfile.mkdtemp(prefix="wd")) / "local"
    person = Person(folder)
    try:
        yield person
    finally:
        person.dev("down", "--purge")
        shutil.rmtree(folder.parent, ignore_errors=True)


def test_up_is_idempotent_and_shows_a_running_pod(person: Person) -> None:
    text = person.dev("up", "--nodes", "3", "--short-timers")
    assert "hello" in text
    assert "Running" in text
    before = person.daemons()
    assert None not in before.values()
    assert {"etcd", "apiserver", "scheduler", "controller-manager", "node-1", "node-2", "node-3"} <= before.keys()
    person.dev("up")
    assert person.daemons() == before, "what runs stays as it is"
    command = "while true; do date; sleep 5; done"
    assert any(command in " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])), (
        "the example's process is one of the host's"
    )


def test_two_ways_without_a_scheduler(person: Person) -> None:
    person.dev("stop", "scheduler")
    assert person.daemons()["scheduler"] is None
    person.wharf("create", "-f", str(EXAMPLES / "pod-with-node-name.yaml"))
    person.wharf("create", "-f", str(EXAMPLES / "unscheduled-pod.yaml"))
    person.wharf("wait", "--for=condition=Ready", "-f", str(EXAMPLES / "pod-with-node-name.yaml"), "--timeout=60s")
    assert "nodeName" not in person.objects("pods", "--field-selector=metadata.name=waiting")[0]["spec"]
    person.wharf("create", "-f", str(EXAMPLES / "binding.yaml"))
    person.wharf("wait", "--for=condition=Ready", "pod/waiting", "--timeout=60s")
    person.dev("start", "scheduler")


def test_a_pod_that_fits_nowhere_says_why(person: Person) -> None:
    person.wharf("create", "-f", str(EXAMPLES / "pod-too-big.yaml"))
    reason = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}=Unschedulable"
    person.wharf("wait", f"--for={reason}", "pod/too-big", "--timeout=60s")
    why = person.wharf("why", "too-big")
    assert "node-1" in why
    assert "free of" in why
    assert person.objects("pods", "--field-selector=metadata.name=too-big")[0]["status"]["phase"] == "Pending"


def test_pods_of_a_killed_agent_are_replaced(person: Person) -> None:
    person.wharf("create", "-f", str(EXAMPLES / "replicaset.yaml"))

    def running() -> dict[str, str]:
        return {
            pod["metadata"]["uid"]: pod["spec"]["nodeName"]
            for pod in person.objects("pods", "-l", "app=web")
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    wait_until(lambda: len(running()) == 3, 60)
    before = running()
    victim = sorted(before.values())[-1]  # not node-1: a pod that nobody would make again is bound to it
    person.dev("stop", victim, "--kill")
    wait_until(lambda: len(running()) == 3 and victim not in running().values(), 90)
    after = running()
    kept = {uid: node for uid, node in before.items() if node != victim}
    assert kept.items() <= after.items(), "the others stay where they are"
    scheduled = [event["involvedObject"]["uid"] for event in person.objects("events") if event["reason"] == "Scheduled"]
    assert len(scheduled) == len(set(scheduled)), "no pod was bound twice"
    person.dev("start", victim)


def test_down_leaves_nothing_and_up_brings_the_objects_back(person: Person) -> None:
    prefix = json.loads((person.folder / "cluster.json").read_text())["settings"]["prefix"]
    person.dev("down")
    processes = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert [line for line in processes if str(person.folder) in line] == []
    assert str(person.folder) not in Path("/proc/self/mountinfo").read_text()
    assert [name for name in psutil.net_if_addrs() if name.startswith(f"{prefix}0")] == []
    assert [path.name for path in Path("/run/netns").glob(f"{prefix}-*")] == []
    assert [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{prefix}")] == []
    assert all(pid is None for pid in person.daemons().values())
    person.dev("up")
    person.wharf("wait", "--for=condition=Ready", "pod/waiting", "--timeout=60s")
    assert len(person.objects("pods", "-l", "app=web")) == 3
