"""Writes the status of PodGroups, in the background; of several changes only the last."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from wharfinger import daemon
from wharfinger.api import errors, times
from wharfinger.api.types import gangs

if TYPE_CHECKING:
    from controlplane.scheduler.gangs import Gang, Group
    from wharfinger.client import Client

log = logging.getLogger(__name__)

PAUSE = 0.2
"""Seconds between two rounds of writing."""
AT_ONCE = 32


class Standing(NamedTuple):
    """How a gang fares."""

    phase: str
    reason: str
    message: str


class GroupReporter:
    """Start it by :meth:`start`, end it by :meth:`close`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._notes: dict[str, tuple[Gang, Group, dict[str, Any]]] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write."""
        self._task = daemon.spawn(self._run(), name="podgroup reports")

    async def close(self) -> None:
        """Stop; what is not written yet, the next leader finds out again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def note(self, gang: Gang, standing: Standing) -> None:
        """Note how a gang fares; nothing is written when its PodGroup says so already."""
        group = gang.group
        if group is None:
            return
        status = status_of(gang, group, standing)
        if says(group, status):
            self._notes.pop(gang.key, None)
            return
        self._notes[gang.key] = (gang, group, status)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            batch = list(self._notes.items())[:AT_ONCE]
            for key, _ in batch:
                del self._notes[key]
            await asyncio.gather(*(self._write(*note) for _, note in batch))
            if not self._notes:
                self._wake.clear()
            await asyncio.sleep(PAUSE)

    async def _write(self, gang: Gang, group: Group, status: dict[str, Any]) -> None:
        condition = dict(status["conditions"][0])
        since = group.condition[3] if group.condition[0] == condition["status"] else 0
        condition["lastTransitionTime"] = times.format_seconds(since or int(time.time()))
        patch = {"metadata": {"uid": group.uid}, "status": {**status, "conditions": [condition]}}
        try:
            await self._client.resource(gangs.PodGroup).patch(
                gang.name, patch=patch, patch_type="strategic", namespace=gang.namespace, subresource="status"
            )
        except (errors.NotFoundError, errors.ConflictError) as error:
            log.debug("status not written", extra={"podgroup": gang.key, "error": str(error)})
        except errors.StatusError as error:
            log.warning("status not written", extra={"podgroup": gang.key, "error": str(error)})


def status_of(gang: Gang, group: Group, standing: Standing) -> dict[str, Any]:
    """Return the status as JSON values, without times."""
    return {
        "phase": standing.phase,
        "observedGeneration": group.generation,
        "members": gang.members,
        "scheduled": len(gang.placed),
        "succeeded": len(gang.succeeded),
        "conditions": [
            {
                "type": "Scheduled",
                "status": "True" if standing.phase == "Scheduled" else "False",
                "observedGeneration": group.generation,
                "reason": standing.reason,
                "message": standing.message,
            }
        ],
    }


def says(group: Group, status: dict[str, Any]) -> bool:
    """Whether a PodGroup has a status already."""
    condition = status["conditions"][0]
    return (
        group.phase, group.observed, group.members, group.scheduled, group.succeeded, *group.condition[:3],
    ) == (
        status["phase"], status["observedGeneration"], status["members"], status["scheduled"], status["succeeded"],
        condition["status"], condition["reason"], condition["message"],
    )  # fmt: skip
