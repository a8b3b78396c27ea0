"""A write stream outlives neither its token nor its certificate."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import grpc.aio
import pytest

from controlplane.apiserver.grpcfront import streaming
from controlplane.apiserver.request import User
from wharfinger.api.errors import UnauthorizedError
from wharfinger.proto.native import resources_v1_pb2 as native


async def test_who_calls_is_asked_again_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "IDENTIFY_SECONDS", -1.0)
    batch = native.WriteBatch(writes=[native.Write(id=1, patch=native.PatchRequest())]).SerializeToString()
    messages = [batch, batch, batch, getattr(grpc.aio, "EOF")]  # noqa: B009
    known = [User("first"), User("second")]
    seen: list[str] = []

    class Call:
        async def read(self) -> Any:
            await asyncio.sleep(0)
            return messages.pop(0)

        async def write(self, _: bytes) -> None:
            return

    def identify() -> User:
        if not known:
            raise UnauthorizedError("Unauthorized")
        return known.pop(0)

    async def patch(user: User, _: Any) -> bytes:
        seen.append(user.name)
        return b""

    async def retried(call: Any, *args: Any) -> Any:
        return await call(*args)

    calls: Any = SimpleNamespace(auditing=None, on_stream={"patch": patch}, api=SimpleNamespace(retried=retried))
    stream = streaming.WriteStream(calls, User("at the start"), Call(), identify=identify)
    with pytest.raises(UnauthorizedError):
        await stream.serve()
    assert seen == ["first", "second"]
