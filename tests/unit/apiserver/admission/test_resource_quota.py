"""Charging quotas when the store holds what nobody can read; how quotas count is tested on a real server."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.apiserver.admission.resource_quota import ResourceQuota
from controlplane.apiserver.request import Request, User
from wharfinger.api import errors, kinds
from wharfinger.api.types import core


class BrokenCache:
    """Holds one quota whose value is none."""

    def listen(self, prefix: str, changed: Any) -> None:
        changed(prefix)

    def list(self, prefix: str, *, namespace: str = "") -> Any:
        entry = SimpleNamespace(key=f"{prefix}a/q", namespace="a", mod_revision=1, value=b"no quota")
        return SimpleNamespace(entries=[entry])


async def test_who_waits_for_quotas_that_cannot_be_read_is_told_so() -> None:
    cache: Any = BrokenCache()
    store: Any = None
    step = ResourceQuota(cache, store)
    secret = core.Secret()
    secret.metadata.name, secret.metadata.namespace = "s", "a"

    async def create() -> None:
        waiting = step.admit(Request(User("jane"), "create", kinds.of(core.Secret), "a"), secret, None)
        assert waiting is not None
        await waiting

    async with asyncio.timeout(10):
        outcomes = await asyncio.gather(create(), create(), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [errors.InternalError] * 2
        with pytest.raises(errors.InternalError):  # and the next one is not stuck behind them
            await create()
