"""Has victims of preemption deleted: by uid, marked with the reason, each with an Event.

Runs in the background; the pod for which the room is made waits in the queue, nominated to the node, and is woken by
the watch when the victims are gone. When a victim cannot be deleted, the nomination is taken back and the pod tried
again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from controlplane.scheduler import metrics
from controlplane.scheduler.podinfo import PodInfo
from controlplane.scheduler.reporter import COMPONENT, Reporter
from wharfinger import daemon
from wharfinger.api import errors
from wharfinger.client import Client

log = logging.getLogger(__name__)

REASON = "PreemptionByScheduler"
MESSAGE = f"{COMPONENT}: preempting to accommodate a higher priority pod"


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that has to go."""

    namespace: str
    name: str
    uid: str


class Evictor:
    """Deletes victims; close it by :meth:`close`."""

    def __init__(self, client: Client, reporter: Reporter, *, failed: Callable[[PodInfo, str], None]) -> None:
        self._writer = client.writer()
        self._reporter = reporter
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()

    def evict(self, pod: PodInfo, node: str, victims: Sequence[Victim]) -> None:
        """Begin to make room for a pod on a node; `failed` is called with the pod and node if that does not work."""
        metrics.PREEMPTION_VICTIMS.observe(len(victims))
        task = daemon.spawn(self._evict(pod, node, victims), name=f"preemption for {pod.key}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Stop; victims that are not deleted yet are found again by the next leader."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._writer.close()

    async def _evict(self, pod: PodInfo, node: str, victims: Sequence[Victim]) -> None:
        outcomes = await asyncio.gather(*(self._delete(pod, node, victim) for victim in victims))
        if not all(outcomes):
            self._failed(pod, node)

    async def _delete(self, pod: PodInfo, node: str, victim: Victim) -> bool:
        """Delete one victim; returns whether it is gone or going."""
        try:
            await self._writer.displace(
                victim.name, namespace=victim.namespace, uid=victim.uid or None, reason=REASON, message=MESSAGE,
                brief=True,
            )  # fmt: skip
        except errors.NotFoundError:
            return True
        except errors.ConflictError as error:  # another pod has the name by now, or our term is over
            log.info(
                "victim is another by now", extra={"pod": f"{victim.namespace}/{victim.name}", "error": str(error)}
            )
            return False
        except errors.StatusError as error:
            log.warning("cannot evict", extra={"pod": f"{victim.namespace}/{victim.name}", "error": str(error)})
            return False
        log.debug("evicted", extra={"pod": f"{victim.namespace}/{victim.name}", "for": pod.key, "node": node})
        self._reporter.preempted(victim.namespace, victim.name, victim.uid, by=pod, node=node)
        return True
