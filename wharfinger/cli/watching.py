"""What is there and then every change, across lost connections and versions that are too old.

A command that waits must outlive an apiserver's restart: the watch is resumed at the last version seen (bookmarks
move it on), and listed anew only when the server no longer knows that version.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from wharfinger.api.errors import GoneError, ServiceUnavailableError
from wharfinger.cli.failures import complain
from wharfinger.client import Event

_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0


@dataclass
class Batch:
    """Changes that came together."""

    events: list[Event[Any]]
    initial: bool = False
    """These are no changes: it is what was there at first (or after the thread was lost)."""


async def changes(
    resource: Any, *, namespace: str, label_selector: str = "", field_selector: str = ""
) -> AsyncIterator[Batch]:
    """Yield first what is there, then every change, for ever."""
    selectors = {"label_selector": label_selector, "field_selector": field_selector}
    version = ""
    pause = _FIRST_PAUSE
    while True:
        try:
            if not version:
                listed = await resource.list(namespace=namespace, **selectors)
                version = listed.resource_version
                yield Batch([Event("ADDED", obj, obj.metadata.resourceVersion) for obj in listed.items], initial=True)
            async for events in resource.watch(namespace=namespace, resource_version=version, **selectors):
                pause = _FIRST_PAUSE
                version = events[-1].resource_version if events else version
                yield Batch(events)
        except GoneError:
            version = ""
        except ServiceUnavailableError as error:
            if not version:
                raise
            if pause == _FIRST_PAUSE:
                complain(f"warning: the connection is lost, trying to resume: {error.message}")
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
