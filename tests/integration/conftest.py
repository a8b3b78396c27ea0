"""Fixtures that every integration test may use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.etcd import Etcd, have_etcd


@pytest.fixture
def etcd() -> Iterator[Etcd]:
    """A fresh etcd of this test alone: kill and restart it at will."""
    if not have_etcd():
        pytest.skip("needs an etcd binary on the path (apt install etcd-server etcd-client)")
    with Etcd() as server:
        yield server
