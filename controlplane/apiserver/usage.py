"""``metrics.k8s.io``: what nodes and pods use, asked of the node agents when somebody reads it.

The group is what ``kubectl top`` and autoscalers read; elsewhere an addon serves it. Nothing is stored: a list asks all
agents at the same time, and one that does not answer soon is left out, as an addon would leave out what it could not
scrape. Answers are remembered for a moment, so that many readers do not multiply the questions.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from controlplane.apiserver.podstreams import agent_address
from controlplane.apiserver.registry.reader import Page
from controlplane.apiserver.registry.resources import StoredResource
from controlplane.apiserver.registry.selection import select
from controlplane.apiserver.request import Answer
from controlplane.apiserver.store import Entry, Resource
from controlplane.apiserver.store.entry import Memo
from wharfinger.api import errors, kinds, storage
from wharfinger.api.types import metrics
from wharfinger.proto.native import streams_v1_pb2 as streams
from wharfinger.proto.native import streams_v1_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.apiserver.podstreams import Peers
    from controlplane.apiserver.registry.registry import Readable
    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache
    from wharfinger.api.kinds import Kind
    from wharfinger.api.types import core, meta

log = logging.getLogger(__name__)

_DEADLINE = 3.0
_FRESH_SECONDS = 5.0
_SECOND = 10**9


class Agents:
    """Asks the node agents."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._known: dict[str, tuple[float, asyncio.Future[streams.NodeUsage | None]]] = {}

    async def of(self, nodes: Iterable[core.Node]) -> dict[str, streams.NodeUsage]:
        """Return what the agents of these nodes say, by the node's name; of those that answered."""
        now = time.monotonic()
        self._known = {name: known for name, known in self._known.items() if now - known[0] <= _FRESH_SECONDS}
        asked = {}
        for node in nodes:
            name = node.metadata.name
            if name not in self._known:
                self._known[name] = (now, asyncio.ensure_future(self._ask(name, node)))
            asked[name] = self._known[name][1]
        answers = await asyncio.gather(*(asyncio.shield(answer) for answer in asked.values()))
        return {name: answer for name, answer in zip(asked, answers, strict=True) if answer is not None}

    async def _ask(self, node: str, status: core.Node) -> streams.NodeUsage | None:
        try:
            address = agent_address(status)
            stub = streams_v1_pb2_grpc.StreamsStub(self._peers.channel(address, node))  # type: ignore[no-untyped-call]
            answer: streams.NodeUsage = await stub.Usage(streams.UsageRequest(node=node), timeout=_DEADLINE)
        except (errors.StatusError, grpc.aio.AioRpcError) as error:
            log.debug("an agent did not say what it uses", extra={"node": node, "error": str(error)})
            return None
        return answer


class UsageReader:
    """Reads one of the two kinds, with the interface of a stored kind's reader."""

    def __init__(self, kind: Kind, cache: Cache, agents: Agents) -> None:
        self.kind = kind
        self.resource = StoredResource(kind)
        self._cache = cache
        self._agents = agents
        self._memo = Memo(objects=256, size=1 << 20)
        self._source = Resource("", kind.group_resource, namespaced=kind.namespaced, decode=storage.decode)

    async def get(self, request: Request, version: str = "") -> Answer:
        """Return one object. Raises NotFoundError, also for what was not measured yet."""
        await self._cache.fresh()
        for message in await self._messages(request.namespace, request.name):
            return Answer(self.kind, message.SerializeToString())
        raise errors.NotFoundError(
            f'{self.kind.group_resource} "{request.name}" not found: it does not exist, or was not measured yet',
            details={"name": request.name, "group": self.kind.group, "kind": self.kind.resource},
        )

    async def list_page(self, request: Request, options: meta.ListOptions) -> Page:
        """Return what is measured and chosen by the selectors, in the order of names; always all of it."""
        await self._cache.fresh()
        chosen = select(
            self.kind,
            request.namespace,
            label_selector=options.labelSelector,
            field_selector=options.fieldSelector,
            view=self.resource.view,
        )
        messages = () if chosen.empty else await self._messages(chosen.namespace, chosen.name)
        entries = [entry for entry in map(self._entry, messages) if chosen.matches is None or chosen.matches(entry)]
        return Page(entries, self._cache.revision)

    def _entry(self, message: Any) -> Entry:
        names = (message.metadata.namespace, message.metadata.name)
        key = "/".join(name for name in names if name)
        value = storage.encode(message)
        return Entry(key, value, mod_revision=0, create_revision=0, resource=self._source, memo=self._memo)

    async def _messages(self, namespace: str, name: str = "") -> Iterable[Any]:
        raise NotImplementedError


class NodeUsageReader(UsageReader):
    """NodeMetrics."""

    async def _messages(self, namespace: str, name: str = "") -> Iterable[Any]:
        nodes = {entry.name: entry.decoded for entry in self._cache.list("/registry/minions/").entries}
        wanted = [node for node in sorted(nodes) if name in ("", node)]
        made = []
        for node, usage in (await self._agents.of(nodes[node] for node in wanted)).items():
            if usage.HasField("node"):
                message = metrics.NodeMetrics()
                _describe(message, nodes[node].metadata, usage.node)
                _fill(message.usage, usage.node)
                made.append(message)
        return made


class PodUsageReader(UsageReader):
    """PodMetrics."""

    async def _messages(self, namespace: str, name: str = "") -> Iterable[Any]:
        listed = self._cache.list("/registry/pods/", namespace=namespace).entries
        pods = [entry.decoded for entry in listed if name in ("", entry.name)]
        pods = [pod for pod in pods if pod.status.phase == "Running"]
        names = sorted({pod.spec.nodeName for pod in pods})
        nodes = [self._cache.get(f"/registry/minions/{node}") for node in names]
        usage = await self._agents.of(entry.decoded for entry in nodes if entry is not None)
        by_uid = {one.uid: one for node in usage.values() for one in node.pods}
        made = []
        for pod in pods:
            found = by_uid.get(pod.metadata.uid)
            if found is None or not found.containers:
                continue
            message = metrics.PodMetrics()
            _describe(message, pod.metadata, found.containers[0].measured)
            for container in found.containers:
                _fill(message.containers.add(name=container.name).usage, container.measured)
            made.append(message)
        return made


def _describe(message: Any, source: meta.ObjectMeta, measured: streams.Measured) -> None:
    message.metadata.name, message.metadata.namespace = source.name, source.namespace
    message.metadata.labels.update(source.labels)
    message.metadata.creationTimestamp.seconds = measured.time // _SECOND
    message.timestamp.seconds = measured.time // _SECOND
    message.window.duration = measured.window // 1_000_000 * 1_000_000


def _fill(usage: Any, measured: streams.Measured) -> None:
    usage["cpu"].string = f"{measured.cpu}n"
    usage["memory"].string = f"{measured.memory // 1024}Ki"


class UsageKind:
    """One of the two kinds; see :class:`~controlplane.apiserver.registry.registry.Readable`."""

    def __init__(self, reader: UsageReader) -> None:
        self.kind = reader.kind
        self.reader = reader
        self.resource = reader.resource


def served(cache: Cache, peers: Peers) -> list[Readable]:
    """Return both kinds of the group."""
    agents = Agents(peers)
    return [
        UsageKind(NodeUsageReader(kinds.of(metrics.NodeMetrics), cache, agents)),
        UsageKind(PodUsageReader(kinds.of(metrics.PodMetrics), cache, agents)),
    ]
