"""The write stream's face over HTTP: each write is a request of its own, so many at a time."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from google.protobuf.message import Message

from wharfinger.api import errors, kinds
from wharfinger.client.http.resources import HttpResourceClient
from wharfinger.client.http.transport import HttpTransport
from wharfinger.client.resources import PatchType
from wharfinger.client.writer import Writer

M = TypeVar("M", bound=Message)

WRITES_AT_ONCE = 16


class HttpWriter(Writer):
    """Sends writes; every method awaits that write's own outcome."""

    def __init__(self, transport: HttpTransport) -> None:
        super().__init__(transport)  # type: ignore[arg-type]  # every method that uses it is replaced
        self._http = transport
        self._slots = asyncio.Semaphore(WRITES_AT_ONCE)
        self._ended = False

    def _resource(self, message: type[M]) -> HttpResourceClient[M]:
        if self._ended:
            raise errors.ServiceUnavailableError("this writer is closed")
        return HttpResourceClient(self._http, kinds.of(message), message)

    async def create(self, obj: M, **options: Any) -> M:
        """Store a new object; see ResourceClient.create."""
        async with self._slots:
            return await self._resource(type(obj)).create(obj, **options)

    async def update(self, obj: M, *, subresource: str = "", **options: Any) -> M:
        """Replace an object; see ResourceClient.update."""
        async with self._slots:
            return await self._resource(type(obj)).update(obj, subresource=subresource, **options)

    async def patch(
        self,
        message: type[M],
        name: str,
        *,
        patch: Any,
        patch_type: PatchType = "merge",
        namespace: str = "",
        subresource: str = "",
        **options: Any,
    ) -> M:
        """Change an object by a patch; see ResourceClient.patch."""
        async with self._slots:
            return await self._resource(message).patch(
                name, patch=patch, patch_type=patch_type, namespace=namespace, subresource=subresource, **options
            )

    async def delete(
        self,
        message: type[Message],
        name: str,
        *,
        namespace: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        **options: Any,
    ) -> None:
        """Delete an object; see ResourceClient.delete."""
        async with self._slots:
            await self._resource(message).delete(
                name,
                namespace=namespace,
                grace_period_seconds=grace_period_seconds,
                propagation_policy=propagation_policy,
                uid=uid,
                resource_version=resource_version,
                **options,
            )

    async def close(self) -> None:
        """Take no more writes."""
        self._ended = True
