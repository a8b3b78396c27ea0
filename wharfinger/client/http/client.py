"""A client of any Kubernetes cluster, for daemons that follow and write: the scheduler, as a second one.

What our own gRPC API has beyond Kubernetes' is not there, and this says so once: bindings are not checked against the
room on the node in the store's transaction, and writes do not carry the term of a Lease. Two schedulers that place pods
on the same nodes at once can overfill one; the kubelet then refuses the pod.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, TypeVar

import orjson
from google.protobuf.message import Message

from wharfinger.api import errors, kinds
from wharfinger.api.kinds import Kind
from wharfinger.api.types import core
from wharfinger.client.client import Client
from wharfinger.client.config import ClientConfig
from wharfinger.client.http.resources import HttpResourceClient, path_of
from wharfinger.client.http.transport import JSON, HttpTransport
from wharfinger.client.http.writer import HttpWriter
from wharfinger.client.raw import RawClient
from wharfinger.client.verbs import ResourceClient, Writer
from wharfinger.proto.native import resources_v1_pb2 as native

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)

BINDS_AT_ONCE = 32


class HttpClient(Client):
    """A user's access to a cluster over HTTPS. What only gRPC has raises MethodNotAllowedError."""

    is_native = False

    def __init__(self, config: ClientConfig, *, http: HttpTransport | None = None) -> None:
        if config.http is None:
            raise ValueError("this configuration is for gRPC: HttpClient needs one that was loaded for HTTP")
        self.config = config
        self.fence = None
        self._http = http or HttpTransport(config.http)
        self._room = asyncio.Semaphore(BINDS_AT_ONCE)
        if http is None:
            log.info(
                "a foreign cluster over HTTP: bindings are not checked against the node's room, "
                "writes are not fenced by the leader's term",
                extra={"server": config.http.server},
            )

    async def close(self) -> None:
        """Close the connections; copies made by :meth:`fenced` share them."""
        await self._http.close()

    def renew(self, config: ClientConfig) -> None:
        """Use other credentials for new connections; watches that are open end when the server ends them."""
        if config.http is None:
            raise ValueError("this configuration is for gRPC: HttpClient needs one that was loaded for HTTP")
        self.config = config
        self._http.renew(config.http)

    def fenced(self, fence: native.Fence) -> Client:
        """Return this client: Kubernetes knows no fences."""
        return self

    def resource_of(self, kind: Kind, message: type[M]) -> ResourceClient[M]:
        """Return the client of a kind whose objects are read as `message`."""
        return HttpResourceClient(self._http, kind, message)

    async def serves(self, kind: Kind) -> bool:
        """Whether the cluster has a kind. Raises StatusError when that cannot be found out."""
        try:
            data, _ = await self._http.call("GET", path_of(kind).rpartition("/")[0])
        except errors.NotFoundError:
            return False
        if not data.lstrip().startswith(b"{"):
            return kind.resource.encode() in data  # an APIResourceList as protobuf: the name stands there as it is
        listed = orjson.loads(data).get("resources") or []
        return any(entry.get("name") == kind.resource for entry in listed)

    def raw(self, kind: Kind) -> RawClient:
        """Refuse: the command line speaks gRPC."""
        raise _not_here("a client for bytes")

    def writer(self) -> Writer:
        """Return a writer; its writes are requests of their own, a bounded number at a time."""
        return HttpWriter(self._http)

    async def bind(self, namespace: str, pod: str, *, node: str, uid: str = "", checked: bool = False) -> str:
        """Place a pod on a node; `checked` has no effect. Returns an empty version: Kubernetes does not tell it.

        Raises NotFoundError for an unknown pod, ConflictError when it has a node, is being deleted or has another uid.
        """
        metadata = {"name": pod, "namespace": namespace} | ({"uid": uid} if uid else {})
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = path_of(kinds.of(core.Pod), namespace=namespace, name=pod, subresource="binding")
        async with self._room:
            await self._http.call("POST", path, body=orjson.dumps(body), content_type=JSON)
        return ""

    async def bind_many(self, requests: Sequence[native.BindRequest]) -> Sequence[native.BindResult]:
        """Place many pods; each has its own outcome, in order (``error`` is set on those that failed)."""
        return await asyncio.gather(*(self._bind_one(request) for request in requests))

    async def _bind_one(self, request: native.BindRequest) -> native.BindResult:
        try:
            await self.bind(request.namespace, request.pod, node=request.node, uid=request.uid)
        except errors.StatusError as error:
            return native.BindResult(error=error.to_status())
        return native.BindResult()

    async def version(self) -> native.VersionInfo:
        """Return the server's version."""
        data, _ = await self._http.call("GET", "/version")
        document: dict[str, Any] = orjson.loads(data)
        known = {field.name for field in native.VersionInfo.DESCRIPTOR.fields}
        found = {"git_version": "gitVersion", "platform": "platform"}
        return native.VersionInfo(
            **{ours: str(document.get(theirs, "")) for ours, theirs in found.items() if ours in known}
        )

    async def discover(self) -> Sequence[native.ResourceInfo]:
        """Refuse; :meth:`serves` answers for one kind."""
        raise _not_here("discovery")

    async def why(self, namespace: str, pod: str) -> Any:
        """Refuse: explanations are asked over gRPC."""
        raise _not_here("explanations")

    async def pending(self, namespace: str = "") -> Any:
        """Refuse: explanations are asked over gRPC."""
        raise _not_here("explanations")

    async def simulate(self, request: Any) -> Any:
        """Refuse: simulations are asked over gRPC."""
        raise _not_here("simulations")


def _not_here(what: str) -> errors.MethodNotAllowedError:
    return errors.MethodNotAllowedError(f"{what}: only over gRPC, with an apiserver of Wharfinger")
