"""Waiting for something in the API to become true, by watching instead of asking again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wharfinger.api.kinds import Kind
    from wharfinger.client import Client


async def until(
    client: Client, kind: Kind, name: str, *, namespace: str, met: Callable[[Any | None], bool],
    timeout: float | None = None,
) -> Any | None:  # fmt: skip
    """Watch one object until `met` holds of it (None: it is not there); returns it as it was then.

    Raises TimeoutError after `timeout` seconds.
    """
    from wharfinger.cli.watching import changes

    resource: Any = client.resource(kind.message)
    async with asyncio.timeout(timeout):
        current: Any | None = None
        async for batch in changes(resource, namespace=namespace, field_selector=f"metadata.name={name}"):
            if batch.initial:
                current = batch.events[0].object if batch.events else None
                if met(current):
                    return current
            for event in batch.events if not batch.initial else ():
                if event.type == "BOOKMARK":
                    continue
                current = None if event.type == "DELETED" else event.object
                if met(current):
                    return current
    raise AssertionError("unreachable: changes() never ends")


async def until_gone(
    client: Client, kind: Kind, name: str, *, namespace: str, uid: str = "", timeout: float | None = None
) -> None:
    """Wait until an object is gone, or another one has taken its name. Raises TimeoutError."""

    def gone(obj: Any | None) -> bool:
        return obj is None or (bool(uid) and obj.metadata.uid != uid)

    await until(client, kind, name, namespace=namespace, met=gone, timeout=timeout)
