"""What an operator does to a cluster that is in use: upgrade, back up, destroy, restore, renew keys and certificates.

Three hosts are everything at once (control plane, etcd, nodes), and clients write and read all the time. Secrets are
encrypted in etcd throughout.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
DAEMONS = "systemctl show --property MainPID --value wharf-{etcd,apiserver,scheduler,controller-manager}"
ARCHIVED = ["etcd.snapshot", "state.tar.gz"]
PASSWORD = "in-etcd-nobody-must-find-this-4712"
STORED = """\
cd /etc/wharfinger/etcd && ETCDCTL_API=3 etcdctl --endpoints https://127.0.0.1:2379 --cacert ca.crt --cert server.crt \
  --key server.key get --consistency s --print-value-only /registry/secrets/default/kept | head -c 26
"""
"""The beginning of a Secret's value as one member of etcd has it, whatever the others say."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_of(tmp_path_factory.mktemp("operations"), hosts=3) as made:
        names = made.bed.names()
        made.write_inventory(names, control_plane=names, variables={"wharf_encryption": True})
        _previous_source(made)
        made.done("build.yml", on_controller=False)
        made.done("site.yml")
        made.run_pods(*names)
        made.wharf("create", "secret", "generic", "kept", f"--from-literal=password={PASSWORD}")
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


def _check_kept(site: Site, key: str) -> None:
    """The Secret is written with that key on every member of etcd, and every apiserver reads it."""
    site.wharf("annotate", "--overwrite", "secret", "kept", f"read={key}")
    for name in site.bed.names():
        wait_for(
            lambda name=name: site.bed.ssh(name, STORED).stdout.startswith(f"k8s:enc:secretbox:v1:{key}:"),  # type: ignore[misc]
            timeout=60, what=f"etcd on {name} to have the Secret encrypted with {key}",
        )  # fmt: skip
        found = site.bed.ssh(name, f"grep -ral {PASSWORD} /var/lib/wharfinger/etcd", check=False).stdout
        assert found == "", f"{name}: plain text in {found}"
        server = ("--server", f"{site.bed.address(name)}:6444")
        read = site.wharf(*server, "get", "secret", "kept", "-o", "jsonpath={.data.password}")
        assert b64decode(read).decode() == PASSWORD
        assert "secret/kept" in site.wharf(*server, "get", "secrets", "-A", "-o", "name")


def test_backups_that_do_not_work_out(site: Site, tmp_path: Path) -> None:
    site.done("backup.yml")
    good = sorted((site.state / "backups").iterdir())[-1]
    daemons = _on_each(site, DAEMONS)

    def refused(backup: Path, why: str, *arguments: str) -> None:
        chosen = ("-e", f"wharf_backup={backup}", "-e", "wharf_confirm=true")
        output = site.play("restore.yml", *chosen, *arguments).stdout
        assert why in " ".join(output.split()), output[-4000:]
        assert "nothing was touched" in " ".join(output.split()), output[-4000:]

    def broken(name: str, content: bytes | None, *, summed: bool = False) -> Path:
        backup = tmp_path / name
        shutil.copytree(good, backup)
        file = backup / "etcd.snapshot"
        file.unlink() if content is None else file.write_bytes(content)
        if summed:
            lines = [f"{hashlib.sha256((backup / one).read_bytes()).hexdigest()}  {one}" for one in ARCHIVED]
            (backup / "SHA256SUMS").write_text("\n".join(lines) + "\n")
        return backup

    snapshot = (good / "etcd.snapshot").read_bytes()
    flipped = bytearray(snapshot)
    flipped[len(flipped) // 2] ^= 1
    refused(broken("missing", None), "there is no etcd.snapshot")
    refused(broken("truncated", snapshot[: len(snapshot) // 2]), "etcd.snapshot: FAILED")
    refused(broken("flipped", bytes(flipped)), "etcd.snapshot: FAILED")
    # Sums that fit what is broken: etcd's own within the snapshot tells.
    refused(broken("flipped-before", bytes(flipped), summed=True), "cannot use the snapshot")
    refused(broken("no-snapshot", b"a letter to the editor", summed=True), "cannot use the snapshot")
    refused(good, "are set up to read none", "-e", "wharf_encryption=false")

    name = site.bed.names()[0]
    site.bed.ssh(name, "mkdir /small && mount -t tmpfs -o size=20m small /small")
    try:
        output = site.play("backup.yml", "-e", "wharf_snapshot_dir=/small/snapshot").stdout
        assert "make room" in output, output[-4000:]
        assert site.bed.ssh(name, "ls /small").stdout == ""
    finally:
        site.bed.ssh(name, "umount /small && rmdir /small")
    with _small_disk(tmp_path / "small") as small:
        output = site.play("backup.yml", "-e", f"wharf_backup_dir={small}").stdout
        assert "make room" in output, output[-4000:]
        assert list(small.iterdir()) == []

    assert _on_each(site, DAEMONS) == daemons, "a daemon was stopped"
    left = _on_each(site, "ls /var/lib/wharfinger | grep -E 'snapshot|restored'; true")
    assert set(left.values()) == {""}, left


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "small", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_backup_new_key_destroy_restore(site: Site) -> None:
    site.wharf("create", "configmap", "kept", "--from-literal=a=1")
    _check_kept(site, "key1")
    site.done("backup.yml")
    everything = _objects(site)
    assert "configmap/kept" in everything
    site.wharf("create", "configmap", "later", "--from-literal=a=1")
    backup = sorted((site.state / "backups").iterdir())[-1]
    assert sorted(path.name for path in backup.iterdir()) == ["SHA256SUMS", *ARCHIVED]
    assert all(path.stat().st_mode & 0o077 == 0 for path in backup.iterdir())

    load = HostLoad(site.bed, site.kubeconfig)
    try:
        site.done("renew-encryption-key.yml")
        report = load.end()
    finally:
        load.kill()
    print(f"new key: {report}")
    assert report.troubles == []
    assert report.secrets > 0
    _check_kept(site, "key2")
    assert "key1" not in (site.state / "pki/encryption.yaml").read_text()

    for name in site.bed.names():  # no member is left that could help
        site.bed.ssh(name, "systemctl stop wharf-etcd && rm -rf /var/lib/wharfinger/etcd")
    assert "wharf_confirm" in site.play("restore.yml", "-e", f"wharf_backup={backup}").stdout
    site.done("restore.yml", "-e", f"wharf_backup={backup}", "-e", "wharf_confirm=true")
    assert _objects(site) == everything
    _check_kept(site, "key1")  # the backup's key is back with it
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


def _accepting(site: Site, token: str) -> dict[str, str]:
    """Return what each apiserver answers to a token: HTTP's code."""
    command = ("curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--header", "@-")
    answers = {}
    for name in site.bed.names():
        url = f"https://{site.bed.address(name)}:6443/api"
        request = site.bed.on_controller(*command, "--cacert", str(site.state / "pki/ca.crt"), url)
        header = f"Authorization: Bearer {token}"
        answers[name] = subprocess.run(request, input=header, text=True, capture_output=True, check=True).stdout
    return answers


def test_new_key_of_service_accounts(site: Site) -> None:
    good, bad = (dict.fromkeys(site.bed.names(), code) for code in ("200", "401"))
    old = site.wharf("create", "token", "default").strip()
    assert _accepting(site, old) == good
    site.done("renew-account-key.yml")
    new = site.wharf("create", "token", "default").strip()
    assert _key_of(new) != _key_of(old)
    assert _accepting(site, old) == _accepting(site, new) == good
    site.done("renew-account-key.yml", "-e", "wharf_drop_account_keys=true")
    assert _accepting(site, old) == bad
    assert _accepting(site, new) == good


def _key_of(token: str) -> str:
    header = token.partition(".")[0]
    return str(json.loads(urlsafe_b64decode(header + "=" * (-len(header) % 4)))["kid"])
