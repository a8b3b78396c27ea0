"""Brings statuses to the API: the newest one of each pod, one write a pod at a time, again until it is there.

A write carries the resourceVersion that the pod was seen with, so it never undoes what somebody else wrote meanwhile;
on a conflict the pod is read, others' conditions are taken over, and the status is written again. When the API is
away, only the newest status of a pod is kept. After the last status of a deleted pod its object is removed for good.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from nodeagent.conditions import OWN
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.client import Client
from wharfinger.client.verbs import Writer

log = logging.getLogger(__name__)

RETRY_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)


@dataclass(slots=True)
class _Entry:
    namespace: str
    name: str
    pod: core.Pod
    """As last seen or written: its resourceVersion is the one to write on."""
    status: core.PodStatus
    version: int = 0
    written: int = -1
    finish: bool = False
    """Remove the object once the status is written."""
    task: asyncio.Task[None] | None = None


class StatusWriter:
    """See the module. One for all pods of a process; close it in the end."""

    def __init__(self, client: Client, *, writer: Writer | None = None) -> None:
        self._pods = client.resource(core.Pod)
        self._writer = writer or client.writer()
        self._owns_writer = writer is None
        self._entries: dict[str, _Entry] = {}

    def observe(self, pod: core.Pod) -> None:
        """Take note of a newer version of a pod, to write on."""
        entry = self._entries.get(pod.metadata.uid)
        if entry is not None and _version(pod) > _version(entry.pod):
            entry.pod = pod

    def write(self, pod: core.Pod, status: core.PodStatus, *, finish: bool = False) -> None:
        """Bring a status to the API soon; `finish`: it is the last one, remove the object after it."""
        uid = pod.metadata.uid
        entry = self._entries.get(uid)
        if entry is None:
            entry = self._entries[uid] = _Entry(pod.metadata.namespace, pod.metadata.name, pod, status)
            if pod.status == status:
                entry.written = 0
        else:
            changed = entry.status != status
            self.observe(pod)
            entry.status = status
            if changed:
                entry.version += 1
        entry.finish = entry.finish or finish
        if entry.task is None and (entry.version != entry.written or entry.finish):
            entry.task = asyncio.get_running_loop().create_task(self._bring(uid, entry), name=f"status {uid}")
            entry.task.add_done_callback(_report)

    def forget(self, uid: str) -> None:
        """Drop a pod that is gone from the API."""
        entry = self._entries.pop(uid, None)
        if entry is not None and entry.task is not None:
            entry.task.cancel()

    async def settle(self, timeout: float) -> None:
        """Wait until all that is known has been written, at most `timeout` seconds."""
        tasks = [entry.task for entry in self._entries.values() if entry.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)

    async def close(self) -> None:
        """Stop; what is not written yet is written by the next agent, which sees the same."""
        tasks = [entry.task for entry in self._entries.values() if entry.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._owns_writer:
            await self._writer.close()

    async def _bring(self, uid: str, entry: _Entry) -> None:
        failures = 0
        try:
            while entry.version != entry.written or entry.finish:
                version = entry.version
                try:
                    if version != entry.written:
                        await self._put(uid, entry)
                        entry.written = version
                    elif entry.finish:
                        await self._writer.delete(
                            core.Pod, entry.name, namespace=entry.namespace, grace_period_seconds=0, uid=uid
                        )
                        return
                    failures = 0
                except (errors.NotFoundError, errors.GoneError):
                    return  # there is nobody left to tell
                except errors.ConflictError as error:
                    if not await self._refresh(uid, entry):
                        return
                    log.debug("status written on an old version", extra={"pod": entry.name, "error": str(error)})
                except errors.StatusError as error:
                    level = logging.WARNING if failures == 0 else logging.DEBUG
                    log.log(level, "status not written yet", extra={"pod": entry.name, "error": str(error)})
                    await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
                    failures += 1
        finally:
            entry.task = None

    async def _put(self, uid: str, entry: _Entry) -> None:
        wanted = core.Pod()
        wanted.CopyFrom(entry.pod)
        wanted.status.CopyFrom(entry.status)
        stored = await self._writer.update(wanted, subresource="status")
        if stored.metadata.uid == uid:
            entry.pod = stored

    async def _refresh(self, uid: str, entry: _Entry) -> bool:
        """Read the pod to write on; return whether it is still the same one."""
        try:
            fresh = await self._pods.get(entry.name, namespace=entry.namespace)
        except errors.NotFoundError:
            return False
        except errors.StatusError:
            await asyncio.sleep(RETRY_SECONDS[1])
            return True
        if fresh.metadata.uid != uid:
            return False
        entry.pod = fresh
        merged = core.PodStatus()
        merged.CopyFrom(entry.status)
        del merged.conditions[:]
        merged.conditions.extend(condition for condition in entry.status.conditions if condition.type in OWN)
        merged.conditions.extend(condition for condition in fresh.status.conditions if condition.type not in OWN)
        entry.status = merged
        return True


def _version(pod: core.Pod) -> int:
    """Versions of one object only grow (Kubernetes says so since 1.35: KEP-5504)."""
    return int(pod.metadata.resourceVersion or 0)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("writing a status failed", exc_info=error, extra={"task": task.get_name()})
