"""A cluster on test hosts, deployed by the project's own playbooks: what the tests in tests/cluster share."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from wharfinger.devtools.beds import kind_of
from wharfinger.devtools.containerd import DevtoolsError
from wharfinger.devtools.deployment import Deployment, ansible
from wharfinger.devtools.hostbase import ensure_base, suites_of
from wharfinger.devtools.hosts import Bed
from wharfinger.devtools.virtualhosts import VirtualBed
from wharfinger.devtools.vmimage import ensure_image

ROOT = Path(__file__).resolve().parents[2]
POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: on-{node}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: wharf.local/busybox:1
    command: [sh, -c, "mkdir -p /www && echo {node} > /www/index.html && exec httpd -f -p 8080 -h /www"]
---
"""
APP = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 1
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector: {{matchLabels: {{app: {name}}}}}
      containers:
      - {{name: main, image: "wharf.local/busybox:1", command: [sleep, "36000"]}}
"""
"""A Deployment that is spread over the hosts; wants `name` and `replicas`."""


class Site(Deployment):
    """A deployment whose failures are the test's."""

    def __init__(self, bed: Bed, folder: Path) -> None:
        super().__init__(bed, folder, source=folder / "source")

    def copy_source(self, source: Path) -> None:
        """Deploy a copy of these sources, so that what others edit meanwhile does not count as a change."""
        shutil.rmtree(self.source, ignore_errors=True)
        ignored = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "ansible")
        shutil.copytree(source, self.source, ignore=ignored)
        shutil.rmtree(self.source / "wharfinger/proto", ignore_errors=True)

    def done(self, name: str, *arguments: str, on_controller: bool = True) -> str:
        """Run a playbook that must succeed; return what it printed."""
        done = self.play(name, *arguments, on_controller=on_controller)
        assert done.returncode == 0, f"{name} failed:\n{done.stdout[-6000:]}"
        return done.stdout

    def wharf(self, *arguments: str, text: str | None = None) -> str:
        """Run a wharf that must succeed; return what it printed."""
        done = self.run_wharf(*arguments, text=text)
        assert done.returncode == 0, f"wharf {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def items(self, what: str, *arguments: str) -> list[dict[str, Any]]:
        """Return what ``wharf get`` lists; nothing while no apiserver answers."""
        done = self.run_wharf("get", what, *arguments, "-o", "json")
        found: list[dict[str, Any]] = json.loads(done.stdout)["items"] if done.returncode == 0 else []
        return found

    def running(self, app: str, *, but: str = "") -> list[dict[str, Any]]:
        """Return the pods of an app that run and are not on their way out, without those of the node `but`."""
        return [
            pod
            for pod in self.items("pods", "-l", f"app={app}")
            if pod["status"]["phase"] == "Running"
            and not pod["metadata"].get("deletionTimestamp")
            and pod["spec"]["nodeName"] != but
        ]

    def ready(self, node: str) -> str:
        """Return the status of a node's condition Ready; empty when it cannot be told."""
        for one in self.items("nodes"):
            if one["metadata"]["name"] == node:
                return next(item["status"] for item in one["status"]["conditions"] if item["type"] == "Ready")
        return ""

    def etcd_leader(self) -> str:
        """Return the host whose etcd leads."""
        credentials = "--cacert ca.crt --cert server.crt --key server.key"
        for name in self.bed.names():
            command = (
                f"cd /etc/wharfinger/etcd && ETCDCTL_API=3 etcdctl --endpoints https://127.0.0.1:2379 {credentials}"
            )
            status = json.loads(self.bed.ssh(name, f"{command} endpoint status -w json").stdout)[0]["Status"]
            if status["leader"] == status["header"]["member_id"]:
                return name
        raise AssertionError("etcd has no leader")

    def run_pods(self, *nodes: str) -> None:
        self.wharf("create", "-f", "-", text="".join(POD.format(node=node) for node in nodes))
        for node in nodes:
            self.wharf("wait", "--for=condition=Ready", f"pod/on-{node}", "--timeout=120s")

    def fetch(self, source: str, target: str) -> str:
        """Return what the pod on `target` answers to the network namespace of the pod on `source`."""
        address = self.wharf("get", "pod", f"on-{target}", "-o", "jsonpath={.status.podIP}").strip()
        program = (
            f"from urllib.request import urlopen as o; print(o('http://{address}:8080/', timeout=10).read().decode())"
        )
        pid = "pid=$(pgrep -x httpd) && nsenter --net=/proc/$pid/ns/net"
        return self.bed.ssh(source, f'{pid} python3 -c "{program}"').stdout.strip()


def changes(output: str) -> dict[str, int]:
    """Return the number of changes by host from the recap."""
    return {host: int(count) for host, count in re.findall(r"^(\S+) +: ok=\d+ +changed=(\d+)", output, re.MULTILINE)}


def changed_tasks(output: str) -> str:
    """Return the headings of the tasks that changed something, each with what follows it."""
    tasks = output.split("\nTASK [")[1:]
    return "\n".join(f"TASK [{task}" for task in tasks if re.search("^changed: ", task, re.MULTILINE))


@contextmanager
def site_of(folder: Path, *, hosts: int) -> Iterator[Site]:
    """Make hosts for a cluster, and remove them again. Skips the test where this machine cannot.

    The environment variable WHARF_HOSTS_SUITE names their Debian: ``trixie``, or ``bookworm,trixie`` for some of each;
    WHARF_HOSTS_KIND says what they are: ``qemu`` or ``mixed`` for virtual machines.
    """
    if ansible() is None:
        pytest.skip("ansible-playbook is not installed: pip install -e '.[deploy]'")
    suites = suites_of()
    kind = kind_of()
    try:
        for suite in set(suites):
            ensure_base(suite)
            if issubclass(kind, VirtualBed):
                ensure_image(suite)
    except DevtoolsError as error:
        pytest.skip(str(error))
    bed = kind.create(folder / "bed", hosts=hosts, suites=suites)
    try:
        bed.up()
        site = Site(bed, folder)
        site.copy_source(ROOT)
        yield site
    finally:
        bed.down()
