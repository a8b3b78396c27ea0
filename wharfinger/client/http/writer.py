"""The write stream's face over HTTP: each write is a request of its own, so many at a time."""

from __future__ import annotations

import asyncio
from typing import TypeVar, Unpack

from google.protobuf.message import Message

from wharfinger.api import disruption, errors, kinds
from wharfinger.api.types import core
from wharfinger.client.http.resources import HttpResourceClient
from wharfinger.client.http.transport import HttpTransport
from wharfinger.client.options import DeleteOptions, PatchOptions, WriteOptions
from wharfinger.client.verbs import Writer

M = TypeVar("M", bound=Message)

WRITES_AT_ONCE = 16


class HttpWriter(Writer):
    """Sends writes, a bounded number at a time."""

    def __init__(self, transport: HttpTransport) -> None:
        self._http = transport
        self._slots = asyncio.Semaphore(WRITES_AT_ONCE)
        self._ended = False

    def _resource(self, message: type[M]) -> HttpResourceClient[M]:
        if self._ended:
            raise errors.ServiceUnavailableError("this writer is closed")
        return HttpResourceClient(self._http, kinds.of(message), message)

    async def create(self, obj: M, **options: Unpack[WriteOptions]) -> M:
        """See Writer.create."""
        async with self._slots:
            return await self._resource(type(obj)).create(obj, **options)

    async def update(self, obj: M, *, subresource: str = "", **options: Unpack[WriteOptions]) -> M:
        """See Writer.update."""
        async with self._slots:
            return await self._resource(type(obj)).update(obj, subresource=subresource, **options)

    async def patch(self, message: type[M], name: str, **options: Unpack[PatchOptions]) -> M:
        """See Writer.patch."""
        async with self._slots:
            return await self._resource(message).patch(name, **options)

    async def delete(
        self, message: type[Message], name: str, *, namespace: str = "", **options: Unpack[DeleteOptions]
    ) -> None:
        """See Writer.delete."""
        async with self._slots:
            await self._resource(message).delete(name, namespace=namespace, **options)

    async def displace(
        self, pod: str, *, namespace: str, reason: str, message: str, uid: str | None = None, brief: bool = False
    ) -> None:
        """See Writer.displace: two requests, as Kubernetes' own components make them."""
        patch = disruption.patch(uid, reason, message)
        await self.patch(
            core.Pod, pod, patch=patch, patch_type="strategic", subresource="status", namespace=namespace, brief=brief
        )
        await self.delete(core.Pod, pod, namespace=namespace, uid=uid)

    async def close(self) -> None:
        """Take no more writes."""
        self._ended = True
