"""What others serve and the apiserver passes on: streams from the node agents, explanations from the scheduler.

So clients need to reach and trust the apiserver only. The agent's address is what its node's status says; its
certificate must be for the node's name. The scheduler writes its address into an annotation of its Lease.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

import grpc
import grpc.aio

from controlplane.apiserver import audit
from controlplane.apiserver.grpcfront.wire import parsed
from controlplane.apiserver.podstreams import EOF, of_peer, until_first
from controlplane.apiserver.request import Request
from wharfinger.api import errors
from wharfinger.proto.native import scheduling_v1_pb2_grpc, streams_v1_pb2, streams_v1_pb2_grpc

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from controlplane.apiserver.chain import Api
    from controlplane.apiserver.podstreams import Peers, PodStreams, Subresource, Target
    from controlplane.apiserver.request import User
    from wharfinger.proto.native import scheduling_v1_pb2

SCHEDULER_LEASE = "/registry/leases/kube-system/kube-scheduler"
ADDRESS_ANNOTATION = "wharfinger.dev/grpc-address"
_DEADLINE = 10.0


class Relays:
    """Passes calls on."""

    def __init__(self, api: Api, peers: Peers, pods: PodStreams) -> None:
        self._api = api
        self._peers = peers
        self.pods = pods

    async def log(self, user: User, message: streams_v1_pb2.LogRequest, context: Any) -> None:
        """Serve Streams.Log from the agent of the pod's node."""
        target = await self.pods.target(
            user, "log", message.namespace, message.pod, verbs=("get",), container=message.container, uid=message.uid
        )
        message.uid, message.container = target.uid, target.container
        stub = streams_v1_pb2_grpc.StreamsStub(self.pods.channel(target))  # type: ignore[no-untyped-call]
        call = stub.Log(message)
        audit.started()
        try:
            async for chunk in call:
                await context.write(chunk.SerializeToString())
        except grpc.aio.AioRpcError as error:
            raise of_peer(error, target.agent) from error
        finally:
            call.cancel()

    async def exec(self, user: User, first: streams_v1_pb2.StreamInput, context: Any) -> None:
        """Serve Streams.Exec; `first` is the client's first message."""
        await self._remote(user, first, context, "exec")

    async def attach(self, user: User, first: streams_v1_pb2.StreamInput, context: Any) -> None:
        """Serve Streams.Attach."""
        await self._remote(user, first, context, "attach")

    async def port_forward(self, user: User, first: streams_v1_pb2.ForwardInput, context: Any) -> None:
        """Serve Streams.PortForward."""
        wanted = first.open
        if not 0 < wanted.port < 65536:
            raise errors.BadRequestError(f"open.port: Invalid value: {wanted.port}: must be between 1 and 65535")
        target = await self.pods.target(user, "portforward", wanted.namespace, wanted.pod, uid=wanted.uid)
        wanted.uid = target.uid
        await self._relay(context, "portforward", target, first)

    async def _remote(
        self, user: User, first: streams_v1_pb2.StreamInput, context: Any, subresource: Literal["exec", "attach"]
    ) -> None:
        wanted = first.open
        check_open(wanted, subresource)
        target = await self.pods.target(
            user, subresource, wanted.namespace, wanted.pod, container=wanted.container, uid=wanted.uid
        )
        wanted.uid, wanted.container = target.uid, target.container
        await self._relay(context, subresource, target, first)

    async def _relay(self, context: Any, subresource: Subresource, target: Target, first: Message) -> None:
        """Move messages both ways, as they are, until the agent ends the call or the client is gone."""
        call = self.pods.open(subresource, target)
        audit.started()

        async def inputs() -> None:
            while (message := await context.read()) is not EOF:
                if not await call.write(message):
                    break
            else:
                await call.done_writing()
            await asyncio.Event().wait()  # the agent's side decides when it is over

        async def outputs() -> None:
            while (message := await call.read()) is not None:
                await context.write(message)

        try:
            await call.write(first.SerializeToString())
            await until_first(outputs(), inputs())
        finally:
            call.cancel()

    async def why(self, user: User, message: scheduling_v1_pb2.WhyRequest) -> bytes:
        """Serve Scheduling.Why from the scheduler that leads."""
        pods = self._api.kind("", "v1", "pods")
        self._api.authorize(Request(user, "get", pods, message.namespace, message.pod))
        await self._api.registry(pods).reader.entry(message.namespace, message.pod)
        return await self._ask("Why", message)

    async def pending(self, user: User, message: scheduling_v1_pb2.PendingRequest) -> bytes:
        """Serve Scheduling.Pending; whoever may list the pods may ask."""
        self._api.authorize(Request(user, "list", self._api.kind("", "v1", "pods"), message.namespace))
        return await self._ask("Pending", message)

    async def simulate(self, user: User, message: scheduling_v1_pb2.SimulateRequest) -> bytes:
        """Serve Scheduling.Simulate; it shows nodes and other pods, so both must be open to the user."""
        for resource in ("pods", "nodes"):
            self._api.authorize(Request(user, "list", self._api.kind("", "v1", resource)))
        return await self._ask("Simulate", message)

    async def _ask(self, method: str, message: Message) -> bytes:
        """Pass a request on to the scheduler that leads."""
        lease = self._api.cache.get(SCHEDULER_LEASE)
        address = lease.decoded.metadata.annotations.get(ADDRESS_ANNOTATION, "") if lease is not None else ""
        if not address:
            raise errors.ServiceUnavailableError(
                "no scheduler that can explain is running: its lease kube-system/kube-scheduler "
                f"{'carries no ' + ADDRESS_ANNOTATION if lease is not None else 'does not exist'}"
            )
        stub = scheduling_v1_pb2_grpc.SchedulingStub(self._peers.channel(address))  # type: ignore[no-untyped-call]
        try:
            answer = await getattr(stub, method)(message, timeout=_DEADLINE)
        except grpc.aio.AioRpcError as error:
            raise of_peer(error, f"the scheduler at {address}") from error
        return bytes(answer.SerializeToString())


async def first_message(context: Any, message_class: Any) -> Any:
    """Read a client's first message, which must be `open`."""
    message = await context.read()
    if message is EOF:
        raise errors.BadRequestError("the stream ended before its first message, which must be open")
    first = parsed(message_class, message)
    if first.WhichOneof("input") != "open":
        raise errors.BadRequestError("the first message must be open")
    return first


def check_open(wanted: streams_v1_pb2.StreamOpen, subresource: str) -> None:
    """Refuse what no agent could do. Raises BadRequestError."""
    if subresource == "exec" and not wanted.command:
        raise errors.BadRequestError("you must specify at least one command for the container")
    if subresource == "attach" and wanted.command:
        raise errors.BadRequestError("open.command: attaching runs no command")
    if not (wanted.stdin or wanted.stdout or wanted.stderr):
        raise errors.BadRequestError("you must specify at least 1 of stdin, stdout, stderr")
    if wanted.tty and wanted.stderr:
        raise errors.BadRequestError("tty and stderr cannot both be true: a terminal has one output")
