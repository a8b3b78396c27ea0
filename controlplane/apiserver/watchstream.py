"""What both fronts send of a watch: the bytes of its events, joined to pieces of a bounded size.

Everything that is ready goes out together; the bookmark that ends initial events only to those who asked for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from controlplane.apiserver.registry.reader import Watching
    from controlplane.apiserver.store import Watcher, WatchEvent

CHUNK_BYTES = 256 << 10


async def pieces(watcher: Watcher, watching: Watching, make: Callable[[WatchEvent], bytes]) -> AsyncIterator[bytes]:
    """Yield joined events, each batch in one piece or several. `make` returns an event's bytes; none: nothing to say.

    Raises what the watcher raises.
    """
    async for batch in watcher:
        parts: list[bytes] = []
        size = 0
        for event in batch:
            if event.initial_end and not watching.mark_initial_end:
                continue
            part = make(event)
            parts.append(part)
            size += len(part)
            if size >= CHUNK_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
        if size:
            yield b"".join(parts)
