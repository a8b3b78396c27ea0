"""Leader election on a Lease, fenced.

As in client-go, a candidate takes the Lease when it is free or when it has not *seen* it change for a lease duration
(its own monotonic clock; times written by another host are never compared). That alone does not keep a paused old
leader from writing after it wakes up. Here it cannot: taking the Lease begins a *term*, named by the
resourceVersion that the Lease got, and a leader's writes carry the term, which the apiserver compares in the same
etcd transaction (:class:`wharfinger.client.client.Fence`). A leader that cannot renew in time steps down inside the
process, cancels its work and stands again; it does not exit.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from wharfinger.api import errors
from wharfinger.api.types import coordination, meta
from wharfinger.client.client import Client
from wharfinger.proto.native import resources_v1_pb2 as native

log = logging.getLogger(__name__)


class LeaderElector:
    """Stands for election until cancelled. Times in seconds."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
        annotations: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not lease_duration > renew_deadline > retry_period > 0:
            raise ValueError(
                f"leader election needs lease_duration ({lease_duration}) > renew_deadline ({renew_deadline}) "
                f"> retry_period ({retry_period}) > 0"
            )
        self._leases = client.resource(coordination.Lease)
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._lease_duration = lease_duration
        self._renew_deadline = renew_deadline
        self._retry_period = retry_period
        self._annotations = dict(annotations or {})
        self._clock = clock
        self._seen_version = ""
        self._seen_at = -float("inf")
        self._trouble = False
        self.fence: native.Fence | None = None
        """The present term while leading, else None."""

    @property
    def leading(self) -> bool:
        """Whether this process leads now, as far as it knows."""
        return self.fence is not None

    async def run(
        self,
        on_started: Callable[[native.Fence], Awaitable[None]],
        on_stopped: Callable[[], None] | None = None,
    ) -> None:
        """Stand, lead, stand again. `on_started` is run as a task while leading and cancelled when that ends."""
        lease: coordination.Lease | None = None
        work: asyncio.Task[None] | None = None
        try:
            while True:
                lease = await self._acquire()
                self.fence = native.Fence(
                    namespace=self._namespace, lease=self._name, term=int(lease.metadata.resourceVersion)
                )
                log.info("leading", extra=self._fields() | {"term": self.fence.term})
                work = asyncio.get_running_loop().create_task(_awaited(on_started(self.fence)), name="leader's work")
                try:
                    lease = await self._renew_until_lost(lease, work)
                finally:
                    self.fence = None
                    work.cancel()
                    await asyncio.gather(work, return_exceptions=True)
                    if on_stopped is not None:
                        on_stopped()
                failed = None if work.cancelled() else work.exception()
                if failed is not None:
                    log.error("the leader's work ended with an error, standing again", exc_info=failed)
                log.warning("no longer leading", extra=self._fields())
                if failed is not None:
                    await asyncio.sleep(self._retry_period)  # what fails at once must not become a busy loop
        except asyncio.CancelledError:
            if lease is not None:
                await self._release()
            raise

    def _fields(self) -> dict[str, object]:
        return {"lease": f"{self._namespace}/{self._name}", "identity": self._identity}

    async def _acquire(self) -> coordination.Lease:
        while True:
            try:
                async with asyncio.timeout(self._renew_deadline):  # an apiserver that hangs must not hold us
                    lease = await self._try_to_take()
                self._trouble = False
                if lease is not None:
                    return lease
            except (errors.ConflictError, errors.AlreadyExistsError):
                pass  # another candidate was faster; look again
            except (errors.StatusError, TimeoutError) as error:
                self._say_once(error)
            await asyncio.sleep(self._retry_period)

    def _say_once(self, error: Exception) -> None:
        if not self._trouble:
            text = str(error) or "no answer in time"
            log.warning("cannot reach the lease, trying on", extra=self._fields() | {"error": text})
        self._trouble = True

    async def _try_to_take(self) -> coordination.Lease | None:
        try:
            lease = await self._leases.get(self._name, namespace=self._namespace)
        except errors.NotFoundError:
            lease = coordination.Lease()
            lease.metadata.name, lease.metadata.namespace = self._name, self._namespace
            self._fill(lease, transitions=0)
            return await self._leases.create(lease)
        if lease.metadata.resourceVersion != self._seen_version:
            self._seen_version = lease.metadata.resourceVersion
            self._seen_at = self._clock()
        holder = lease.spec.holderIdentity
        duration = max(float(lease.spec.leaseDurationSeconds), self._lease_duration) if holder else 0.0
        if holder and holder != self._identity and self._clock() - self._seen_at < duration:
            return None
        self._fill(lease, transitions=lease.spec.leaseTransitions + 1)
        return await self._leases.update(lease)

    def _fill(self, lease: coordination.Lease, *, transitions: int) -> None:
        spec = lease.spec
        spec.holderIdentity = self._identity
        spec.leaseDurationSeconds = max(1, round(self._lease_duration))
        spec.leaseTransitions = transitions
        _now(spec.acquireTime)
        _now(spec.renewTime)
        for key, value in self._annotations.items():
            lease.metadata.annotations[key] = value

    async def _renew_until_lost(self, lease: coordination.Lease, work: asyncio.Task[None]) -> coordination.Lease:
        renewed = self._clock()
        while not work.done():
            await asyncio.wait([work], timeout=self._retry_period)
            if work.done():
                break
            renewal = coordination.Lease()
            renewal.CopyFrom(lease)
            _now(renewal.spec.renewTime)
            left = renewed + self._renew_deadline - self._clock()
            try:
                async with asyncio.timeout(max(left, 0)):
                    lease = await self._leases.update(renewal)
                renewed = self._clock()
                self._trouble = False
            except errors.ConflictError:
                current = await self._current(within=renewed + self._renew_deadline - self._clock())
                if current is not None and current.spec.holderIdentity != self._identity:
                    log.warning("the lease was taken", extra=self._fields() | {"holder": current.spec.holderIdentity})
                    return current
                if current is not None and current.spec.leaseTransitions != lease.spec.leaseTransitions:
                    # Every write of ours is refused by now: our term has ended.
                    log.warning("the lease was taken anew under our identity", extra=self._fields())
                    return current
                if current is not None:
                    lease = current
            except TimeoutError:
                pass
            except errors.StatusError as error:
                self._say_once(error)
            if self._clock() - renewed >= self._renew_deadline:
                log.warning("could not renew the lease in time", extra=self._fields())
                return lease
        return lease

    async def _current(self, *, within: float) -> coordination.Lease | None:
        """Read the Lease; None when that is not possible `within` seconds."""
        try:
            async with asyncio.timeout(max(within, 0)):
                return await self._leases.get(self._name, namespace=self._namespace)
        except (errors.StatusError, TimeoutError) as error:
            self._say_once(error)
            return None

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(self._retry_period):
                # Read afresh: a renewal may have been under way when we were stopped.
                lease = await self._leases.get(self._name, namespace=self._namespace)
                if lease.spec.holderIdentity != self._identity:
                    return
                lease.spec.holderIdentity = ""
                lease.spec.leaseDurationSeconds = 1
                _now(lease.spec.renewTime)
                await self._leases.update(lease)
            log.info("released the lease", extra=self._fields())
        except (errors.StatusError, TimeoutError) as error:
            log.info("could not release the lease, it will expire", extra=self._fields() | {"error": str(error)})


async def _awaited(work: Awaitable[None]) -> None:
    await work


def _now(target: meta.MicroTime) -> None:
    nanoseconds = time.time_ns()
    target.seconds = nanoseconds // 1_000_000_000
    target.nanos = nanoseconds % 1_000_000_000 // 1000 * 1000
