"""Leader election against a scripted Lease: who takes it when, and what an apiserver that hangs may not do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from wharfinger.api import errors
from wharfinger.api.types import coordination
from wharfinger.client import Fence, LeaderElector


class Leases:
    """One Lease with versions; calls can be made to hang."""

    def __init__(self) -> None:
        self.lease: coordination.Lease | None = None
        self.version = 0
        self.hanging = False
        self.refuse_updates = False
        self.asked = 0

    def resource(self, _: Any) -> Leases:
        return self

    async def _answer(self) -> None:
        self.asked += 1
        if self.hanging:
            await asyncio.Event().wait()

    async def get(self, name: str, *, namespace: str) -> coordination.Lease:
        await self._answer()
        if self.lease is None:
            raise errors.not_found("leases", name)
        found = coordination.Lease()
        found.CopyFrom(self.lease)
        return found

    async def create(self, lease: coordination.Lease) -> coordination.Lease:
        await self._answer()
        return self._store(lease)

    async def update(self, lease: coordination.Lease) -> coordination.Lease:
        await self._answer()
        if self.refuse_updates or lease.metadata.resourceVersion != str(self.version):
            self.hanging = self.refuse_updates
            raise errors.conflict("leases", lease.metadata.name, "changed")
        return self._store(lease)

    def _store(self, lease: coordination.Lease) -> coordination.Lease:
        self.version += 1
        self.lease = coordination.Lease()
        self.lease.CopyFrom(lease)
        self.lease.metadata.resourceVersion = str(self.version)
        stored = coordination.Lease()
        stored.CopyFrom(self.lease)
        return stored


def elector(leases: Leases, identity: str = "a", **options: Any) -> LeaderElector:
    periods = {"lease_duration": 0.3, "renew_deadline": 0.2, "retry_period": 0.01}
    client: Any = SimpleNamespace(resource=leases.resource)
    return LeaderElector(client, namespace="kube-system", name="x", identity=identity, **{**periods, **options})


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def forever(_: Fence) -> None:
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def standing(candidate: LeaderElector, work: Any = forever) -> Any:
    task = asyncio.create_task(candidate.run(work))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_term_is_the_version_that_taking_the_lease_gave_it() -> None:
    leases = Leases()
    candidate = elector(leases)
    async with standing(candidate):
        await until(lambda: candidate.leading)
        assert candidate.fence is not None
        assert candidate.fence.term == 1
        await until(lambda: leases.version > 3)
        assert candidate.fence.term == 1
    assert leases.lease is not None
    assert leases.lease.spec.holderIdentity == ""  # released


async def test_another_ones_lease_is_taken_only_after_a_duration_of_ones_own_clock_without_a_change() -> None:
    leases, now = Leases(), [1000.0]
    held = coordination.Lease()
    held.spec.holderIdentity, held.spec.leaseDurationSeconds = "other", 15
    held.spec.renewTime.seconds = 1  # long ago by the other's clock, which says nothing
    leases._store(held)
    candidate = elector(leases, clock=lambda: now[0])
    async with standing(candidate):
        await until(lambda: leases.asked > 5)
        assert not candidate.leading
        now[0] += 14
        leases._store(held)  # renewed: the count starts again
        asked = leases.asked
        await until(lambda: leases.asked > asked + 3)
        now[0] += 14
        asked = leases.asked
        await until(lambda: leases.asked > asked + 3)
        assert not candidate.leading
        now[0] += 2
        await until(lambda: candidate.leading)


@pytest.mark.parametrize("refuse", [False, True])
async def test_a_leader_steps_down_when_the_apiserver_hangs(refuse: bool) -> None:
    leases = Leases()
    ended = asyncio.Event()

    async def work(_: Fence) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    candidate = elector(leases)
    async with standing(candidate, work):
        await until(lambda: candidate.leading)
        if refuse:
            leases.refuse_updates = True  # a conflict, and then the look at the lease hangs
        else:
            leases.hanging = True
        await until(ended.is_set)
        assert not candidate.leading
        leases.hanging = leases.refuse_updates = False
        await until(lambda: candidate.leading)  # the hanging call does not keep it from standing again


async def test_a_leader_whose_identity_is_used_twice_notices_that_its_term_has_ended() -> None:
    leases = Leases()
    terms: list[int] = []

    async def work(fence: Fence) -> None:
        terms.append(fence.term)
        await asyncio.Event().wait()

    async with standing(elector(leases), work):
        await until(lambda: leases.version > 2)
        assert leases.lease is not None
        leases.lease.spec.leaseTransitions += 1  # another process of that name took it: the fence is another
        leases._store(leases.lease)
        await until(lambda: len(terms) == 2)
        assert terms[1] > terms[0]


async def test_work_that_fails_at_once_does_not_run_in_a_busy_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    leases, runs, pauses = Leases(), [0], [0]
    real = asyncio.sleep

    async def note(seconds: float) -> None:
        pauses[0] += seconds == 0.01
        await real(0)

    async def work(_: Fence) -> None:
        runs[0] += 1
        raise ValueError("a fault")

    monkeypatch.setattr("wharfinger.client.leaderelection.asyncio.sleep", note)
    async with standing(elector(leases), work):
        async with asyncio.timeout(10):
            while runs[0] < 5:
                await real(0)
    assert pauses[0] >= runs[0] - 1
