"""A TCP proxy that loses what a network may lose: answers, requests, connections."""

from __future__ import annotations

import asyncio
from typing import Self


class Proxy:
    """Stands before ``host:port``; `address` is where clients connect to.

    * ``forward`` (the default): everything passes.
    * ``down``: connections are refused, those that are open are cut.
    * ``swallow``: requests pass, answers do not. Set ``down`` when the requests have had their effect.
    * ``cut``: the connection is cut at the first byte that a client sends; nothing passes.
    * ``freeze``: nothing passes, and nobody is told.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thawed = asyncio.Event()
        self.mode = "forward"
        self.address = ""
        self.lost = asyncio.Event()
        """Set when a connection was cut in ``cut``."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self.set("forward")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._cut()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def set(self, mode: str) -> None:
        """Behave so from now on."""
        self.mode = mode
        self.lost.clear()
        if mode == "freeze":
            self._thawed.clear()
        else:
            self._thawed.set()
        if mode == "down":
            self._cut()

    def _cut(self) -> None:
        for writer in tuple(self._open):
            writer.transport.abort()
        self._open.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mode == "down":
            writer.transport.abort()
            return
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, upstream_writer}
        for coroutine in (
            self._pipe(reader, upstream_writer, writer, answers=False),
            self._pipe(upstream_reader, writer, upstream_writer, answers=True),
        ):
            task = asyncio.get_running_loop().create_task(coroutine)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, other: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        try:
            while data := await reader.read(65536):
                await self._thawed.wait()
                if self.mode == "swallow" and answers:
                    continue
                if self.mode == "cut":
                    self.mode = "down"
                    self._cut()
                    self.lost.set()
                    return
                writer.write(data)
                await writer.drain()
        except (ConnectionError, OSError):
            return
        finally:
            writer.transport.abort()
            other.transport.abort()
            self._open -= {writer, other}
