"""A node that is cut off: what may not run twice never does, on real containers, as a checker of their own words says.

Every copy writes down, ten times a second, its name and the time since boot, into a file that both nodes see. When the
agent has ended the pod it is killed, too: a new one finds neither pods nor an API, and must not start it anew. Then the
node comes back and lets go of it.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters import started
from wharfinger.devtools.cluster import CONTROLLER_MANAGER, Cluster, Settings
from wharfinger.devtools.images import BUSYBOX_IMAGE
from wharfinger.devtools.processes import wait_until

GRACE_PERIOD, TOLERATED = 8, 4
SECONDS = 120.0
SAY = "trap '' TERM; while :; do read up rest </proc/uptime; echo $HOSTNAME $up >>/seen/words; sleep 0.1; done"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    period = f"--node-monitor-grace-period={GRACE_PERIOD}s"
    flags = {
        CONTROLLER_MANAGER: [period, "--node-monitor-period=500ms", "--node-eviction-rate=10"],
        "node": [period, "--heartbeat-interval=1s"],
    }
    with started(Settings(nodes=2, flags=flags)) as made:
        try:
            yield made
        except BaseException:
            for name in made.processes.names():
                print(f"--- end of {name}'s log\n{made.processes.tail(name, 4000)}")
            raise


def test_no_two_copies_run_at_a_time(cluster: Cluster) -> None:
    seen = cluster.directory / "seen"
    seen.mkdir()
    words = seen / "words"
    cluster.wharf("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    cluster.wharf("create", "-f", "-", text=json.dumps(replica_set(seen)))
    name, node = running(cluster)
    wait_until(lambda: name in copies(words), SECONDS)
    cut(cluster, node, off=True)
    begun = time.monotonic()
    try:
        wait_until(lambda: "what may not run twice is ended" in cluster.processes.tail(node, 1 << 20), SECONDS)
        cluster.processes.kill(node)
        cluster.processes.start(node, cluster.command(node))
        wait_until(lambda: len(copies(words)) > 1, SECONDS)
        print(f"\nreplaced {time.monotonic() - begun:.1f} s after the node was cut off")
    finally:
        cut(cluster, node, off=False)
    wait_until(lambda: name not in pods(cluster), SECONDS)
    (one, (_, last)), (other, (first, _)) = copies(words).items()
    print(f"{one} said its last word {first - last:.1f} s before the first of {other}")
    assert one == name
    assert last < first, "two copies ran at the same time"


def replica_set(seen: Path) -> dict[str, object]:
    tolerations = [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": TOLERATED,
        }
        for key in ("unreachable", "not-ready")
    ]
    container = {
        "name": "c", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", SAY],
        "volumeMounts": [{"name": "seen", "mountPath": "/seen"}],
    }  # fmt: skip
    pod = {
        "metadata": {"labels": {"app": "one"}, "annotations": {"wharfinger.dev/at-most-one": "true"}},
        "spec": {
            "terminationGracePeriodSeconds": 2, "tolerations": tolerations, "containers": [container],
            "automountServiceAccountToken": False, "volumes": [{"name": "seen", "hostPath": {"path": str(seen)}}],
        },
    }  # fmt: skip
    return {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "one"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "one"}}, "template": pod},
    }  # fmt: skip


def pods(cluster: Cluster) -> dict[str, dict[str, Any]]:
    listed = json.loads(cluster.wharf("get", "pods", "-o", "json").stdout)["items"]
    return {pod["metadata"]["name"]: pod for pod in listed}


def running(cluster: Cluster) -> tuple[str, str]:
    """Wait until there is one pod that runs; return its name and its node's."""
    found: list[tuple[str, str]] = []

    def one() -> bool:
        found[:] = [
            (name, pod["spec"]["nodeName"])
            for name, pod in pods(cluster).items()
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]
        return len(found) == 1

    wait_until(one, SECONDS)
    return found[0]


def cut(cluster: Cluster, node: str, *, off: bool) -> None:
    """Pull out the node's cable, or put it in again."""
    subprocess.run(["ip", "link", "set", cluster.runtime(node).link, "down" if off else "up"], check=True)


def copies(words: Path) -> dict[str, tuple[float, float]]:
    """Return the first and last word of each copy, in the order of their beginning."""
    found: dict[str, tuple[float, float]] = {}
    for line in words.read_text().splitlines() if words.exists() else ():
        name, at = line.split()
        first, _ = found.get(name, (float(at), 0.0))
        found[name] = (first, float(at))
    return found
