"""The gRPC service behind ``wharf etcd status|compact|defrag|disarm``.

Who may call is decided by the hook given to the constructor: it gets the call's context, its method and a verb (``get``
for the status, ``update`` for the rest) and raises a StatusError to refuse. The hook also begins the audit record.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from controlplane.apiserver import audit
from controlplane.apiserver.grpcfront.failures import abort
from controlplane.apiserver.store import maintenance
from wharfinger.proto.native import etcd_v1_pb2, etcd_v1_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from controlplane.apiserver.store import Store

log = logging.getLogger(__name__)


class EtcdService(etcd_v1_pb2_grpc.EtcdServicer):
    """Serves ``wharfinger.v1.Etcd``; see the module."""

    def __init__(self, store: Store, authorise: Callable[[Any, str, str], Awaitable[None]]) -> None:
        self._store = store
        self._authorise = authorise

    @asynccontextmanager
    async def _request(self, context: Any, method: str, verb: str) -> AsyncIterator[None]:
        """Let in who may call, and have it recorded how the body ends: what goes wrong there ends the call."""
        try:
            await self._authorise(context, method, verb)
            yield
            audit.done()
        except Exception as error:  # noqa: BLE001  (abort raises, and logs what nobody foresaw)
            await abort(context, error, f"Etcd.{method}")
        finally:
            audit.end()

    async def Status(  # noqa: N802, D102  (gRPC's names)
        self, request: etcd_v1_pb2.EtcdStatusRequest, context: Any
    ) -> etcd_v1_pb2.EtcdStatus:
        async with self._request(context, "Status", "get"):
            status = await maintenance.status(self._store)
        return etcd_v1_pb2.EtcdStatus(
            members=[
                etcd_v1_pb2.EtcdMember(
                    endpoint=member.endpoint,
                    id=f"{member.id:x}" if member.id else "",
                    name=member.name,
                    version=member.version,
                    leader=member.leader,
                    db_size=member.db_size,
                    db_size_in_use=member.db_size_in_use,
                    alarms=member.alarms,
                    error=member.error,
                )
                for member in status.members
            ],
            revision=status.revision,
            compacted_revision=status.compacted_revision,
        )

    async def Compact(  # noqa: N802, D102
        self, request: etcd_v1_pb2.EtcdCompactRequest, context: Any
    ) -> etcd_v1_pb2.EtcdCompactResult:
        async with self._request(context, "Compact", "update"):
            revision = await maintenance.compact(self._store, request.revision)
        log.info("compacted etcd on demand", extra={"revision": revision})
        return etcd_v1_pb2.EtcdCompactResult(revision=revision)

    async def Defrag(  # noqa: N802, D102
        self, request: etcd_v1_pb2.EtcdDefragRequest, context: Any
    ) -> AsyncIterator[etcd_v1_pb2.EtcdDefragResult]:
        async with self._request(context, "Defrag", "update"):
            async for done in maintenance.defragment(self._store):
                log.info("defragmented etcd", extra={"endpoint": done.endpoint, "error": done.error})
                yield etcd_v1_pb2.EtcdDefragResult(
                    endpoint=done.endpoint,
                    size_before=done.size_before,
                    size_after=done.size_after,
                    seconds=done.seconds,
                    error=done.error,
                )

    async def Disarm(  # noqa: N802, D102
        self, request: etcd_v1_pb2.EtcdDisarmRequest, context: Any
    ) -> etcd_v1_pb2.EtcdDisarmResult:
        async with self._request(context, "Disarm", "update"):
            alarms = await maintenance.disarm(self._store)
        log.info("disarmed etcd", extra={"alarms": alarms})
        return etcd_v1_pb2.EtcdDisarmResult(alarms=alarms)
