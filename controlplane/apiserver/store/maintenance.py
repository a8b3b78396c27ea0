"""Care for etcd: periodic compaction by one of several apiservers, and status, compact, defrag and disarm on demand.

**Who compacts.** Every apiserver looks at one key each period. If nobody has rewritten it since its last look, it
tries to, by compare-and-swap; the winner compacts to the revision that *it* saw at *its* last look, one whole period
ago. So nothing younger than a period is ever dropped, no clocks are compared, and when the one that compacts dies,
another takes over two periods later at the latest. The newest revision always stays readable: a cache that starts
then must be able to learn what that revision brought.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from controlplane.apiserver.store import metrics
from controlplane.apiserver.store.client import Endpoint, EtcdClient
from controlplane.apiserver.store.failures import Compacted, EtcdFailure
from controlplane.apiserver.store.store import Store
from controlplane.apiserver.store.types import Compare, CompareFailed, Put, Write
from wharfinger.api import errors
from wharfinger.proto.etcd import rpc_pb2

log = logging.getLogger(__name__)

COMPACT_KEY = "/wharfinger/compaction"
DEFRAG_TIMEOUT = 300.0


@dataclass(slots=True)
class Member:
    """What one etcd member says of itself; sizes are bytes."""

    endpoint: str
    id: int = 0
    name: str = ""
    version: str = ""
    leader: bool = False
    db_size: int = 0
    db_size_in_use: int = 0
    alarms: list[str] = field(default_factory=list)
    error: str = ""
    """Why the rest is not known."""


@dataclass(slots=True)
class ClusterStatus:
    """What all members say."""

    members: list[Member]
    revision: int
    compacted_revision: int
    """What the apiservers last compacted to; 0 when they have not yet."""


@dataclass(slots=True)
class Defragmented:
    """One member's defragmentation; sizes are bytes."""

    endpoint: str
    size_before: int = 0
    size_after: int = 0
    seconds: float = 0.0
    error: str = ""


class Compactor:
    """Compacts every `period` seconds unless another apiserver does; `identity` tells which one did."""

    def __init__(self, store: Store, *, period: float = 300.0, identity: str = "") -> None:
        self._store = store
        self._period = period
        self._identity = identity
        self._known = -1
        self._candidate = 0

    async def run(self) -> None:
        """Run until cancelled. A period in which etcd is away is skipped."""
        while True:
            try:
                compacted = await self.look()
                if compacted:
                    log.info("compacted etcd", extra={"revision": compacted})
                for member in await _members(self._store.client):
                    if not member.error:
                        metrics.DB_SIZE.labels(member.endpoint).set(member.db_size)
            except (errors.StatusError, EtcdFailure) as error:
                # What was seen before is worth nothing now: a whole period must pass anew.
                self._known = -1
                log.warning("compaction has to wait", extra={"error": str(error)})
            except Exception:  # without compaction etcd grows until it takes no more writes
                self._known = -1
                log.exception("compaction failed on a fault of ours")
            await asyncio.sleep(self._period)

    async def look(self) -> int:
        """Do what is due now; return the revision compacted to, 0 when there was nothing to do.

        Calls must lie a period apart. Raises StatusError or EtcdFailure when etcd does not answer.
        """
        found = await self._store.get(COMPACT_KEY)
        modified = found.mod_revision if found is not None else 0
        candidate, done = self._candidate, 0
        if modified == self._known and candidate:
            value = json.dumps({"revision": candidate, "by": self._identity}).encode()
            try:
                write = Write([Compare(COMPACT_KEY, modified)], [Put(COMPACT_KEY, value)])
                modified = (await self._store.commit(write)).revision
            except CompareFailed as failed:
                current = failed.current[COMPACT_KEY]
                modified = current.mod_revision if current is not None else 0
            else:
                try:
                    await self._store.client.compact(candidate)
                except Compacted:
                    log.debug("compacted further already", extra={"revision": candidate})
                metrics.COMPACTED.set(candidate)
                done = candidate
        self._known = modified
        self._candidate = await self._store.revision()
        return done


async def status(store: Store) -> ClusterStatus:
    """Return what every configured member says, and which members are not configured. Raises StatusError."""
    client = store.client
    members = await _members(client)
    try:
        listed = await client.read(
            "members", lambda endpoint: endpoint.cluster.MemberList(rpc_pb2.MemberListRequest(), timeout=5)
        )
        alarms = await _alarms(client)
    except EtcdFailure as failure:
        raise failure.to_status("read etcd's members") from failure
    names = {member.ID: member.name for member in listed.members}
    for member in members:
        member.name = names.pop(member.id, "")
    members += [
        Member("", id=number, name=name, error="not among the endpoints that this apiserver was told")
        for number, name in names.items()
    ]
    for member in members:
        member.alarms = [rpc_pb2.AlarmType.Name(kind) for number, kind in alarms if number == member.id]
    found = await store.get(COMPACT_KEY)
    compacted = int(json.loads(found.value)["revision"]) if found is not None else 0
    return ClusterStatus(members, await store.revision(), compacted)


async def _members(client: EtcdClient) -> list[Member]:
    return list(await asyncio.gather(*(_member(client, endpoint) for endpoint in client.endpoints)))


async def _member(client: EtcdClient, endpoint: Endpoint) -> Member:
    try:
        answer: rpc_pb2.StatusResponse = await client.call(
            "status", lambda _: endpoint.maintenance.Status(rpc_pb2.StatusRequest(), timeout=5), endpoint=endpoint
        )
    except EtcdFailure as failure:
        return Member(endpoint.address, error=str(failure))
    return Member(
        endpoint.address,
        id=answer.header.member_id,
        version=answer.version,
        leader=answer.leader == answer.header.member_id,
        db_size=answer.dbSize,
        db_size_in_use=answer.dbSizeInUse,
    )


async def _alarms(client: EtcdClient) -> list[tuple[int, rpc_pb2.AlarmType]]:
    request = rpc_pb2.AlarmRequest(action=rpc_pb2.AlarmRequest.GET)
    answer = await client.read("alarm", lambda endpoint: endpoint.maintenance.Alarm(request, timeout=5))
    return [(alarm.memberID, alarm.alarm) for alarm in answer.alarms]


async def compact(store: Store, revision: int = 0) -> int:
    """Drop all history before `revision` (0: before the newest but one); return the revision compacted to.

    Raises BadRequestError for a revision that is not there yet, ServiceUnavailableError when etcd does not answer.
    """
    newest = await store.revision()
    if revision < 0 or revision >= newest:
        raise errors.BadRequestError(f"revision: {revision}: must be 0 or below the store's revision {newest}")
    wanted = revision or max(1, newest - 1)
    try:
        await store.client.compact(wanted)
    except Compacted:
        log.debug("compacted further already", extra={"revision": wanted})
    except EtcdFailure as failure:
        raise failure.to_status("compact etcd") from failure
    return wanted


async def defragment(store: Store) -> AsyncIterator[Defragmented]:
    """Defragment every configured member in turn, the leader last; yield each when it is done.

    A member answers nobody meanwhile. It stops at the first member that fails: the rest must stay in service.
    """
    client = store.client
    ordered = sorted(await _members(client), key=lambda member: member.leader)
    by_address = {endpoint.address: endpoint for endpoint in client.endpoints}
    for member in ordered:
        result = Defragmented(member.endpoint, size_before=member.db_size, error=member.error)
        endpoint = by_address[member.endpoint]
        start = time.monotonic()
        if not result.error:
            try:
                await client.call("defragment", _defragmenting(endpoint), endpoint=endpoint)
                after = await _member(client, endpoint)
                result.size_after, result.error = after.db_size, after.error
                await client.revision()  # the cluster is whole again before the next one's turn
            except EtcdFailure as failure:
                result.error = str(failure)
        result.seconds = time.monotonic() - start
        yield result
        if result.error:
            return


def _defragmenting(endpoint: Endpoint) -> Callable[[Endpoint], Awaitable[Any]]:
    return lambda _: endpoint.maintenance.Defragment(rpc_pb2.DefragmentRequest(), timeout=DEFRAG_TIMEOUT)


async def disarm(store: Store) -> list[str]:
    """End all alarms; return them as ``NOSPACE on <member id>``. Raises StatusError when etcd does not answer."""
    client = store.client
    try:
        alarms = await _alarms(client)
        for member, kind in alarms:
            request = rpc_pb2.AlarmRequest(action=rpc_pb2.AlarmRequest.DEACTIVATE, memberID=member, alarm=kind)
            await client.read("alarm", _alarm_call(request))
    except EtcdFailure as failure:
        raise failure.to_status("disarm etcd's alarms") from failure
    return [f"{rpc_pb2.AlarmType.Name(kind)} on {member:x}" for member, kind in alarms]


def _alarm_call(request: rpc_pb2.AlarmRequest) -> Callable[[Endpoint], Awaitable[Any]]:
    return lambda endpoint: endpoint.maintenance.Alarm(request, timeout=5)
