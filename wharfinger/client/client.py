"""The door to the API: one object a daemon or command, from which everything else is reached."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from wharfinger.api import kinds
from wharfinger.api.kinds import Kind
from wharfinger.client.config import ClientConfig
from wharfinger.client.raw import RawClient
from wharfinger.client.resources import GrpcResourceClient
from wharfinger.client.streams import Connection, RemoteCommand
from wharfinger.client.transport import Endpoint, Transport
from wharfinger.client.verbs import ResourceClient, Writer
from wharfinger.client.writer import StreamWriter
from wharfinger.proto.native import resources_v1_pb2 as native
from wharfinger.proto.native import scheduling_v1_pb2, streams_v1_pb2

M = TypeVar("M", bound=Message)

Fence = native.Fence


class Client:
    """A user's access to a cluster. Use as ``async with Client(config) as client``."""

    is_native = True
    """Whether the servers are Wharfinger's, with checked bindings and fences."""

    def __init__(
        self, config: ClientConfig, *, transport: Transport | None = None, fence: native.Fence | None = None
    ) -> None:
        self.config = config
        self.transport = transport or Transport(config)
        self.fence = fence

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; copies made by :meth:`fenced` share them."""
        await self.transport.close()

    def renew(self, config: ClientConfig) -> None:
        """Use other credentials from now on; what was opened by this client goes over to them by itself."""
        self.config = config
        self.transport.renew(config)

    def fenced(self, fence: native.Fence) -> Client:
        """Return a client on the same connections whose every write is refused once the fence's term has ended."""
        return Client(self.config, transport=self.transport, fence=fence)

    def resource(self, message: type[M]) -> ResourceClient[M]:
        """Return the typed client of one kind. Raises KeyError for a message that is no kind."""
        return self.resource_of(kinds.of(message), message)

    def resource_of(self, kind: Kind, message: type[M]) -> ResourceClient[M]:
        """Return the client of a kind whose objects are read as `message`, which may know only some of their fields."""
        return GrpcResourceClient(self.transport, kind, message, self.fence)

    async def serves(self, kind: Kind) -> bool:
        """Whether the cluster has a kind that is not one of Kubernetes'."""
        return True

    def raw(self, kind: Kind) -> RawClient:
        """Return the client of one kind that takes and returns bytes."""
        return RawClient(self.transport, kind, self.fence)

    def writer(self) -> Writer:
        """Open a write stream at first use; close it when done."""
        return StreamWriter(self.transport, self.fence)

    def _bind_request(self, request: native.BindRequest) -> native.BindRequest:
        if self.fence is not None:
            request.options.fence.CopyFrom(self.fence)
        return request

    async def bind(self, namespace: str, pod: str, *, node: str, uid: str = "", checked: bool = False) -> str:
        """Place a pod on a node and return the pod's new resourceVersion.

        Raises NotFoundError for an unknown pod, ConflictError when it has a node or is being deleted.
        """
        request = self._bind_request(
            native.BindRequest(namespace=namespace, pod=pod, node=node, uid=uid, checked=checked)
        )
        metadata = self.transport.metadata
        result = await self.transport.write(lambda endpoint: endpoint.resources.Bind(request, metadata=metadata))
        return str(result.resource_version)

    async def bind_many(self, requests: Sequence[native.BindRequest]) -> Sequence[native.BindResult]:
        """Place many pods; each has its own outcome, in order (``error`` is set on those that failed)."""
        request = native.BindManyRequest(bindings=[self._bind_request(item) for item in requests])
        metadata = self.transport.metadata
        answer = await self.transport.write(lambda endpoint: endpoint.resources.BindMany(request, metadata=metadata))
        results: Sequence[native.BindResult] = answer.results
        return results

    async def version(self) -> native.VersionInfo:
        """Return the server's version."""
        metadata = self.transport.metadata
        return await self.transport.read(
            lambda endpoint: endpoint.server.Version(native.VersionRequest(), metadata=metadata)
        )

    async def discover(self) -> Sequence[native.ResourceInfo]:
        """Return the resources that the server serves."""
        metadata = self.transport.metadata
        answer = await self.transport.read(
            lambda endpoint: endpoint.server.Discover(native.DiscoverRequest(), metadata=metadata)
        )
        resources: Sequence[native.ResourceInfo] = answer.resources
        return resources

    async def why(self, namespace: str, pod: str) -> scheduling_v1_pb2.Explanation:
        """Return what the scheduler decided last for a pod."""
        request = scheduling_v1_pb2.WhyRequest(namespace=namespace, pod=pod)
        metadata = self.transport.metadata
        return await self.transport.read(lambda endpoint: endpoint.scheduling.Why(request, metadata=metadata))

    async def pending(self, namespace: str = "") -> scheduling_v1_pb2.PendingReply:
        """Return what pending pods wait for, of one namespace or all, grouped by cause."""
        request = scheduling_v1_pb2.PendingRequest(namespace=namespace)
        metadata = self.transport.metadata
        return await self.transport.read(lambda endpoint: endpoint.scheduling.Pending(request, metadata=metadata))

    async def simulate(self, request: scheduling_v1_pb2.SimulateRequest) -> scheduling_v1_pb2.SimulateReply:
        """Return where pods would go; nothing is changed."""
        metadata = self.transport.metadata
        return await self.transport.read(lambda endpoint: endpoint.scheduling.Simulate(request, metadata=metadata))

    async def log(self, request: streams_v1_pb2.LogRequest) -> AsyncIterator[bytes]:
        """Yield a container's log as it comes."""
        endpoint: Endpoint = self.transport.endpoint()
        call = endpoint.streams.Log(request, metadata=self.transport.metadata)
        try:
            async for chunk in call:
                yield chunk.data
        except grpc.aio.AioRpcError as error:
            raise self.transport.translate(endpoint, error) from error
        finally:
            call.cancel()

    async def exec(self, wanted: streams_v1_pb2.StreamOpen) -> RemoteCommand:
        """Run a command in a running container. Use as ``async with await client.exec(...) as stream``."""
        return await RemoteCommand.open(self.transport, "Exec", wanted)

    async def attach(self, wanted: streams_v1_pb2.StreamOpen) -> RemoteCommand:
        """Join the streams of a container's first process."""
        return await RemoteCommand.open(self.transport, "Attach", wanted)

    async def port_forward(self, wanted: streams_v1_pb2.ForwardOpen) -> Connection:
        """Connect to a port of a pod."""
        return await Connection.open(self.transport, wanted)
