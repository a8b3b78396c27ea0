"""A whole cluster for tests: real daemons, real nodes where some are wanted; gone without a trace afterwards."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import containerd
from tests.support.etcd import have_etcd
from wharfinger.devtools.cluster import Cluster, Settings, own_network


@contextlib.contextmanager
def started(settings: Settings, folder: Path | None = None) -> Iterator[Cluster]:
    """Start a cluster in `folder` (a temporary one unless given); its nodes are in a network that nobody uses.

    The test is skipped where the machine lacks what the cluster needs.
    """
    if not have_etcd():
        pytest.skip("needs an etcd binary on the path (apt install etcd-server etcd-client)")
    if settings.nodes:
        if why := containerd.why_not():
            pytest.skip(f"cannot run containers here: {why}")
        settings.prefix, settings.subnet = own_network()
    place = folder or Path(tempfile.mkdtemp(prefix="wharf-test-"))
    cluster = Cluster(place / "c", settings, progress=lambda _: None)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down(purge=True)
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)
