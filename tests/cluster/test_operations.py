"""What an operator does to a cluster that is in use: upgrade, back up, destroy, restore, renew certificates.

Three hosts are everything at once (control plane, etcd, nodes), and clients write and read all the time.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.deployment import ROOT, Site, changes, site_of
from tests.support.hostload import HostLoad
from wharfinger.devtools.hosts import wait_for

CONTAINERS = "ctr --namespace k8s.io tasks list --quiet | sort"
AFTER = """\
apiVersion: v1
kind: Pod
metadata: {name: after-restore}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: "wharf.local/busybox:1", command: [sleep, "3600"]}
"""
BUILDS = "readlink /opt/wharfinger/current"
"""Its name ends with the version of Python, which may differ between hosts."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_of(tmp_path_factory.mktemp("operations"), hosts=3) as made:
        names = made.bed.names()
        made.write_inventory(names, control_plane=names)
        _previous_source(made)
        made.done("build.yml", on_controller=False)
        made.done("site.yml")
        made.run_pods(*names)
        yield made


def _previous_source(site: Site) -> None:
    """Deploy from the commit before this one; where that is not to be had, from this one."""
    folder = site.folder / "previous"
    folder.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD~1"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode == 0:
        subprocess.run(["tar", "--extract", "--directory", str(folder)], input=archive.stdout, check=True)
        site.copy_source(folder)
    shutil.rmtree(folder)


def _builds(found: dict[str, str]) -> set[str]:
    """Return which builds the hosts use, whatever their Python."""
    return {text.partition("-py")[0] for text in found.values()}


def _on_each(site: Site, command: str) -> dict[str, str]:
    return {name: site.bed.ssh(name, command).stdout for name in site.bed.names()}


def test_upgrade_under_load(site: Site) -> None:
    site.copy_source(ROOT)
    # Two commits may differ in nothing that is deployed; this makes it another build for certain.
    with (site.folder / "source/wharfinger/version.py").open("a") as file:
        file.write("\n# upgraded\n")
    site.done("build.yml", on_controller=False)
    containers, builds = _on_each(site, CONTAINERS), _on_each(site, BUILDS)
    load = HostLoad(site.bed, site.kubeconfig)
    try:
        site.done("upgrade.yml")
        report = load.end()
    finally:
        load.kill()
    print(f"upgrade: {report}")
    assert report.troubles == []
    after = _on_each(site, BUILDS)
    assert len(_builds(after)) == 1
    assert _builds(after) != _builds(builds), "nothing was upgraded"
    assert _on_each(site, CONTAINERS) == containers, "a container was restarted"
    # Every daemon runs from the new build.
    for name in site.bed.names():
        running = site.bed.ssh(
            name, "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -o '^/opt/wharfinger/[^/]*' | sort -u"
        )
        builds_running = set(running.stdout.split()) - {"/opt/wharfinger/current"}
        assert builds_running == {f"/opt/wharfinger/{after[name].strip()}"}
    assert len(list((site.state / "backups").iterdir())) == 1, "upgrade.yml takes a backup first"


def test_an_upgrade_stops_at_the_first_host_that_does_not_come_back(site: Site) -> None:
    first, second, _ = site.bed.names()
    good = (site.folder / "source/controlplane/scheduler/main.py").read_text()
    try:
        (site.folder / "source/controlplane/scheduler/main.py").write_text("raise SystemExit('broken on purpose')\n")
        site.done("build.yml", on_controller=False)
        before = _on_each(site, BUILDS)
        output = site.play("upgrade.yml", "-e", "wharf_upgrade_backup=false").stdout
        assert "broken on purpose" in output, output[-4000:]
        after = _on_each(site, BUILDS)
        assert after[first] != before[first]
        assert after[second] == before[second], "it went on to the next host"
    finally:
        (site.folder / "source/controlplane/scheduler/main.py").write_text(good)
    site.done("build.yml", on_controller=False)
    site.done("upgrade.yml", "-e", "wharf_upgrade_backup=false")
    assert len(_builds(_on_each(site, BUILDS))) == 1


def test_backup_destroy_restore(site: Site) -> None:
    site.wharf("create", "configmap", "kept", "--from-literal=a=1")
    site.wharf("create", "secret", "generic", "kept", "--from-literal=a=1")
    site.done("backup.yml")
    everything = _objects(site)
    assert "configmap/kept" in everything
    site.wharf("create", "configmap", "later", "--from-literal=a=1")
    backups = sorted((site.state / "backups").iterdir())
    assert sorted(path.name for path in backups[-1].iterdir()) == ["SHA256SUMS", "etcd.snapshot", "state.tar.gz"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in backups[-1].iterdir())

    for name in site.bed.names():  # no member is left that could help
        site.bed.ssh(name, "systemctl stop wharf-etcd && rm -rf /var/lib/wharfinger/etcd")
    assert "wharf_confirm" in site.play("restore.yml", "-e", f"wharf_backup={backups[-1]}").stdout
    site.done("restore.yml", "-e", f"wharf_backup={backups[-1]}", "-e", "wharf_confirm=true")
    assert _objects(site) == everything
    # The cluster goes on, although its revisions have gone back: new pods are scheduled and run.
    site.wharf("create", "-f", "-", text=AFTER)
    site.wharf("wait", "--for=condition=Ready", "pod/after-restore", "--timeout=120s")
    for name in site.bed.names():
        site.wharf("wait", "--for=condition=Ready", f"pod/on-{name}", "--timeout=60s")


def _objects(site: Site) -> set[str]:
    kinds = "namespaces,configmaps,secrets,nodes,pods,serviceaccounts,services,clusterroles,clusterrolebindings"
    return set(site.wharf("get", kinds, "--all-namespaces", "-o", "name").split())


def test_renew_certificates(site: Site) -> None:
    def serials() -> dict[str, str]:
        return _on_each(site, "for f in /etc/wharfinger/*/*.crt; do openssl x509 -noout -serial -in $f; done")

    before, containers = serials(), _on_each(site, CONTAINERS)
    load = HostLoad(site.bed, site.kubeconfig)
    try:
        site.done("renew-certificates.yml")
        report = load.end()
    finally:
        load.kill()
    print(f"renewal: {report}")
    assert report.troubles == []
    for name, lines in serials().items():
        shared = set(lines.split()) & set(before[name].split())
        assert len(shared) <= 2, "only the two authorities stay"
    assert _on_each(site, CONTAINERS) == containers
    wait_for(lambda: "NotReady" not in site.run_wharf("get", "nodes").stdout, timeout=60, what="every node to be ready")
    assert set(changes(site.done("site.yml")).values()) == {0}
