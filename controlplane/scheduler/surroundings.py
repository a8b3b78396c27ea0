"""What lies around pods and nodes: namespaces and their labels, services and workload controllers, disruption budgets.

Affinity terms may select namespaces by label; pods without spread constraints of their own are spread among the pods
that belong with them; preemption spares pods that have a budget. Of each object only the few fields are kept that are
read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from controlplane.scheduler.engine import Engine
from controlplane.scheduler.framework import Aspect
from controlplane.scheduler.gangs import Group
from controlplane.scheduler.victims import Budget
from wharfinger.api import errors, labels
from wharfinger.api.types import apps, core, gangs, policy
from wharfinger.client import Client, Informer

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Observed:
    """An object, reduced to a value."""

    namespace: str
    name: str
    uid: str
    resourceVersion: str  # noqa: N815 - read by the informer, which expects Kubernetes' name
    value: Any = field(default=None)

    @property
    def metadata(self) -> Observed:
        """Stand in for the message in the informer."""
        return self


def observer(read: Callable[[Any], Any], what: str) -> Callable[[Any], Any]:
    """Return what reduces messages to :class:`Observed`; one that cannot be read has the value None."""

    def observe(message: Any) -> Observed:
        metadata = message.metadata
        try:
            value = read(message)
        except ValueError as error:
            name = f"{metadata.namespace}/{metadata.name}"
            log.warning("left out of account", extra={what: name, "error": str(error)})
            value = None
        return Observed(metadata.namespace, metadata.name, metadata.uid, metadata.resourceVersion, value)

    return observe


def read_budget(message: policy.PodDisruptionBudget) -> Budget:
    """Read a PodDisruptionBudget. Raises ValueError for a malformed selector."""
    spec, status = message.spec, message.status
    return Budget(
        namespace=message.metadata.namespace,
        selector=labels.from_label_selector(spec.selector if spec.HasField("selector") else None),
        allowed=status.disruptionsAllowed,
        disrupted=frozenset(status.disruptedPods),
    )


class Surroundings:
    """Keeps an engine's namespaces, workloads and budgets as the API has them."""

    def __init__(self, client: Client, engine: Engine, note: Callable[[int], None]) -> None:
        self._client = client
        self._gangs = engine.gangs
        self._table = engine.table
        self._budgets = engine.budgets
        self._pods = engine.pods
        self._note = note
        self._informers: list[Informer[Any]] = []
        self._follow(client, core.Namespace, lambda it: dict(it.metadata.labels), self._set_namespace)
        self._follow(client, core.Service, lambda it: dict(it.spec.selector), self._set_service)
        self._follow(
            client,
            core.ReplicationController,
            lambda it: labels.from_map(it.spec.selector),
            self._owner_setter("ReplicationController"),
        )
        for message in (apps.ReplicaSet, apps.StatefulSet):
            self._follow(
                client,
                message,
                lambda it: labels.from_label_selector(it.spec.selector if it.spec.HasField("selector") else None),
                self._owner_setter(message.DESCRIPTOR.name),
            )

        self._follow(client, policy.PodDisruptionBudget, read_budget, self._set_budget)

    def _follow(
        self, client: Client, message: Any, read: Callable[[Any], Any], take: Callable[[str, str, Any], None]
    ) -> None:
        informer: Informer[Any] = Informer(
            client.resource(message), transform=observer(read, message.DESCRIPTOR.name.lower())
        )
        informer.add_handler(
            on_add=lambda it: take(it.namespace, it.name, it.value),
            on_update=lambda _, it: take(it.namespace, it.name, it.value),
            on_delete=lambda it: take(it.namespace, it.name, None),
        )
        self._informers.append(informer)

    async def start(self) -> None:
        """Take in what there is, and follow it."""
        if await self._knows_gangs():
            self._follow(self._client, gangs.PodGroup, Group.of, self._set_group)
        await asyncio.gather(*(informer.start() for informer in self._informers))
        await asyncio.gather(*(informer.wait_synced() for informer in self._informers))

    async def stop(self) -> None:
        """Stop following."""
        for informer in self._informers:
            await informer.stop()

    async def _knows_gangs(self) -> bool:
        """Whether the API serves PodGroups: a Kubernetes cluster does not."""
        try:
            await self._client.resource(gangs.PodGroup).list(namespace="", limit=1)
        except errors.NotFoundError:
            log.info("this cluster has no PodGroups: members of one wait for it in vain")
            return False
        except errors.ForbiddenError as error:
            log.warning("PodGroups may not be read: members of one wait for it in vain", extra={"error": str(error)})
            return False
        except errors.ServiceUnavailableError:
            return True  # the informer waits for it
        return True

    def _set_group(self, namespace: str, name: str, value: Group | None) -> None:
        self._gangs.set_group(f"{namespace}/{name}", value)
        self._note(0)

    def _set_namespace(self, _: str, name: str, value: dict[str, str] | None) -> None:
        before = self._table.namespaces.get(name)
        self._table.set_namespace(name, value)
        if before != value:
            self._note(Aspect.PEERS)

    def _set_service(self, namespace: str, name: str, value: dict[str, str] | None) -> None:
        self._pods.note_selector(value or ())
        if self._table.workloads.set_service(namespace, name, value):
            self._table.basis += 1
            self._note(0)

    def _set_budget(self, namespace: str, name: str, value: Budget | None) -> None:
        if value is None:
            self._budgets.pop(f"{namespace}/{name}", None)
        else:
            self._budgets[f"{namespace}/{name}"] = value
            self._pods.note_selector(requirement.key for requirement in value.selector.requirements)

    def _owner_setter(self, kind: str) -> Callable[[str, str, Any], None]:
        def take(namespace: str, name: str, value: labels.Selector | None) -> None:
            if value is not None:
                self._pods.note_selector(requirement.key for requirement in value.requirements)
            if self._table.workloads.set_owner(kind, namespace, name, value):
                self._table.basis += 1
                self._note(0)

        return take
