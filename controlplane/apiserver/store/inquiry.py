"""Looks into calls to etcd that take long: is there a new leader, or does the member say nothing at all?

A member passes writes and linearizable reads on to the leader. What was on its way to a leader that died is lost, and
the member waits for an answer until its time is over: about seven seconds, while a new leader is there after one or
two. Whether there is one every member tells at once, without asking the others (``Maintenance.Status``). So calls
that have taken `SUSPICIOUS` seconds are collected, and all members are asked until each call has an answer or is
given up:

* the term has changed since the call was sent, and the answer has not come `GRACE` seconds after that was seen;
* the member itself has been silent for `SILENT` seconds, while others have a leader (it is stopped, or cut off).

Giving up says nothing about what a write has done: :mod:`commit` makes that certain. An etcd that is only slow keeps
its leader, and is waited for. One member alone is never given up: there is nobody else to ask.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc

from wharfinger.proto.etcd import rpc_pb2

if TYPE_CHECKING:
    from controlplane.apiserver.store.client import Endpoint, EtcdClient

log = logging.getLogger(__name__)

SUSPICIOUS = 0.3
GRACE = 0.1
SILENT = 1.0
_EVERY = 0.1
_STATUS_SECONDS = 0.3


@dataclass(slots=True)
class _Suspect:
    """A call that takes long."""

    endpoint: Endpoint
    term: int
    """The newest that was known when it was sent."""
    changed: float = 0.0
    """When a newer term was seen, monotonic; 0: not yet."""
    given_up: bool = False


class Inquiry:
    """See the module."""

    def __init__(self, client: EtcdClient) -> None:
        self._client = client
        self._suspects: dict[Any, _Suspect] = {}
        self._asking: asyncio.Task[None] | None = None
        self._heard: dict[str, float] = {}

    def timer(self, call: Any, endpoint: Endpoint) -> asyncio.TimerHandle | None:
        """Begin to look after a call; None when there is nobody else to ask."""
        if len(self._client.endpoints) < 2:
            return None
        return asyncio.get_running_loop().call_later(SUSPICIOUS, self._suspect, call, endpoint, self._client.term)

    def done(self, call: Any, timer: asyncio.TimerHandle) -> None:
        """End it."""
        timer.cancel()
        self._suspects.pop(call, None)

    def gave_up(self, call: Any) -> bool:
        """Whether a call was cancelled from here, and by nobody else."""
        suspect = self._suspects.get(call)
        task = asyncio.current_task()
        return suspect is not None and suspect.given_up and not (task is not None and task.cancelling())

    async def close(self) -> None:
        """End the inquiry that is under way."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    def _suspect(self, call: Any, endpoint: Endpoint, term: int) -> None:
        self._suspects[call] = _Suspect(endpoint, term)
        if self._asking is None:
            self._heard.clear()
            self._asking = asyncio.get_running_loop().create_task(self._ask(), name="inquiry about etcd")

    async def _ask(self) -> None:
        try:
            while self._suspects:
                statuses = await self._survey()
                self._judge(statuses)
                await asyncio.sleep(_EVERY)
        finally:
            self._asking = None

    async def _survey(self) -> dict[Endpoint, Any]:
        """Return what each member that answers says of itself."""
        now = time.monotonic()
        endpoints = list(self._client.endpoints)
        for endpoint in endpoints:
            self._heard.setdefault(endpoint.address, now)

        async def status(endpoint: Endpoint) -> Any:
            try:
                return await endpoint.maintenance.Status(rpc_pb2.StatusRequest(), timeout=_STATUS_SECONDS)
            except (grpc.aio.AioRpcError, grpc.aio.UsageError):
                return None

        answers = await asyncio.gather(*map(status, endpoints))
        found = {endpoint: answer for endpoint, answer in zip(endpoints, answers, strict=True) if answer is not None}
        for endpoint in found:
            self._heard[endpoint.address] = time.monotonic()
        return found

    def _judge(self, statuses: dict[Endpoint, Any]) -> None:
        now = time.monotonic()
        led = {endpoint: status for endpoint, status in statuses.items() if status.leader}
        if not led:
            return
        newest = max(status.raftTerm for status in led.values())
        best = max(led, key=lambda one: (led[one].raftTerm, led[one].leader == led[one].header.member_id))
        for call, suspect in list(self._suspects.items()):
            silent = now - self._heard.get(suspect.endpoint.address, now)
            if newest > suspect.term > 0 and not suspect.changed:
                suspect.changed = now
            stale = suspect.changed and now - suspect.changed >= GRACE
            if suspect.given_up or not (stale or (silent >= SILENT and suspect.endpoint not in statuses)):
                continue
            suspect.given_up = True
            self._client.prefer(best)
            if suspect.endpoint not in statuses:
                self._client.tell_moved(suspect.endpoint)
            log.info(
                "a call to etcd is given up, to find out elsewhere what it did",
                extra={
                    "endpoint": suspect.endpoint.address, "next": best.address, "term": newest,
                    "reason": "there is a new leader" if stale else "the member is silent",
                },
            )  # fmt: skip
            call.cancel()
        self._client.term = max(self._client.term, newest)
