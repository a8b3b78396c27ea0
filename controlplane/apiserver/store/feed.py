"""The one etcd watch that feeds the cache: load, follow, resume, and start over when history is gone.

**Loading.** The keys are listed page by page at one past revision, and the watch starts right after it. That past
revision is chosen as far back as etcd still has it (`history` revisions at most): replaying what came after fills the
windows of the resources, so that watches resume across a restart of the apiserver. It lies at least one revision back
if at all possible, so that the events of the newest revision, which many keys may share, are known one by one.

**Following.** The watch spans the whole key space, so every revision brings an event, and "the cache has reached
revision N" is a fact and never an assumption: progress answers of etcd are not used (3.4 sends some ahead of the
events). Events are applied whole revisions at a time. A broken stream is opened again after the last revision
applied. etcd tells a watcher that its position is compacted: then everything is listed again, and the sink is told
that history has a gap.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any, Protocol

import grpc

from controlplane.apiserver.store import metrics
from controlplane.apiserver.store.client import EtcdClient, from_pb, prefix_end
from controlplane.apiserver.store.failures import Compacted, EtcdFailure, Unanswered, classify
from controlplane.apiserver.store.types import KeyValue
from wharfinger.proto.etcd import rpc_pb2

log = logging.getLogger(__name__)

PREFIXES = (b"/registry/", b"/wharfinger/")
PAGE = 64
"""Keys of the first page; later ones are as long as makes about `PAGE_BYTES`."""
PAGE_BYTES = 4 << 20
CHUNK = 500
"""Events applied before others get their turn on the event loop."""


class Sink(Protocol):
    """Where the feed brings what it reads."""

    @property
    def revision(self) -> int:
        """Every event up to it has been applied; 0 before the first load."""

    def load(self, kvs: Sequence[KeyValue], *, revision: int, first: int) -> None:
        """Replace everything by `kvs` as of `revision`; events from revision `first` on will follow."""

    def apply(self, events: Sequence[Any]) -> None:
        """Take events of etcd, in order, of whole revisions."""


class HistoryGap(Exception):  # noqa: N818
    """Raised when etcd no longer has the events after our position, or is not the store that it was."""


class Feed:
    """Runs until cancelled; see the module."""

    def __init__(self, client: EtcdClient, sink: Sink, *, history: int) -> None:
        self._client = client
        self._sink = sink
        self._history = history
        self._reading: asyncio.Task[None] | None = None
        self._heard = 0.0
        self._in_vain = 0
        self._gap = ""
        self._cluster = 0
        self._last: Any = None
        """The newest event that was applied; None when there was none since all was listed."""
        self._endpoint: Any = None
        client.moved.append(self._move)

    async def run(self) -> None:
        """Load, follow, and begin again whenever it has to."""
        reason = "start"
        while True:
            try:
                await self._load(reason)
                await self._follow()
            except HistoryGap as gap:
                reason = str(gap)
                log.warning("the watch cache lists etcd anew", extra={"reason": reason})
            except EtcdFailure as failure:
                # The client has logged that etcd is away; here only what is not that.
                level = logging.DEBUG if isinstance(failure, Unanswered | Compacted) else logging.ERROR
                log.log(level, "listing etcd failed; trying again", extra={"error": str(failure)})
                await asyncio.sleep(0.5)
            except Exception:  # a mistake of ours must not leave a cache that stands still
                reason = "error"
                log.exception("following etcd failed; the watch cache lists it anew")
                await asyncio.sleep(1)

    def reopen(self, patience: float, reason: str) -> None:
        """Break a stream that has brought nothing for `patience` seconds; it then goes on where it was.

        Each further time in vain the patience doubles, up to eight times: a busy machine needs time, not more work.
        """
        silent = time.monotonic() - self._heard
        if self._reading is None or silent < patience * min(2**self._in_vain, 8):
            return
        log.warning("the etcd watch stands still; opening it again", extra={"reason": reason})
        self._in_vain += 1
        self._reading.cancel()

    def _move(self, endpoint: Any) -> None:
        """Break the stream if it is at an endpoint that is of no use: it goes on elsewhere."""
        if self._reading is not None and self._endpoint is endpoint:
            self._reading.cancel()

    def start_over(self, reason: str) -> None:
        """Break the stream and list everything anew."""
        self._gap = reason
        if self._reading is not None:
            self._reading.cancel()

    # -- loading ------------------------------------------------------------------------------------------------

    async def _load(self, reason: str) -> None:
        self._gap, self._last = "", None
        answer = await self._client.range_raw(rpc_pb2.RangeRequest(key=b"\x00"))
        current: int = answer.header.revision
        self._cluster = answer.header.cluster_id
        most = self._history if reason == "start" else 1
        back = {max(1, min(steps, most)) for steps in (self._history, self._history // 10, 100, 10, 1)}
        for revision in sorted({max(1, current - steps) for steps in back}):
            try:
                kvs = await self._list(revision)
                break
            except Compacted:
                continue
        else:
            # Nothing was written since the last compaction: the events of `current` itself are gone for everybody.
            revision = current
            kvs = await self._list(current)
        first = revision if revision == current else revision + 1
        log.debug("listed etcd", extra={"keys": len(kvs), "revision": revision, "newest": current, "reason": reason})
        self._sink.load(kvs, revision=revision, first=first)

    async def _list(self, revision: int) -> list[KeyValue]:
        kvs: list[KeyValue] = []
        limit = PAGE
        for prefix in PREFIXES:
            start, end = prefix, prefix_end(prefix)
            while True:
                request = rpc_pb2.RangeRequest(key=start, range_end=end, revision=revision, limit=limit)
                answer = await self._client.range_raw(request)
                # Not kept as messages: those would hold on to the whole page beside the values.
                kvs.extend(map(from_pb, answer.kvs))
                limit = max(1, min(limit * 2, limit * PAGE_BYTES // max(answer.ByteSize(), 1), 5000))
                if not answer.more:
                    break
                start = answer.kvs[-1].key + b"\x00"
        return kvs

    # -- following ----------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Follow for as long as history is without a gap. Raises HistoryGap, Refused."""
        pause, reason = 0.0, "start"
        while True:
            if self._gap:
                raise HistoryGap(self._gap)
            before = self._sink.revision
            metrics.STREAMS.labels(reason).inc()
            endpoint = self._endpoint = self._client.endpoint
            stream = endpoint.watch.Watch(metadata=(("hasleader", "true"),))
            # A task of its own: grpc.aio's stream.cancel() does not wake a write that waits for the connection.
            reading = self._reading = asyncio.get_running_loop().create_task(self._read(stream))
            self._heard = time.monotonic()
            try:
                await asyncio.wait([reading])
                if reading.cancelled():
                    self._client.leave(endpoint)
                    reason = "silent"
                else:
                    reading.result()
                    reason = "ended"
            except grpc.aio.AioRpcError as error:
                failure = classify(error)
                if not isinstance(failure, Unanswered):
                    raise failure from error
                self._client.failed(endpoint, str(failure))
                reason = "broken"
            finally:
                self._reading = None
                reading.cancel()
                stream.cancel()
            pause = 0.02 if self._sink.revision > before else min(max(pause, 0.02) * 2, 1.0)
            if not self._gap:
                await asyncio.sleep(pause)

    async def _read(self, stream: Any) -> None:
        start = self._sink.revision + 1
        create = rpc_pb2.WatchCreateRequest(key=b"\x00", range_end=b"\x00", start_revision=start, fragment=True)
        await stream.write(rpc_pb2.WatchRequest(create_request=create))
        pending: list[Any] = []
        async for answer in stream:
            self._heard = time.monotonic()
            if answer.compact_revision:
                raise HistoryGap(f"revision {start} is compacted; etcd has {answer.compact_revision} and later")
            if answer.canceled:
                log.warning("etcd ended the watch", extra={"reason": answer.cancel_reason})
                return
            if answer.created:
                self._client.answered()
                if answer.header.cluster_id != self._cluster:
                    raise HistoryGap("etcd is another cluster than before")
                await self._compare(answer.header.revision)
                continue
            self._in_vain = 0
            pending.extend(answer.events)
            whole = _whole(pending) if answer.fragment else len(pending)
            if whole:
                await self._apply(pending[:whole])
                del pending[:whole]

    async def _compare(self, revision: int) -> None:
        """See whether etcd's history is the one that was followed. Raises HistoryGap.

        An etcd that was restored from a snapshot has lost its newest revisions, and soon gives their numbers to other
        changes: what it says happened last at our position tells the two apart, however far it has come meanwhile.
        """
        if revision < self._sink.revision:
            raise HistoryGap(f"etcd went back from revision {self._sink.revision} to {revision}")
        if (last := self._last) is None:
            return
        known = last.kv
        try:
            answer = await self._client.range_raw(rpc_pb2.RangeRequest(key=known.key, revision=known.mod_revision))
        except (Unanswered, Compacted):
            return  # the stream breaks, too, or its position is compacted and it says so
        found = answer.kvs[0] if answer.kvs else None
        if last.type:
            same = found is None
        else:
            same = found is not None and (found.mod_revision, found.value) == (known.mod_revision, known.value)
        if not same:
            raise HistoryGap(f"etcd has another history: revision {known.mod_revision} is not what it was")

    async def _apply(self, events: list[Any]) -> None:
        start = 0
        while start < len(events):
            stop = start + CHUNK
            if stop >= len(events):
                stop = len(events)
            else:
                revision = events[stop - 1].kv.mod_revision
                while stop < len(events) and events[stop].kv.mod_revision == revision:
                    stop += 1
            self._sink.apply(events[start:stop])
            self._last = events[stop - 1]
            start = stop
            if start < len(events):
                await asyncio.sleep(0)


def _whole(events: list[Any]) -> int:
    """Return how many of the events belong to revisions that are surely complete: all but the last revision's."""
    last = events[-1].kv.mod_revision
    count = len(events)
    while count and events[count - 1].kv.mod_revision == last:
        count -= 1
    return count
