"""Hosts and daemons that fail one at a time, with clients at work all the while and their history checked afterwards.

Three hosts are everything at once: control plane, etcd and nodes, with timers of seconds so that a dead node's pods are
replaced while we look. `pytest -s` shows the times measured; none is asserted.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.deployment import APP, Site, site_of
from tests.support.hostload import HostLoad
from wharfinger.devtools.hosts import wait_for

GRACE = 15
"""Seconds without a heartbeat until a node is not ready; its pods stay as long again. An agent that is restarted on a
busy machine needs ten, and its pods must not be given up meanwhile."""
TIMERS = {
    "wharf_apiserver_flags": [
        f"--default-not-ready-toleration-seconds={GRACE}", f"--default-unreachable-toleration-seconds={GRACE}",
    ],
    "wharf_controller_manager_flags": ["--node-monitor-period=1s", f"--node-monitor-grace-period={GRACE}s"],
    "wharf_nodeagent_flags": ["--heartbeat-interval=2s", f"--node-monitor-grace-period={GRACE}s"],
}  # fmt: skip
DAEMONS = (
    "wharf-etcd",
    "wharf-apiserver",
    "wharf-scheduler",
    "wharf-controller-manager",
    "wharf-nodeagent",
    "containerd",
)
OURS = DAEMONS[:-1]
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_of(tmp_path_factory.mktemp("failures"), hosts=3) as made:
        names = made.bed.names()
        made.write_inventory(names, control_plane=names, variables=TIMERS)
        made.done("build.yml", on_controller=False)
        made.done("site.yml")
        made.wharf("create", "-f", "-", text=APP.format(name="app", replicas=4))
        yield made


@pytest.fixture(autouse=True)
def well(site: Site) -> None:
    """Every test begins with a cluster that is well."""
    _wait_well(site)


def _wait_well(site: Site) -> None:
    def ready() -> bool:
        nodes = site.items("nodes")
        states = [item["status"] for node in nodes for item in node["status"]["conditions"] if item["type"] == "Ready"]
        return states == ["True"] * 3 and len(site.running("app")) == 4 and len(_members(site)) == 3

    wait_for(ready, timeout=180, what="three ready nodes, four running pods and three members of etcd")


def _members(site: Site) -> list[str]:
    """Return the hosts whose etcd answers."""
    lines = site.run_wharf("etcd", "status").stdout.splitlines()
    return [line for line in lines if ":2379" in line and line.split()[4:5] in (["true"], ["false"])]


def _holder(site: Site, lease: str) -> str:
    done = site.run_wharf("get", "lease", lease, "-n", "kube-system", "-o", "jsonpath={.spec.holderIdentity}")
    return done.stdout.strip()


@contextmanager
def under_load(site: Site, what: str) -> Iterator[None]:
    """Keep clients at work meanwhile; afterwards none may have seen a broken promise."""
    load = HostLoad(site.bed, site.kubeconfig)
    try:
        yield
        report = load.end()
    finally:
        load.kill()
    print(f"\n{what}: {report.writes} writes, {report.unknown} unanswered, longest gap {report.longest_gap:.1f} s")
    assert report.troubles == []
    assert report.writes > 0


def _seconds_until(condition: Callable[[], bool], what: str, *, timeout: float = 120) -> float:
    since = time.monotonic()
    wait_for(condition, timeout=timeout, what=what)
    return time.monotonic() - since


@pytest.mark.parametrize("daemon", DAEMONS)
def test_a_killed_daemon(site: Site, daemon: str) -> None:
    names = site.bed.names()
    if daemon == "wharf-etcd":
        names.sort(key=lambda name: name != site.etcd_leader())  # the leader first
    pods = {pod["metadata"]["uid"] for pod in site.running("app")}
    for name in names:
        with under_load(site, f"kill -9 {daemon} on {name}"):
            before = site.bed.ssh(name, f"systemctl show -p MainPID --value {daemon}").stdout
            site.bed.ssh(name, f"systemctl kill --signal=KILL --kill-who=main {daemon}")
            wait_for(
                lambda name=name, before=before: (  # type: ignore[misc]
                    site.bed.ssh(name, f"systemctl is-active {daemon}", check=False).stdout.strip() == "active"
                    and site.bed.ssh(name, f"systemctl show -p MainPID --value {daemon}").stdout != before
                ),
                timeout=60, what=f"{daemon} on {name} to be back",
            )  # fmt: skip
            _wait_well(site)
    assert {pod["metadata"]["uid"] for pod in site.running("app")} == pods, "pods outlive every daemon"


def test_hosts_that_lose_power(site: Site) -> None:
    leader = site.etcd_leader()
    for name in sorted(site.bed.names(), key=lambda name: name == leader):
        scheduler, manager = _holder(site, "kube-scheduler"), _holder(site, "kube-controller-manager")
        with under_load(site, f"power off {name}{' (etcd leader)' if name == leader else ''}"):
            since = time.monotonic()
            site.bed.power_off(name)
            times = {}
            for lease, holder in (("kube-scheduler", scheduler), ("kube-controller-manager", manager)):
                if holder.startswith(name):
                    _seconds_until(lambda lease=lease, holder=holder: _holder(site, lease) not in ("", holder), lease)  # type: ignore[misc]
                    times[lease] = time.monotonic() - since
            _seconds_until(lambda name=name: site.ready(name) == "Unknown", f"{name} to be NotReady")  # type: ignore[misc]
            times["NotReady"] = time.monotonic() - since
            _seconds_until(
                lambda name=name: (  # type: ignore[misc]
                    len(site.running("app", but=name)) == 4
                ),
                "four pods to run elsewhere",
            )
            times["replacements Running"] = time.monotonic() - since
            print(f"\n{name}: " + ", ".join(f"{what} after {value:.1f} s" for what, value in times.items()))
            site.bed.start(name)
            site.bed.wait_ssh(name)
            _wait_well(site)


def test_a_host_cut_off_for_longer_than_its_pods_may_stay(site: Site) -> None:
    name = site.bed.names()[-1]
    on_it = [pod["metadata"]["uid"] for pod in site.running("app") if pod["spec"]["nodeName"] == name]
    assert on_it, "no pod is on the host: the test would show nothing"
    with under_load(site, f"partition of {name}"):
        _link(site, name, "down")
        try:
            _seconds_until(lambda: site.ready(name) == "Unknown", f"{name} to be NotReady")
            _seconds_until(
                lambda: len(site.running("app", but=name)) == 4,
                "four pods to run elsewhere",
            )
        finally:
            _link(site, name, "up")
        back = _seconds_until(lambda: site.ready(name) == "True", f"{name} to be back")
        print(f"\n{name} is ready {back:.1f} s after its network")
        _wait_well(site)
        # What was replaced ends for good, in the API and on the host.
        wait_for(
            lambda: not [pod for pod in site.items("pods") if pod["metadata"]["uid"] in on_it],
            timeout=60, what="the replaced pods to be gone",
        )  # fmt: skip
        left = site.bed.ssh(name, "ls /var/lib/wharfinger/node/pods 2>/dev/null", check=False).stdout.split()
        assert not set(left) & set(on_it)


def _link(site: Site, name: str, state: str) -> None:
    subprocess.run(["ip", "-n", site.bed.controller, "link", "set", name, state], check=True)


def test_the_disk_of_a_member_of_etcd_is_full(site: Site) -> None:
    name = site.etcd_leader()
    data = "/var/lib/wharfinger/etcd"
    site.bed.ssh(
        name,
        f"systemctl stop wharf-etcd && cp -a {data} {data}.copy && "
        f"mount -t tmpfs -o size=400m,mode=700 small {data} && cp -a {data}.copy/. {data}/ && "
        f"chown etcd:etcd {data} && systemctl start wharf-etcd",
    )
    _wait_well(site)
    with under_load(site, f"disk full on {name}"):
        site.bed.ssh(name, f"dd if=/dev/zero of={data}/fill bs=1M 2>/dev/null; true")
        # etcd gives up when it cannot write ahead; the others have the majority.
        wait_for(
            lambda: site.bed.ssh(name, "systemctl is-active wharf-etcd", check=False).stdout.strip() != "active",
            timeout=120, what="etcd to notice the full disk",
        )  # fmt: skip
        site.bed.ssh(name, f"rm {data}/fill")
        _wait_well(site)
    site.bed.ssh(
        name,
        f"systemctl stop wharf-etcd && rm -rf {data}.copy && cp -a {data} {data}.copy && umount {data} && "
        f"rm -rf {data} && mv {data}.copy {data} && systemctl start wharf-etcd",
    )


def _restart(site: Site, name: str) -> None:
    """Restart our daemons in their order, the agent by itself: its heart must not miss more than a beat."""
    for daemons in (OURS[:-1], OURS[-1:]):
        site.bed.ssh(name, f"systemctl daemon-reload && systemctl restart {' '.join(daemons)}")


@pytest.mark.parametrize("shift", ["+1h", "-1h"])
def test_a_clock_that_jumps(site: Site, shift: str) -> None:
    if not Path(FAKETIME).exists():
        pytest.skip("needs Debian's libfaketime")
    name = site.bed.names()[0]
    pods = {pod["metadata"]["uid"] for pod in site.running("app")}
    (site.bed.root(name) / "usr/local/lib/libfaketimeMT.so.1").write_bytes(Path(FAKETIME).read_bytes())
    drop_in = (
        "[Service]\\nEnvironment=LD_PRELOAD=/usr/local/lib/libfaketimeMT.so.1\\n"
        f"Environment=FAKETIME={shift}\\nEnvironment=FAKETIME_DONT_FAKE_MONOTONIC=1\\n"
    )
    with under_load(site, f"clock of {name} {shift}"):
        try:
            for daemon in OURS:
                folder = f"/etc/systemd/system/{daemon}.service.d"
                site.bed.ssh(name, f"mkdir -p {folder} && printf '{drop_in}' > {folder}/clock.conf")
            _restart(site, name)
            _wait_well(site)
            # Nothing may move for as long as it takes to give a node up.
            ends = time.monotonic() + 3 * GRACE
            while time.monotonic() < ends:
                assert "Unknown" not in [site.ready(host) for host in site.bed.names()]
        finally:
            for daemon in OURS:
                site.bed.ssh(name, f"rm -rf /etc/systemd/system/{daemon}.service.d")
            _restart(site, name)
        _wait_well(site)
    assert {pod["metadata"]["uid"] for pod in site.running("app")} == pods
