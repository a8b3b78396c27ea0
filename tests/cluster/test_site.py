"""The playbooks against hosts with their own systemd, SSH and network: from nothing to a cluster, and back.

One cluster goes through its life, since each step takes what the one before has made. Needs root, cgroup v1, the
packages that `wharfinger.devtools.hosts` names, and ansible-core (the extra `deploy`). The first run makes the Debian
base (some minutes), later ones take it from /var/cache.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from wharfinger.devtools import images
from wharfinger.devtools.containerd import DevtoolsError, find_busybox
from wharfinger.devtools.hosts import Bed, ensure_base

ROOT = Path(__file__).resolve().parents[2]
ANSIBLE = os.environ.get("WHARF_ANSIBLE") or shutil.which("ansible-playbook", path=str(Path(sys.executable).parent))
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

LEFT = """\
ls -d /etc/wharfinger /var/lib/wharfinger /opt/wharfinger /etc/systemd/system/wharf* /sys/class/net/wharf0 \
  /etc/cni/net.d/* /sys/fs/cgroup/*/wharfinger /run/netns/cni-* 2>/dev/null
ps -eo args | grep -E '[w]harf-|[c]ontainerd-shim'
grep -E 'wharfinger|sandboxes' /proc/mounts | grep -v ' / overlay '  # the host's own root
ip route | grep 'proto 87'
grep wharf /etc/passwd
"""


class Site:
    """A bed, its inventory, and the playbooks."""

    def __init__(self, bed: Bed, folder: Path) -> None:
        self.bed = bed
        self.folder = folder
        self.inventory = folder / "inventory" / "hosts.yml"
        self.inventory.parent.mkdir()
        self.images = folder / "images.tar"
        images.write_archive(self.images, images.local_images(find_busybox()))

    def write_inventory(self, nodes: list[str]) -> None:
        variables = {
            "wharf_build_dir": str(self.folder / "build"),
            "wharf_local_bin": str(Path(sys.executable).parent),
            "wharf_source": str(self.folder / "source"),
            "wharf_python_versions": ["3.11"],
            "wharf_sandbox_image": images.PAUSE_IMAGE,
            "wharf_image_archives": [str(self.images)],
            "wharf_containerd_restrict_oom_score_adj": True,
        }
        first = self.bed.names()[:1]
        groups = {"control_plane": first, "etcd": first, "nodes": nodes}
        self.inventory.write_text(json.dumps(self.bed.inventory(groups, variables)))

    def play(self, name: str, *arguments: str, on_controller: bool = True, check: bool = True) -> str:
        """Run a playbook and return what it printed."""
        assert ANSIBLE is not None
        command = [ANSIBLE, "-i", str(self.inventory), str(ROOT / "ansible" / name), *arguments]
        done = subprocess.run(
            self.bed.on_controller(*command) if on_controller else command,
            env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible" / "ansible.cfg")},
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        if check:
            assert done.returncode == 0, f"{name} failed:\n{done.stdout[-6000:]}"
        return done.stdout

    def wharf(self, *arguments: str, text: str | None = None) -> str:
        """Run wharf on the controller with the kubeconfig that site.yml has left there."""
        kubeconfig = self.inventory.parent / ".wharfinger" / "admin.kubeconfig"
        done = subprocess.run(
            self.bed.on_controller(str(Path(sys.executable).parent / "wharf"), *arguments),
            env={**os.environ, "KUBECONFIG": str(kubeconfig)}, text=True, input=text, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"wharf {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if ANSIBLE is None:
        pytest.skip("ansible-playbook is not installed: pip install -e '.[deploy]'")
    try:
        ensure_base()
    except DevtoolsError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("site")
    # A copy, so that what others edit meanwhile does not count as a change of the deployment.
    ignored = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "ansible")
    shutil.copytree(ROOT, folder / "source", ignore=ignored)
    shutil.rmtree(folder / "source/wharfinger/proto", ignore_errors=True)
    bed = Bed.create(folder / "bed", hosts=3)
    try:
        bed.up()
        yield Site(bed, folder)
    finally:
        bed.down()


def test_life_of_a_cluster(site: Site) -> None:
    one, two, three = site.bed.names()
    site.write_inventory([one, two])
    # The hosts' network leads nowhere, so what comes from the package index is built before, outside of it.
    site.play("build.yml", on_controller=False)

    site.play("site.yml")
    assert site.wharf("get", "nodes", "-o", "name").split() == [f"node/{one}", f"node/{two}"]
    site.run_pods(one, two)
    assert (site.fetch(one, two), site.fetch(two, one)) == (two, one)

    again = site.play("site.yml", "--diff")
    assert changes(again) == {one: 0, two: 0, "localhost": 0}, again[-6000:]

    site.write_inventory([one, two, three])
    added = site.play("add-node.yml", "-e", f"node={three}")
    # Noting the new node's network, the route to its pods, and setting it.
    assert changes(added)[one] == 3, added[-6000:]
    assert changes(added)[two] == 2, added[-6000:]
    site.run_pods(three)
    assert (site.fetch(one, three), site.fetch(three, two)) == (three, two)

    refused = site.play("remove-node.yml", "-e", f"node={two}", check=False)
    assert "wharf_drain_force" in refused, "a pod without a controller must not be lost silently"
    site.play("remove-node.yml", "-e", f"node={two}", "-e", "wharf_drain_force=true")
    site.write_inventory([one, three])
    assert site.wharf("get", "nodes", "-o", "name").split() == [f"node/{one}", f"node/{three}"]
    assert site.bed.address(two) not in site.bed.ssh(one, "ip route").stdout
    assert site.fetch(one, three) == three

    assert "wharf_confirm" in site.play("reset.yml", check=False)
    site.play("reset.yml", "-e", "wharf_confirm=true")
    for name in site.bed.names():
        left = site.bed.ssh(name, LEFT, check=False).stdout
        assert left == "", f"{name} still has:\n{left}"
    assert not (site.inventory.parent / ".wharfinger").exists()


def test_bed_leaves_nothing(tmp_path: Path) -> None:
    try:
        ensure_base()
    except DevtoolsError as error:
        pytest.skip(str(error))
    bed = Bed.create(tmp_path / "bed", hosts=1)
    try:
        bed.up()
        assert bed.ssh("host-1", "hostname").stdout.strip() == "host-1"
        bed.ssh("host-1", "touch /root/kept && sync")
        bed.power_off("host-1")
        bed.start("host-1")
        bed.wait_ssh("host-1")
        bed.ssh("host-1", "test -e /root/kept")
    finally:
        bed.down()
    assert not bed.path.exists()
    assert str(bed.path) not in Path("/proc/mounts").read_text()
    assert not [path for path in Path("/run/netns").iterdir() if path.name.startswith(f"{bed.prefix}-")]
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{bed.prefix}"))
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(bed.path) in (p.info["cmdline"] or [])]
