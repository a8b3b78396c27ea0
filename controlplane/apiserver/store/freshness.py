"""How new the cache is: who waits for a revision, and the proof that the cache is as new as etcd.

A proof is one linearizable question to etcd for its revision, shared by all who wait, and the wait until that revision
is applied. A caller that comes while a question is under way takes part in the next one: the present one may have been
answered before the write that the caller wants to see.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import itertools
import time
from collections.abc import Awaitable, Callable

from controlplane.apiserver.store import metrics
from wharfinger.api import errors
from wharfinger.daemon import spawn


class Freshness:
    """The revision that a cache has reached, and waiting for it.

    `ask` asks etcd for its revision and raises StatusError when it does not answer; `went_back` is told why when etcd
    names a lower revision than was reached before: the cache must then be loaded again.
    """

    def __init__(self, ask: Callable[[], Awaitable[int]], *, went_back: Callable[[str], None]) -> None:
        self._ask = ask
        self._went_back = went_back
        self.revision = 0
        """Every event up to it has been applied."""
        self.loaded = asyncio.Event()
        """Set once everything has been listed; cleared when it must be again."""
        self._proven = 0.0
        self._reached: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._next_proof: asyncio.Future[int] | None = None
        self._prover: asyncio.Task[None] | None = None

    @property
    def stale_seconds(self) -> float:
        """Monotonic seconds since the last proof; infinite before the first."""
        return time.monotonic() - self._proven if self._proven else float("inf")

    def load(self, revision: int) -> None:
        """Everything is as of `revision`, which may be lower than before."""
        self.loaded.set()
        self.advance(revision)

    def advance(self, revision: int) -> None:
        """Every event up to `revision` has been applied."""
        self.revision = revision
        if not self.loaded.is_set():
            return
        reached = self._reached
        while reached and reached[0][0] <= revision:
            future = heapq.heappop(reached)[2]
            if not future.done():
                future.set_result(None)

    async def stop(self) -> None:
        """End the task that asks; who waits for it is left to its own time limit."""
        if self._prover is not None:
            self._prover.cancel()
            await asyncio.gather(self._prover, return_exceptions=True)

    def _reach(self, revision: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.loaded.is_set() and revision <= self.revision:
            future.set_result(None)
        else:
            heapq.heappush(self._reached, (revision, next(self._order), future))
        return future

    @property
    def awaited(self) -> list[int]:
        """The revisions that somebody waits for."""
        return sorted(revision for revision, _, future in self._reached if not future.done())

    async def wait_for(self, revision: int, *, timeout: float) -> None:
        """Wait until `revision` is reached. Raises TimeoutError_ (504) after `timeout` seconds, as Kubernetes does."""
        reached = self._reach(revision)
        try:
            async with asyncio.timeout(timeout):
                await reached
        except TimeoutError:
            raise errors.TimeoutError_(
                f"Too large resource version: {revision}, current: {self.revision}",
                retry_after=1,
                causes=[errors.FieldError("", "ResourceVersionTooLarge", "Too large resource version")],
            ) from None
        finally:
            if reached.cancelled():  # nobody waits for it any more, and its revision may never come
                self._reached = [waiting for waiting in self._reached if not waiting[2].done()]
                heapq.heapify(self._reached)

    async def prove(self, *, timeout: float) -> int:
        """Wait until the cache is as new as etcd was when this was called; return the revision that etcd named.

        Raises ServiceUnavailableError when etcd does not answer, TimeoutError_ when the cache does not get there in
        `timeout` seconds (which may be infinite).
        """
        start = time.perf_counter()
        if self._next_proof is None:
            self._next_proof = asyncio.get_running_loop().create_future()
        proof = self._next_proof
        if self._prover is None:
            self._prover = spawn(self._prove(), name="store-fresh")
        try:
            # Not wait_for(): up to Python 3.11 it swallows a cancellation that comes together with the result.
            async with asyncio.timeout(None if timeout == float("inf") else timeout):
                revision = await asyncio.shield(proof)
        except TimeoutError:
            raise errors.TimeoutError_(
                f"the watch cache is at revision {self.revision} and did not become current within {timeout:g} s",
                retry_after=1,
            ) from None
        metrics.CACHE_READ_WAIT.observe(time.perf_counter() - start)
        return revision

    async def _prove(self) -> None:
        """Answer those who wait for a proof, one request to etcd at a time."""
        try:
            while (proof := self._next_proof) is not None:
                self._next_proof = None
                before = self.revision
                try:
                    revision = await self._ask()
                except errors.StatusError as error:
                    if not proof.done():
                        proof.set_exception(error)
                        proof.exception()  # nobody may be waiting any more
                    continue
                self._check(revision, before)
                self._reach(revision).add_done_callback(functools.partial(self._proved, proof, revision))
        finally:
            self._prover = None

    def _proved(self, proof: asyncio.Future[int], revision: int, _: object) -> None:
        self._proven = time.monotonic()
        if not proof.done():
            proof.set_result(revision)

    def _check(self, revision: int, before: int) -> None:
        if self.loaded.is_set() and revision < before:
            # A linearizable read never goes back: somebody restored an older etcd. Nothing is fresh until it is listed.
            self.loaded.clear()
            self._went_back(f"etcd went back from revision {before} to {revision}")
