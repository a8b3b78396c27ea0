"""What only a machine with a kernel of its own shows: cgroup v2, a reboot, a clock that is set. One node, emulated.

By choice, since QEMU without KVM is some twenty times slower than this machine:

    WHARF_HOSTS_KIND=mixed ./dev test tests/cluster/test_virtual_machines.py -s

With ``qemu`` the control plane is on the virtual machine, too, which takes much longer still.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.deployment import Site, site_of
from wharfinger.devtools.beds import KIND_VARIABLE, kind_of
from wharfinger.devtools.hosts import wait_for
from wharfinger.devtools.virtualhosts import MixedBed, VirtualBed

LIMITED = """\
apiVersion: v1
kind: Pod
metadata: {name: limited}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: wharf.local/busybox:1
    command: [sleep, "360000"]
    resources: {limits: {memory: 32Mi, cpu: 200m}}
"""
GREEDY = """\
apiVersion: v1
kind: Pod
metadata: {name: greedy}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: wharf.local/busybox:1
    command: [sh, -c, "exec tail /dev/zero"]
    resources: {limits: {memory: 16Mi}}
"""
WAIT = "--timeout=900s"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if not issubclass(kind_of(), VirtualBed):
        pytest.skip(f"emulated hosts are slow: {KIND_VARIABLE}={MixedBed.kind} makes them")
    with site_of(tmp_path_factory.mktemp("vm"), hosts=2 if kind_of() is MixedBed else 1) as made:
        started = time.monotonic()
        made.write_inventory([_node(made)])
        made.done("build.yml", on_controller=False)
        made.done("site.yml")
        print(f"\nsite.yml: {time.monotonic() - started:.0f} s")
        made.wharf("create", "-f", "-", text=LIMITED)
        made.wharf("wait", "--for=condition=Ready", "pod/limited", WAIT)
        print(f"pod Running: {time.monotonic() - started:.0f} s")
        yield made


def test_limits_hold_by_cgroup_v2(site: Site) -> None:
    assert site.bed.ssh(_node(site), "stat -f -c %T /sys/fs/cgroup").stdout.strip() == "cgroup2fs"
    group = "/sys/fs/cgroup$(cut -d: -f3 /proc/$(pgrep -f '^sleep 360000')/cgroup)"
    assert site.bed.ssh(_node(site), f"cd {group} && cat memory.max cpu.max").stdout.split() == [
        "33554432",
        "20000",
        "100000",
    ]
    site.wharf("create", "-f", "-", text=GREEDY)
    site.wharf("wait", "--for=jsonpath={.status.phase}=Failed", "pod/greedy", WAIT)
    code = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}"
    assert site.wharf("get", "pod", "greedy", "-o", code).strip() == "137"


def test_a_clock_set_an_hour_forward_and_back_loses_nobody(site: Site) -> None:
    def renewed() -> str:
        lease = site.run_wharf("get", "lease", _node(site), "-n", "kube-node-lease", "-o", "jsonpath={.spec.renewTime}")
        return lease.stdout.strip()

    pod = _container(site)
    for change in ("+1 hour", "-1 hour"):
        before = renewed()
        site.bed.ssh(_node(site), f"date -s '{change}'")
        wait_for(lambda before=before: renewed() not in ("", before), timeout=900, what="a heartbeat")  # type: ignore[misc]
        assert site.ready(_node(site)) == "True"
    assert _container(site) == pod, "a clock is no reason to start a container again"


def test_a_reboot_brings_everything_back(site: Site) -> None:
    boot = "cat /proc/sys/kernel/random/boot_id"
    before, pod = site.bed.ssh(_node(site), boot).stdout, _container(site)
    site.bed.ssh(_node(site), "systemctl reboot", check=False)
    wait_for(
        lambda: site.bed.ssh(_node(site), boot, check=False).stdout not in ("", before), timeout=1800, what="the boot"
    )
    wait_for(
        lambda: site.ready(_node(site)) == "True" and _container(site) not in ("", pod), timeout=1800, what="the pod"
    )
    site.wharf("wait", "--for=condition=Ready", "pod/limited", WAIT)
    failed = site.bed.ssh(_node(site), "systemctl --failed --plain --no-legend").stdout
    assert failed == "", failed


def _node(site: Site) -> str:
    """Return the host that is a virtual machine and a node."""
    return site.bed.names()[-1]


def _container(site: Site) -> str:
    """Return the id of the pod's running container; empty when it has none, or no apiserver answers."""
    field = "jsonpath={.status.containerStatuses[0].containerID}"
    running = "jsonpath={.status.containerStatuses[0].state.running.startedAt}"
    if not site.run_wharf("get", "pod", "limited", "-o", running).stdout.strip():
        return ""
    return site.run_wharf("get", "pod", "limited", "-o", field).stdout.strip()
