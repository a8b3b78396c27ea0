"""Runs the controllers while this process leads.

Everything below a term is made when it begins and thrown away when it ends: informers, queues, timers, and the
client whose writes carry the term's fence. So a new leader starts from what it sees itself, and an old one that wakes
up after a pause can write nothing. When one controller fails on a fault of ours the whole term ends and begins anew;
half a manager would be worse than none.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import replace

from controlplane.controllers.account_tokens import AccountTokenController
from controlplane.controllers.certificate_approval import CertificateApprovalController
from controlplane.controllers.certificate_cleaner import CertificateCleaner, TokenCleaner
from controlplane.controllers.certificate_signing import CertificateSigningController
from controlplane.controllers.context import Context, Controller, SharedInformers
from controlplane.controllers.deployment import DeploymentController
from controlplane.controllers.disruption import DisruptionController
from controlplane.controllers.garbage_collector import GarbageCollector
from controlplane.controllers.namespace import NamespaceController
from controlplane.controllers.node_lifecycle import NodeLifecycleController
from controlplane.controllers.options import Options
from controlplane.controllers.pod_gc import PodGarbageCollector
from controlplane.controllers.replicaset import ReplicaSetController
from controlplane.controllers.resource_quota import ResourceQuotaController
from controlplane.controllers.role_aggregation import RoleAggregationController
from controlplane.controllers.root_ca import RootCAPublisher
from controlplane.controllers.service_account import ServiceAccountController
from controlplane.controllers.storage_protection import StorageProtectionController
from controlplane.controllers.taint_eviction import TaintEvictionController
from wharfinger.api import errors
from wharfinger.client import Client, EventRecorder, Fence, LeaderElector, NamedRecorder
from wharfinger.daemon.metrics import LEADER

log = logging.getLogger(__name__)

COMPONENT = "kube-controller-manager"
RETRY_SECONDS = 2.0

FACTORIES: tuple[Callable[[Context], Controller], ...] = (
    NodeLifecycleController,
    TaintEvictionController,
    ReplicaSetController,
    DeploymentController,
    DisruptionController,
    NamespaceController,
    PodGarbageCollector,
    ServiceAccountController,
    AccountTokenController,
    RootCAPublisher,
    CertificateApprovalController,
    CertificateSigningController,
    CertificateCleaner,
    TokenCleaner,
    StorageProtectionController,
    RoleAggregationController,
    ResourceQuotaController,
    GarbageCollector,
)
"""Every controller; one line each."""

EVENT_SOURCES = {
    NodeLifecycleController.name: "node-controller",
    TaintEvictionController.name: "taint-eviction-controller",
    ReplicaSetController.name: "replicaset-controller",
    DeploymentController.name: "deployment-controller",
    DisruptionController.name: "controllermanager",
    GarbageCollector.name: "garbage-collector-controller",
}
"""Whom Kubernetes names as the source of a controller's events; people and tools filter by it."""


class Manager:
    """See the module."""

    def __init__(self, client: Client, options: Options) -> None:
        self._client = client
        self._options = options
        self.identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        self.leading = False
        self.working = False
        """Whether the controllers of a term have synced and run."""

    async def run(self) -> None:
        """Stand for election and run the controllers, until cancelled."""
        options = self._options
        if not options.leader_elect:
            await self._run_unelected()
            return
        elector = LeaderElector(
            self._client,
            namespace=options.leader_elect_resource_namespace,
            name=options.leader_elect_resource_name,
            identity=self.identity,
            lease_duration=options.leader_elect_lease_duration,
            renew_deadline=options.leader_elect_renew_deadline,
            retry_period=options.leader_elect_retry_period,
        )
        await elector.run(self._lead, self._stopped)

    async def _run_unelected(self) -> None:
        while True:
            try:
                await self._run_term(self._client)
            except errors.StatusError as error:
                log.warning("the controllers stopped, starting again", extra={"error": str(error)})
                await asyncio.sleep(RETRY_SECONDS)

    async def _lead(self, fence: Fence) -> None:
        self.leading = True
        LEADER.labels(self._options.leader_elect_resource_name).set(1)
        await self._run_term(self._client.fenced(fence))

    def _stopped(self) -> None:
        self.leading = self.working = False
        LEADER.labels(self._options.leader_elect_resource_name).set(0)

    async def _run_term(self, client: Client) -> None:
        informers = SharedInformers(client)
        recorder = EventRecorder(client, component=COMPONENT, host=socket.gethostname())
        context = Context(client, informers, recorder, self._options)
        try:
            controllers = [factory(_named(context, factory)) for factory in FACTORIES if self._wanted(factory)]
            await informers.start()
            async with asyncio.TaskGroup() as group:
                for controller in controllers:
                    group.create_task(controller.run(), name=controller.name)
                self.working = True
                log.info("controllers run", extra={"controllers": ",".join(item.name for item in controllers)})
        except BaseExceptionGroup as faults:
            first = _first(faults)
            log.error("a controller failed, the term ends", exc_info=first, extra={"pid": os.getpid()})
            raise first from None
        finally:
            self.working = False
            context.close()
            await informers.stop()
            await recorder.close()

    def _wanted(self, factory: Callable[[Context], Controller]) -> bool:
        name = str(getattr(factory, "name", ""))
        if name == GarbageCollector.name and not self._options.enable_garbage_collector:
            return False
        if name == RootCAPublisher.name and not self._options.root_ca_file:
            return False
        if name == AccountTokenController.name and not self._options.service_account_private_key_file:
            return False
        if name == CertificateSigningController.name and not self._options.cluster_signing_cert_file:
            return False
        return self._options.enabled(name)


def _named(context: Context, factory: Callable[[Context], Controller]) -> Context:
    """Return the context with a recorder that names the controller as Kubernetes does; all else is shared."""
    source = EVENT_SOURCES.get(str(getattr(factory, "name", "")))
    if source is None or not isinstance(context.recorder, EventRecorder):
        return context
    return replace(context, recorder=NamedRecorder(context.recorder, source))


def _first(faults: BaseException) -> BaseException:
    while isinstance(faults, BaseExceptionGroup):
        faults = faults.exceptions[0]
    return faults
