"""Group commit: concurrent writes gathered into one etcd transaction, each with its own conditions and outcome.

A transaction costs etcd one raft entry and one fsync however much is in it, and the client one gRPC call: groups of
32 to 100 commit four to six times as many compare-and-swaps a second as single transactions. What keeps members
independent:

* All compares of nested transactions are evaluated before any of them writes. So no member may write a key that another
  one of the group writes *or compares*; such a member waits for a later group, and nothing that touches its keys
  overtakes it. Keys that are only compared (a fence) may be shared.
* etcd with too many requests refuses a group before it happens: it is sent again, after a pause that doubles.
* etcd refuses a group as a whole for one bad member (too large, lease ended): then each is sent alone. Under the space
  alarm only transactions without puts pass, so those go apart from the others.
* outer operations plus the deepest member stay within etcd's ``--max-txn-ops`` (128), the request below its 1.5 MiB.

Pacing: an idle store commits at once. After a group of two or more the next waits until the queue is as long again, for
3 ms at most: those whose answers just went out are about to write again, and a group of one would make them all wait.

**Lost answers.** A transaction that got no answer may have happened, or may happen yet: seconds later, say when a
stopped leader goes on and passes it to the new one. So that a second copy can never follow a first, every transaction
compares that a key of ours is *not* there (:class:`encode.Guard`); it costs etcd a look-up. When an answer is lost that
key is made: from then on no copy that is still under way can happen, and the next transactions have another key. Then
members are settled from history: etcd is asked for every event since the last revision seen before the transaction was
sent. A member whose value shows up there has happened at that revision (also when it was changed or deleted again
since). One that does not has not happened and never will, and is sent again. Only where history was compacted
meanwhile, or the key cannot be made (no space), the outcome stays unknown: 504. Callers wait for all that,
`EtcdConfig.patience` seconds at most; a write that was never sent ends in 503 then.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Sequence
from typing import Any

from controlplane.apiserver.store import encode, metrics
from controlplane.apiserver.store.client import EtcdClient, from_pb
from controlplane.apiserver.store.failures import EtcdFailure, LeaseGone, NoSpace, Overloaded, Unanswered
from controlplane.apiserver.store.types import Committed, CompareFailed, KeyValue, Put, Write
from wharfinger.api import errors

log = logging.getLogger(__name__)

MAX_TXN_OPS = 128
GROUP_BYTES = 1_000_000
PAUSE = 0.003
GUARDS = "/wharfinger/guards/"
GUARD_SECONDS = 30 * 86_400
"""How long a guard stays: longer than any host sleeps with somebody's request in its memory."""
MAX_DEFERRED = 256
"""Members passed over while a group is filled, before looking further stops paying."""


class Member:
    """One write on its way."""

    __slots__ = ("base", "body", "deadline", "future", "guard", "keys", "ops", "uncertain", "write", "writes")

    def __init__(self, write: Write, leases: Sequence[int], future: asyncio.Future[Committed], deadline: float) -> None:
        self.write = write
        self.body = encode.member(write, leases)
        self.future = future
        self.deadline = deadline
        self.writes = {put.key for put in write.puts}
        self.writes.update(write.deletes)
        compared = [key for key, _ in write.compares]
        self.keys = self.writes.union(compared)
        self.ops = max(len(compared), len(write.puts) + len(write.deletes))
        self.base = 0
        """A revision from before it was first sent."""
        self.uncertain = False
        """Whether it was sent without an answer."""
        self.guard: encode.Guard | None = None
        """Of the transaction in which it was sent last."""


class Committer:
    """Takes writes one by one and commits them in groups; see the module.

    `group_max` of 1 turns grouping off. `lazy_tick` is how many seconds a lazy write waits for others.
    """

    def __init__(self, client: EtcdClient, *, group_max: int = 100, lazy_tick: float = 0.05) -> None:
        if not 1 <= group_max < MAX_TXN_OPS:
            raise ValueError(f"group-commit-max: {group_max}: must be between 1 and {MAX_TXN_OPS - 1}")
        self._client = client
        self._group_max = group_max
        self._lazy_tick = lazy_tick
        # Without grouping, writes go out side by side as they come.
        self._in_flight_max = 2 if group_max > 1 else 256
        self._queue: deque[Member] = deque()
        self._lazy: list[Member] = []
        self._in_flight = 0
        self._last = 0
        self._last_done = 0.0
        self._pace: asyncio.TimerHandle | None = None
        self._soon: asyncio.Handle | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._recovery: asyncio.Task[None] | None = None
        self._unsettled: list[Member] = []
        self._alarmed = False
        self._overload_pause = 0.0
        """Seconds before the next attempt: longer with each refusal of an etcd that has too many requests."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._series = uuid.uuid4().hex[:16]
        self._guards = 0
        self._guard = self._new_guard()
        self._guard_lease = 0

    async def commit(self, write: Write, leases: Sequence[int], *, lazy: bool = False) -> Committed:
        """Commit one write. Raises CompareFailed, EtcdFailure (refused, nothing written) or StatusError."""
        loop = self._loop
        member = Member(write, leases, loop.create_future(), loop.time() + self._client.patience)
        if member.ops > MAX_TXN_OPS - 1:
            raise errors.RequestTooLargeError(f"a write of {member.ops} keys: must be at most {MAX_TXN_OPS - 1}")
        if lazy and self._group_max > 1:
            self._lazy.append(member)
            if self._tick is None:
                self._tick = loop.call_later(self._lazy_tick, self._release_lazy)
        else:
            self._queue.append(member)
            self._pump()
        return await member.future

    async def close(self) -> None:
        """Let what is queued or under way end, within `EtcdConfig.patience`; callers still left get 503 or 504."""
        self._release_lazy()
        deadline = self._loop.time() + self._client.config.patience
        while (self._queue or self._in_flight or self._recovery) and self._loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for member in [*self._queue, *self._unsettled]:
            member.deadline = 0
        self._expire()

    def _release_lazy(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        self._queue.extend(self._lazy)
        self._lazy.clear()
        self._pump()

    # -- pacing -------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Launch a group if it is time for one; else see to it that it will be."""
        waiting = len(self._queue)
        if not waiting or self._soon is not None or self._recovery is not None:
            return
        if self._in_flight:
            if self._in_flight >= self._in_flight_max or waiting < min(self._last or 1, self._group_max):
                return
        elif self._last >= 2 and waiting < min(self._last, self._group_max):
            wait = self._last_done + PAUSE - self._loop.time()
            if wait > 0:
                if self._pace is None:
                    self._pace = self._loop.call_later(wait, self._paced)
                return
        # At the end of this turn of the loop: what else this turn brings comes along.
        self._soon = self._loop.call_soon(self._launch)

    def _paced(self) -> None:
        self._pace = None
        self._last = 0
        self._pump()

    def _launch(self) -> None:
        self._soon = None
        if self._pace is not None:
            self._pace.cancel()
            self._pace = None
        if self._lazy:  # they may as well come along
            self._queue.extend(self._lazy)
            self._lazy.clear()
        group = self._take()
        if not group:
            return
        self._in_flight += 1
        self._spawn(self._run(group))
        metrics.QUEUED.set(len(self._queue))
        self._pump()

    def _spawn(self, coroutine: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _take(self) -> list[Member]:
        """Take the longest group from the head of the queue that may go together."""
        queue, group, deferred = self._queue, list[Member](), list[Member]()
        size = deepest = 0
        written: set[str] = set()
        touched: set[str] = set()
        while queue and len(group) < self._group_max and len(deferred) < MAX_DEFERRED:
            member = queue.popleft()
            if member.future.done():  # its caller has gone
                continue
            depth = max(deepest, member.ops)
            if group and (len(group) + 1 + depth > MAX_TXN_OPS or size + len(member.body) > GROUP_BYTES):
                queue.appendleft(member)
                break
            fits = written.isdisjoint(member.keys) and touched.isdisjoint(member.writes)
            if fits and self._alarmed and group and bool(member.write.puts) != bool(group[0].write.puts):
                fits = False
            written |= member.writes
            touched |= member.keys
            if fits:
                group.append(member)
                size += len(member.body)
                deepest = depth
            else:
                deferred.append(member)
        queue.extendleft(reversed(deferred))
        return group

    # -- sending ------------------------------------------------------------------------------------------------

    async def _run(self, group: list[Member]) -> None:
        try:
            await self._send(group)
        finally:
            self._in_flight -= 1
            self._last = len(group)
            self._last_done = self._loop.time()
            self._pump()

    async def _send(self, group: list[Member]) -> None:
        try:
            base = self._client.seen or await self._client.revision()
            guard = self._guard
            for member in group:
                if not member.base:
                    member.base = base
                member.guard = guard
            single = len(group) == 1
            body = guard.single(group[0].body) if single else _encode(group, guard)
            answer = await self._client.txn(body)
        except Overloaded:
            self._overload_pause = min(max(2 * self._overload_pause, 0.01), 0.5)
            self._recover(group)
            return
        except Unanswered:
            for member in group:
                member.uncertain = member.base > 0
            self._recover(group)
            return
        except NoSpace as failure:
            self._alarmed = True
            await self._without_space(group, failure)
            return
        except EtcdFailure as failure:
            if single:
                self._fail(group[0], failure)
            else:
                log.debug("etcd refused a group; sending its writes alone", extra={"members": len(group)})
                for member in group:
                    await self._send([member])
            return
        except Exception as error:  # a mistake of ours must not leave callers waiting
            for member in group:
                if not member.future.done():
                    member.future.set_exception(error)
            log.exception("sending a group failed")
            return
        self._overload_pause = 0.0
        if not answer.succeeded and _shows(answer, guard):
            # An answer was lost before, and the guard made: this has not happened.
            if self._guard is guard:
                self._guard = self._new_guard()
            self._recover(group)
            return
        metrics.GROUP_SIZE.observe(len(group))
        revision = answer.header.revision
        if single:
            self._settle(group[0], answer, revision)
        else:
            for member, response in zip(group, answer.responses, strict=True):
                self._settle(member, response.response_txn, revision)

    async def _without_space(self, group: list[Member], failure: NoSpace) -> None:
        deletes = [member for member in group if not member.write.puts]
        for member in group:
            if member.write.puts:
                self._fail(member, failure)
        if len(deletes) == len(group):
            if len(deletes) == 1:
                self._fail(deletes[0], failure)
                return
            for member in deletes:
                await self._send([member])
        elif deletes:
            await self._send(deletes)

    def _settle(self, member: Member, answer: Any, revision: int) -> None:
        if answer.succeeded:
            if self._alarmed and member.write.puts:
                self._alarmed = False
            self._done(member, revision)
        else:
            current: dict[str, KeyValue | None] = {key: None for key, _ in member.write.compares}
            for response in answer.responses:
                for kv in response.response_range.kvs:
                    found = from_pb(kv)
                    current[found.key] = found
            self._lose(member, CompareFailed(current))

    def _lose(self, member: Member, lost: CompareFailed) -> None:
        if not member.future.done():
            metrics.WRITES.labels("compare_failed").inc()
            member.future.set_exception(lost)

    def _done(self, member: Member, revision: int) -> None:
        if not member.future.done():
            metrics.WRITES.labels("committed").inc()
            member.future.set_result(Committed(revision))

    def _fail(self, member: Member, failure: Exception) -> None:
        """End a member with a failure; one whose first copy got no answer may have happened all the same."""
        if not member.future.done():
            if member.uncertain:
                failure = _unknown()
            metrics.WRITES.labels("failed").inc()
            member.future.set_exception(failure)

    # -- lost answers -------------------------------------------------------------------------------------------

    def _recover(self, members: list[Member]) -> None:
        self._unsettled.extend(members)
        if self._recovery is None:
            self._recovery = self._spawn(self._recover_all())

    async def _recover_all(self) -> None:
        """Wait for etcd, settle what is unsettled, then let the queue go on."""
        pause = 0.02
        try:
            while True:
                members, self._unsettled = self._unsettled, []
                try:
                    certain = [member for member in members if not member.uncertain]
                    uncertain = [member for member in members if member.uncertain]
                    async with asyncio.timeout(self._client.config.timeout):
                        again = await self._settle_from_history(uncertain)
                except (EtcdFailure, TimeoutError):
                    self._unsettled = members + self._unsettled
                    self._expire()
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, 0.5)
                    continue
                except Exception as error:  # a mistake of ours must not leave callers waiting
                    log.exception("settling writes failed")
                    for member in members:
                        self._fail(member, error)
                    continue
                self._queue.extendleft(reversed(certain + again))
                if self._overload_pause:
                    await asyncio.sleep(self._overload_pause)
                    self._expire()
                if not self._unsettled:
                    return
        finally:
            self._recovery = None
            self._pump()

    async def _settle_from_history(self, members: list[Member]) -> list[Member]:
        """End the members that have happened; return those to be sent again. Raises EtcdFailure."""
        await self._client.probe()
        if not members:
            return []
        final = await self._end_copies(members)
        base = min(member.base for member in members)
        events, first = await self._client.history(base + 1)
        puts: dict[tuple[str, bytes], int] = {}
        deleted: dict[str, int] = {}
        for event in events:
            key = event.kv.key.decode("utf-8", "surrogateescape")
            if event.type == 0:
                puts[key, event.kv.value] = event.kv.mod_revision
            else:
                deleted[key] = event.kv.mod_revision
        again: list[Member] = []
        for member in members:
            write = member.write
            if write.puts:
                found = {puts.get((put.key, put.value), 0) for put in write.puts}
            else:
                found = {deleted.get(key, 0) for key in write.deletes}
            if len(found) == 1 and min(found) > member.base:
                self._done(member, found.pop())
            elif member.base + 1 < first:
                self._fail(member, _unknown())  # what would tell is compacted
            elif final:
                member.uncertain = False
                again.append(member)
            else:
                self._fail(member, _unknown())
        return again

    async def _end_copies(self, members: Sequence[Member]) -> bool:
        """See to it that no copy of these that is still under way can happen; False when etcd has no room for that.

        Raises EtcdFailure.
        """
        if all(member.guard is not self._guard for member in members):
            return True  # made already
        try:
            if not self._guard_lease:
                self._guard_lease = await self._client.grant(GUARD_SECONDS)
            made = Write(puts=[Put(self._guard.key, b"")])
            await self._client.txn(encode.member(made, [self._guard_lease]))
        except NoSpace:
            return False
        except LeaseGone:
            self._guard_lease = 0
            raise
        self._guard = self._new_guard()
        return True

    def _new_guard(self) -> encode.Guard:
        self._guards += 1
        return encode.Guard(f"{GUARDS}{self._series}/{self._guards}")

    def _expire(self) -> None:
        now = self._loop.time()

        def keep(member: Member) -> bool:
            if member.deadline > now and not member.future.done():
                return True
            text = "etcd does not answer; nothing was written"
            self._fail(member, errors.ServiceUnavailableError(text, retry_after=1))
            return False

        self._unsettled = [member for member in self._unsettled if keep(member)]
        self._queue = deque(member for member in self._queue if keep(member))


def _encode(group: list[Member], guard: encode.Guard) -> bytes:
    return guard.group([member.body for member in group], puts=any(member.write.puts for member in group))


def _shows(answer: Any, guard: encode.Guard) -> bool:
    """Whether a failed transaction failed for its guard."""
    return any(kv.key == guard.raw for response in answer.responses for kv in response.response_range.kvs)


def _unknown() -> errors.TimeoutError_:
    return errors.TimeoutError_(
        "etcd did not answer in time; the write may or may not have happened: read the object before trying again"
    )
