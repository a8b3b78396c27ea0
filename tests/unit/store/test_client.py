"""How long callers wait for an etcd that is away."""

from __future__ import annotations

import pytest

from controlplane.apiserver.store import EtcdConfig, client
from controlplane.apiserver.store.client import Endpoint, EtcdClient


async def test_patience_wears_out_while_etcd_is_away_and_comes_back_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(client.time, "monotonic", lambda: now)
    etcd = EtcdClient(EtcdConfig(endpoints=("127.0.0.1:1",), patience=10.0))
    etcd.endpoints = [Endpoint("127.0.0.1:1", None)]
    assert etcd.patience == 10.0
    etcd.failed(etcd.endpoint, "refused")
    seen = []
    for now in (100.0, 104.0, 109.5, 500.0):  # noqa: B007  (the clock reads it)
        seen.append(etcd.patience)
    assert seen == [10.0, 6.0, 1.0, 1.0]
    etcd.answered()
    assert etcd.patience == 10.0
    await etcd.close()
