"""A real node from a bootstrap token to renewed certificates: it stays ready, and its logs can be read all along."""

from __future__ import annotations

import json
import re
import stat
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nodeagent import certificates as own
from tests.support.clusters import started
from wharfinger.devtools.cluster import CONTROLLER_MANAGER, Cluster, Settings
from wharfinger.devtools.images import BUSYBOX_IMAGE
from wharfinger.devtools.processes import wait_until

NODE = "node-1"
LIFE = 16


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster whose node joins with a token; certificates last for seconds."""
    with tempfile.TemporaryDirectory(prefix="wharf-join-") as folder:
        yield from _joined(Path(folder))


def _joined(folder: Path) -> Iterator[Cluster]:
    settings = Settings(
        nodes=1,
        without=[NODE],
        flags={
            NODE: [
                "--kubeconfig", str(folder / "node.conf"), "--bootstrap-kubeconfig", str(folder / "bootstrap.conf"),
                "--cert-dir", str(folder / "pki"), "--tls-cert-file", "", "--tls-private-key-file", "",
                "--rotate-server-certificates",
            ],
            CONTROLLER_MANAGER: ["--cluster-signing-duration", f"{LIFE}s"],
        },
    )  # fmt: skip
    with started(settings, folder) as cluster:
        for_nodes = folder / "for-nodes.conf"
        host = cluster.switch.host_address
        for_nodes.write_text(cluster.kubeconfig.read_text().replace("127.0.0.1", host))
        made = cluster.wharf(
            "--kubeconfig", str(for_nodes), "token", "create", "--ttl", "10m",
            "--write-kubeconfig", str(folder / "bootstrap.conf"),
        )  # fmt: skip
        assert "written" in made.stdout
        settings.without.clear()
        cluster.start(NODE)
        cluster.wait_nodes_ready()
        yield cluster


def test_it_joins_renews_and_stays_ready(cluster: Cluster) -> None:
    folder = cluster.directory.parent
    client, serving = folder / "pki" / own.CLIENT_FILE, folder / "pki" / own.SERVING_FILE
    wait_until(serving.exists, 30)
    for path in (client, serving, folder / "node.conf", folder / "bootstrap.conf"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    token = re.search(r"token: (\S+)", (folder / "bootstrap.conf").read_text())
    assert token is not None
    listed = cluster.wharf("token", "list").stdout
    identifier, _, secret = token[1].partition(".")
    assert identifier in listed
    assert secret not in listed

    cluster.wharf("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    container = {"name": "c", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", "echo here I am; sleep 3600"]}
    document = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }  # fmt: skip
    cluster.wharf("create", "-f", "-", text=json.dumps(document))
    cluster.wharf("wait", "--for=condition=Ready", "pod/p", "--timeout=60s")
    assert "here I am" in cluster.wharf("logs", "p").stdout

    seen = {path: {own.read(path).serial_number} for path in (client, serving)}  # type: ignore[union-attr]
    changes = _transitions(cluster)

    def renewed_twice() -> bool:
        for path, serials in seen.items():
            certificate = own.read(path)
            assert certificate is not None, "a reader never sees half a file"
            serials.add(certificate.serial_number)
        return all(len(serials) > 2 for serials in seen.values())

    # By then the first certificates have ended: whoever still reads logs does so by the new ones.
    wait_until(renewed_twice, LIFE * 4)
    assert "here I am" in cluster.wharf("logs", "p").stdout
    assert _transitions(cluster) == changes, "the node was ready all the time"

    # The next certificates last, since an agent that comes back after its certificate's end needs the token again.
    cluster.processes.stop(CONTROLLER_MANAGER)
    del cluster.settings.flags[CONTROLLER_MANAGER]
    cluster.start(CONTROLLER_MANAGER)
    tomorrow = datetime.now(UTC) + timedelta(days=1)

    def lasts() -> bool:
        certificate = own.read(client)
        return certificate is not None and certificate.not_valid_after_utc > tomorrow

    wait_until(lasts, LIFE * 4)
    cluster.processes.stop(NODE)
    cluster.wharf("token", "delete", identifier)
    cluster.start(NODE)
    cluster.wait_nodes_ready()
    log = (cluster.directory / "logs" / f"{NODE}.log").read_text()
    assert "joined the cluster" in log
    for name in cluster.daemons():
        for text in cluster.directory.rglob(f"logs/{name}*"):
            assert secret not in text.read_text(), f"{text} has the token"
            assert "PRIVATE KEY" not in text.read_text()


def _transitions(cluster: Cluster) -> str:
    found = json.loads(cluster.wharf("get", "node", NODE, "-o", "json").stdout)["status"]["conditions"]
    ready = next(one for one in found if one["type"] == "Ready")
    assert ready["status"] == "True"
    return str(ready["lastTransitionTime"])
