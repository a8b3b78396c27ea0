"""How long a failure is felt with the timers that the playbooks set: measured and printed (`pytest -s`), not asserted.

A daemon *freezes* here (SIGSTOP): its connections stay open and nothing says that it is gone, which is what the death
of a host looks like to the others, and slower to notice than an end. The whole takes some ten minutes, most of which a
pod waits on a dead node.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.support.deployment import APP, Site, site_of
from tests.support.hostload import HostLoad
from wharfinger.devtools.hosts import wait_for

POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {{name: main, image: "wharf.local/busybox:1", command: [sleep, "36000"]}}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_of(tmp_path_factory.mktemp("times"), hosts=3) as made:
        names = made.bed.names()
        made.write_inventory(names, control_plane=names)
        made.done("build.yml", on_controller=False)
        made.done("site.yml")
        yield made


def _leader(site: Site, daemon: str) -> str:
    """Return the host whose daemon leads."""
    if daemon == "wharf-etcd":
        return site.etcd_leader()
    lease = daemon.replace("wharf", "kube")
    holder = site.wharf("get", "lease", lease, "-n", "kube-system", "-o", "jsonpath={.spec.holderIdentity}")
    return next(name for name in site.bed.names() if holder.startswith(name))


@contextmanager
def _frozen(site: Site, daemon: str, name: str) -> Iterator[None]:
    """Stop a daemon's process in its tracks; afterwards it is killed, and systemd starts it anew."""
    site.bed.ssh(name, f"systemctl kill --kill-who=main --signal=STOP {daemon}")
    try:
        yield
    finally:
        site.bed.ssh(name, f"systemctl kill --kill-who=main --signal=KILL {daemon}")
        wait_for(
            lambda: site.bed.ssh(name, f"systemctl is-active {daemon}", check=False).stdout.strip() == "active",
            timeout=60, what=f"{daemon} on {name} to be back",
        )  # fmt: skip


def _seconds(condition: Callable[[], bool], what: str, *, since: float, timeout: float = 120) -> float:
    wait_for(condition, timeout=timeout, what=what)
    return time.monotonic() - since


def test_scheduler_freezes(site: Site) -> None:
    with _frozen(site, "wharf-scheduler", _leader(site, "wharf-scheduler")):
        since = time.monotonic()
        site.wharf("create", "-f", "-", text=POD.format(name="placed"))
        took = _seconds(
            lambda: bool(site.wharf("get", "pod", "placed", "-o", "jsonpath={.spec.nodeName}").strip()),
            "a pod to be placed", since=since,
        )  # fmt: skip
    print(f"\nscheduler frozen: the next pod is placed after {took:.1f} s")


def test_controller_manager_freezes(site: Site) -> None:
    with _frozen(site, "wharf-controller-manager", _leader(site, "wharf-controller-manager")):
        since = time.monotonic()
        site.wharf("create", "-f", "-", text=APP.format(name="made", replicas=1))
        took = _seconds(lambda: bool(site.items("pods", "-l", "app=made")), "a pod to be made", since=since)
    print(f"\ncontroller-manager frozen: the next Deployment has a pod after {took:.1f} s")


@pytest.mark.parametrize("daemon", ["wharf-apiserver", "wharf-etcd"])
@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_what_clients_feel(site: Site, daemon: str, how: str) -> None:
    """The longest time that a client waited for an answer to a write; for apiservers, of each host in turn."""
    hosts = [_leader(site, daemon)] if daemon == "wharf-etcd" else site.bed.names()
    for name in hosts:
        load = HostLoad(site.bed, site.kubeconfig)
        try:
            if how == "killed":
                site.bed.ssh(name, f"systemctl kill --kill-who=main --signal=KILL {daemon}")
                time.sleep(10)  # not for a condition: for as long as somebody may feel it
            else:
                with _frozen(site, daemon, name):
                    time.sleep(15)
            report = load.end()
        finally:
            load.kill()
        assert report.troubles == []
        print(f"\n{daemon} on {name} {how}: no client waited longer than {report.longest_gap:.1f} s")


def test_a_host_dies(site: Site) -> None:
    site.wharf("create", "-f", "-", text=APP.format(name="app", replicas=3))
    wait_for(lambda: len(site.running("app")) == 3, timeout=120, what="three pods to run")
    name = site.bed.names()[-1]
    load = HostLoad(site.bed, site.kubeconfig)
    try:
        since = time.monotonic()
        site.bed.power_off(name)
        unready = _seconds(lambda: site.ready(name) == "Unknown", f"{name} to be NotReady", since=since)
        replaced = _seconds(
            lambda: len(site.running("app", but=name)) == 3, "three pods elsewhere", since=since, timeout=900
        )
        report = load.end()
    finally:
        load.kill()
    assert report.troubles == []
    print(
        f"\nhost dead: NotReady after {unready:.1f} s, replacement Running after {replaced:.1f} s, "
        f"no client waited longer than {report.longest_gap:.1f} s"
    )
