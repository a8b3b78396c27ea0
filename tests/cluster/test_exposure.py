"""What hosts lay open: ports to the network, and secrets to who has a login on them or reads their logs.

Two hosts of different roles, with all daemons as talkative as they can be.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.deployment import ROOT, Site, site_of

SECRET = "a-password-that-is-nowhere-else-4711"
APP = """\
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {password: a-password-that-is-nowhere-else-4711}
---
apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: wharf.local/busybox:1
    command: [sleep, "36000"]
    volumeMounts: [{name: password, mountPath: /password}]
  volumes: [{name: password, secret: {secretName: password}}]
"""
DAEMONS = ("apiserver", "scheduler", "controller_manager", "nodeagent")
DENIED = {"UNAVAILABLE", "UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED"}
SSH = 22
UNITS = ["etcd", "containerd"]
"""The bed's Debian has every package; a real host has those of its roles."""


class Witness(threading.Thread):
    """Looks at every process and at the tokens of joining nodes while the playbooks run."""

    def __init__(self, state: Path) -> None:
        super().__init__(daemon=True)
        self.seen: set[str] = set()
        self.tokens: set[str] = set()
        self._state = state
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.2):
            for file in self._state.glob("joining-*"):
                self.tokens |= set(re.findall(r"token: (\S+)", file.read_text()))
            for process in psutil.process_iter(["cmdline"]):
                self.seen.update(process.info["cmdline"] or [])

    def end(self) -> None:
        self._over.set()
        self.join()


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Witness, str, float]]:
    with site_of(tmp_path_factory.mktemp("exposure"), hosts=2) as site:
        one, two = site.bed.names()
        for name, unit in zip((two, one), UNITS, strict=True):
            site.bed.ssh(name, f"systemctl disable --now {unit}")
        site.write_inventory(
            [two],
            control_plane=[one],
            variables={f"wharf_{name}_flags": ["--log-level", "debug"] for name in DAEMONS},
        )
        site.done("build.yml", on_controller=False)
        since = time.time()
        witness = Witness(site.state)
        witness.start()
        try:
            said = site.done("site.yml", "--diff", "-v")
        finally:
            witness.end()
        site.wharf("create", "-f", "-", text=APP)
        site.wharf("wait", "--for=condition=Ready", "pod/app", "--timeout=120s")
        yield site, witness, said, since


def _table() -> list[tuple[str, set[str], set[str]]]:
    """Return the ports that the page lists: number or ``any``, addresses, groups."""
    text = (ROOT / "docs/operations.md").read_text()
    rows = re.findall(r"^\| (\d+|any) \| ([^|]+) \| ([^|]+) \|", text, re.MULTILINE)
    assert len(rows) > 5
    return [
        (port, set(addresses.strip().split(", ")), set(groups.strip().split(", "))) for port, addresses, groups in rows
    ]


def _listening(site: Site, name: str) -> set[tuple[str, str]]:
    """Return where a host listens: host, 127.0.0.1 or all; and the port."""
    listening = set()
    for line in site.bed.ssh(name, "ss -Hltn; ss -Hlun").stdout.splitlines():
        address, _, port = line.split()[3].rpartition(":")
        address = address.strip("[]").removeprefix("::ffff:")
        kind = {"*": "all", "0.0.0.0": "all", "::": "all", site.bed.address(name): "host"}.get(address, address)
        listening.add((kind, port))
    return listening


def _scan(site: Site, pair: tuple[Path, Path] | None = None) -> dict[str, Any]:
    authorities = site.folder / "authorities.pem"
    pki = site.state / "pki"
    authorities.write_bytes((pki / "ca.crt").read_bytes() + (pki / "etcd/ca.crt").read_bytes())
    addresses = [site.bed.address(name) for name in site.bed.names()]
    shown = ["--cert", str(pair[0]), "--key", str(pair[1])] if pair else []
    done = subprocess.run(
        site.bed.on_controller(
            sys.executable, "-m", "tests.support.portscan", str(authorities), *addresses, *shown
        ),
        cwd=ROOT, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_ports(deployed: tuple[Site, Witness, str, float]) -> None:
    site, *_ = deployed
    one, two = site.bed.names()
    table = _table()
    roles = {one: {"control_plane", "etcd"}, two: {"nodes"}}
    for name, groups in roles.items():
        mine = [(port, addresses) for port, addresses, of in table if of & groups]
        listed = {(address, port) for port, addresses in mine for address in addresses}
        anywhere = {address for address, port in listed if port == "any"}
        found = {(address, port) for address, port in _listening(site, name) if port != str(SSH)}
        unlisted = {(address, port) for address, port in found - listed if address not in anywhere}
        assert not unlisted, f"{name} listens where the page does not say so"
        missing = {(address, port) for address, port in listed - found if port != "any"}
        assert not missing, f"the page lists what {name} does not do"

    stranger = _scan(site)
    outside = {
        f"{site.bed.address(name)}:{port}"
        for name, groups in roles.items()
        for port, addresses, of in table
        if of & groups and addresses & {"all", "host"}
    }
    assert {place for place in stranger if not place.endswith(f":{SSH}")} == outside
    for place in outside:
        answers = stranger[place]
        assert answers["plain"] == "", f"{place} answers without TLS"
        assert set(answers["https"].values()) <= {"", "401", "403", "404"}, place
        assert set(answers["grpc"].values()) <= DENIED, place

    # A node's own certificate opens neither another's agent nor the scheduler; and the administrator's shows that
    # the questions are such as are answered.
    node_file = site.bed.root(two) / "var/lib/wharfinger/node/pki/kubelet-client-current.pem"
    node = _scan(site, (node_file, node_file))
    admin = _scan(site, (site.state / "pki/admin.crt", site.state / "pki/admin.key"))
    usage, pending = "/wharfinger.v1.Streams/Usage", "/wharfinger.v1.Scheduling/Pending"
    for place, method in ((f"{site.bed.address(two)}:10250", usage), (f"{site.bed.address(one)}:10260", pending)):
        assert (node[place]["grpc"][method], admin[place]["grpc"][method]) == ("PERMISSION_DENIED", "OK")
    https = f"{site.bed.address(one)}:6443"
    assert (node[https]["https"]["/api/v1/secrets"], admin[https]["https"]["/api/v1/secrets"]) == ("403", "200")


def _secrets(site: Site, witness: Witness) -> dict[str, str]:
    """Return what must stay secret: a line of each key, tokens of nodes, the Secret's value."""
    pki = site.state / "pki"
    keys = {
        str(path.relative_to(pki)): next(line for line in path.read_text().splitlines() if not line.startswith("-"))
        for path in pki.rglob("*.key")
    }
    assert {"ca.key", "etcd/ca.key", "sa.key", "admin.key"} <= set(keys)
    assert witness.tokens, "no token was seen: the test would show nothing"
    tokens = {f"bootstrap token {number}": token.partition(".")[2] for number, token in enumerate(witness.tokens)}
    return {**keys, **tokens, "password": SECRET}


def test_secrets(deployed: tuple[Site, Witness, str, float]) -> None:
    site, witness, said, since = deployed
    one, two = site.bed.names()
    secrets = _secrets(site, witness)
    seen = "\n".join([*witness.seen, said])
    for name, text in secrets.items():
        assert text not in seen, f"{name} was in a command line or in Ansible's output"
    assert "PRIVATE KEY-----\n" not in seen
    # On the control machine: keys and kubeconfig for their owner alone, and no token any more.
    for path in site.state.rglob("*"):
        if path.suffix in (".key", ".kubeconfig"):
            assert path.stat().st_mode & 0o077 == 0, path
    assert site.state.stat().st_mode & 0o077 == 0
    assert not list(site.state.glob("joining-*"))
    assert "bootstrap-token-" not in site.wharf("get", "secrets", "--all-namespaces", "-o", "name")

    program = (ROOT / "tests/support/secretsearch.py").read_text()
    for name in (one, two):
        (site.bed.root(name) / "root/search.py").write_text(program)
        command = site.bed.on_controller(
            "ssh", *site.bed.ssh_options(), "-i", str(site.bed.key), f"root@{site.bed.address(name)}",
            "python3 /root/search.py",
        )  # fmt: skip
        done = subprocess.run(
            command, input=json.dumps({"secrets": secrets, "since": since}), text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["journal bytes"] > 10_000
        assert found["readable"] == {}, f"{name}: anybody can read it"
        assert found["processes"] == {}, name
        assert found["journal"] == [], name
        places = {secret: set(paths) for secret, paths in found["files"].items()}
        allowed = ("/etc/wharfinger/", "/var/lib/wharfinger/")
        astray = {path for paths in places.values() for path in paths if not path.startswith(allowed)}
        assert astray == set(), name
        # A host has its own keys and no other; the authority's is with who signs.
        own = {secret for secret in places if secret in secrets}
        if name == two:
            assert own == {"password"}
            assert places["a token of a service account"], "the pod has one: the search must find it"
            assert places["a private key"] == {
                f"/var/lib/wharfinger/node/pki/kubelet-{kind}-current.pem" for kind in ("client", "server")
            }
        else:
            expected = {secret for secret in secrets if secret.startswith(f"hosts/{one}/")} | {"ca.key", "sa.key"}
            in_etcd = {"password", *(secret for secret in secrets if secret.startswith("bootstrap"))}
            assert expected <= own <= expected | in_etcd
            assert places["ca.key"] == {"/etc/wharfinger/controller-manager/ca.key"}
            for secret in in_etcd & own:
                assert all(path.startswith("/var/lib/wharfinger/etcd/") for path in places[secret])
