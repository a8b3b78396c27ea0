"""Every certificate of a running cluster is replaced, and its authority as well; no daemon is started anew.

The authority is what proves it: once all servers believe only the new one, and all clients too, whoever still used an
old file could reach nobody. What is under test is the files' way into each daemon, not how long it takes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.etcd import have_etcd
from wharfinger import pki
from wharfinger.devtools.cluster import APISERVER, CONTROLLER_MANAGER, HOLLOW, SCHEDULER, Cluster, Settings
from wharfinger.devtools.processes import wait_until

SECONDS = 90.0
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec: {automountServiceAccountToken: false, containers: [{name: c, image: busybox}]}
"""
ETCD_FILES = ("etcd", "etcd-client")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    if not have_etcd():
        pytest.skip("needs etcd")
    with tempfile.TemporaryDirectory(prefix="wharf-renewed-") as folder:
        made = Cluster(Path(folder) / "cluster", Settings(nodes=0, hollow=1), progress=lambda _: None)
        try:
            made.up()
            yield made
        finally:
            made.down(purge=True)


def test_all_certificates_and_the_authority_are_exchanged(cluster: Cluster, tmp_path: Path) -> None:
    works(cluster, "before")
    daemons = (APISERVER, SCHEDULER, CONTROLLER_MANAGER, HOLLOW)
    processes = {name: cluster.pid(name) for name in daemons}
    old = tmp_path / "old-kubeconfig"
    old.write_bytes(cluster.kubeconfig.read_bytes())

    # First everybody believes both; then certificates of the new one; then nobody believes the old one.
    before, after = cluster.pki / "ca.crt", tmp_path / "new"
    pki.ensure_ca(after, "wharfinger")
    both = before.read_bytes() + (after / "ca.crt").read_bytes()
    renewals = count_of(cluster, "new client credentials")
    replace_authority(cluster, both)
    wait_until(lambda: all_renewed(cluster, renewals), SECONDS)
    (cluster.pki / "ca.key").write_bytes((after / "ca.key").read_bytes())
    renewals = count_of(cluster, "new client credentials")
    issue_all(cluster, pki.load_ca(after), (after / "ca.crt").read_bytes())
    wait_until(lambda: all_renewed(cluster, renewals), SECONDS)
    before.write_bytes((after / "ca.crt").read_bytes())

    works(cluster, "after")
    assert {name: cluster.pid(name) for name in daemons} == processes, "nobody was started anew"
    refused = cluster.wharf("--kubeconfig", str(old), "get", "pods", check=False)
    assert refused.returncode != 0, "the old authority is believed no longer"


def works(cluster: Cluster, name: str) -> None:
    """A pod passes through every daemon; a namespace and the use of the node through the rest of them."""
    # The server reads what is new at the handshake after, so a command that comes right then may be too early.
    wait_until(lambda: cluster.wharf("create", "namespace", name, check=False).returncode == 0, SECONDS)
    wait_until(lambda: "default" in cluster.wharf("get", "serviceaccounts", "-n", name).stdout, SECONDS)
    cluster.wharf("create", "-n", name, "-f", "-", text=POD.replace("NAME", name))
    wait_until(lambda: "Running" in cluster.wharf("get", "pod", "-n", name, name).stdout, SECONDS)
    # The apiserver asks the scheduler, by the certificate by which it asks agents, too.
    wait_until(lambda: "hollow-1" in cluster.wharf("why", "-n", name, name, check=False).stdout, SECONDS)


def replace_authority(cluster: Cluster, ca: bytes) -> None:
    (cluster.pki / "ca.crt").write_bytes(ca)
    for path in [
        cluster.kubeconfig,
        *(cluster.kubeconfig_of(name) for name in (SCHEDULER, CONTROLLER_MANAGER, HOLLOW)),
    ]:
        write_kubeconfig(cluster, path, ca)


def issue_all(cluster: Cluster, ca: pki.CA, authority: bytes) -> None:
    """Make every certificate but etcd's anew, under the same names."""
    for path in sorted(cluster.pki.glob("*.crt")):
        if path.stem in (*ETCD_FILES, "ca", "etcd-ca"):
            continue
        certificate = pki.read_pair(cluster.pki, path.stem).certificate
        name, groups = pki.identity(certificate)
        dns, ips = pki.alternative_names(certificate)
        pair = pki.issue_server(ca, name, dns, ips) if dns or ips else pki.issue_client(ca, name, groups)
        pki.write_pair(cluster.pki, path.stem, pair)
    for path in [
        cluster.kubeconfig,
        *(cluster.kubeconfig_of(name) for name in (SCHEDULER, CONTROLLER_MANAGER, HOLLOW)),
    ]:
        write_kubeconfig(cluster, path, authority)


def write_kubeconfig(cluster: Cluster, path: Path, ca: bytes) -> None:
    stem = "admin" if path == cluster.kubeconfig else path.name
    pair = pki.read_pair(cluster.pki, f"user-{stem}")
    pki.write_kubeconfig(
        path, server=f"https://127.0.0.1:{cluster.port('apiserver-https')}", grpc_endpoints=cluster.grpc_endpoints(),
        grpc_token_endpoints=cluster.grpc_endpoints(purpose="token"), ca=ca, cert=pair.cert, key=pair.key, user=stem,
        cluster="wharfinger", context="wharfinger",
    )  # fmt: skip


def count_of(cluster: Cluster, text: str) -> dict[str, int]:
    """How often each daemon with a kubeconfig has said something."""
    logs = cluster.directory / "logs"
    return {name: (logs / f"{name}.log").read_text().count(text) for name in (SCHEDULER, CONTROLLER_MANAGER, HOLLOW)}


def all_renewed(cluster: Cluster, before: dict[str, int]) -> bool:
    return all(count > before[name] for name, count in count_of(cluster, "new client credentials").items())
