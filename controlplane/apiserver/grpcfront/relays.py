"""What others serve and the apiserver passes on: logs from the node agents, explanations from the scheduler.

So clients need to reach and trust the apiserver only. The agent's address is what its node's status says; its
certificate must be for the node's name. The scheduler writes its address into an annotation of its Lease.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from controlplane.apiserver.request import Request
from wharfinger.api import errors
from wharfinger.client.transport import CHANNEL_OPTIONS, error_from_rpc
from wharfinger.proto.native import scheduling_v1_pb2_grpc, streams_v1_pb2_grpc

if TYPE_CHECKING:
    from pathlib import Path

    from google.protobuf.message import Message

    from controlplane.apiserver.chain import Api
    from controlplane.apiserver.request import User
    from wharfinger.api.types import core
    from wharfinger.proto.native import scheduling_v1_pb2, streams_v1_pb2

log = logging.getLogger(__name__)

SCHEDULER_LEASE = "/registry/leases/kube-system/kube-scheduler"
ADDRESS_ANNOTATION = "wharfinger.dev/grpc-address"
_ADDRESSES = ("InternalIP", "Hostname", "ExternalIP")
_DEADLINE = 10.0


class Peers:
    """Channels to agents and the scheduler, one an address, made at first use."""

    def __init__(self, *, ca: Path | None, cert: Path | None, key: Path | None) -> None:
        self._credentials = grpc.ssl_channel_credentials(
            root_certificates=ca.read_bytes() if ca else None,
            private_key=key.read_bytes() if key else None,
            certificate_chain=cert.read_bytes() if cert else None,
        )
        self._channels: dict[tuple[str, str], grpc.aio.Channel] = {}

    def channel(self, address: str, name: str = "") -> grpc.aio.Channel:
        """Return the channel to an address whose certificate must be for `name` (or for the address itself)."""
        key = (address, name)
        found = self._channels.get(key)
        if found is None:
            options = list(CHANNEL_OPTIONS)
            if name:
                options.append(("grpc.ssl_target_name_override", name))
            found = self._channels[key] = grpc.aio.secure_channel(address, self._credentials, options=options)
        return found

    async def close(self) -> None:
        """Close every channel."""
        for channel in self._channels.values():
            await channel.close(None)
        self._channels.clear()


class Relays:
    """Passes calls on."""

    def __init__(self, api: Api, peers: Peers) -> None:
        self._api = api
        self._peers = peers

    async def log(self, user: User, message: streams_v1_pb2.LogRequest, context: Any) -> None:
        """Serve Streams.Log from the agent of the pod's node."""
        pods = self._api.kind("", "v1", "pods")
        request = Request(user, "get", pods, message.namespace, message.pod, "log")
        self._api.authorize(request)
        registry = self._api.registry(pods)
        pod: core.Pod = (await registry.reader.entry(message.namespace, message.pod)).decoded
        if message.uid and message.uid != pod.metadata.uid:
            raise errors.conflict("pods", message.pod, f"it is another pod now, with uid {pod.metadata.uid}")
        message.uid = pod.metadata.uid
        message.container = self._container(pod, message.container)
        if not pod.spec.nodeName:
            raise errors.BadRequestError(f'pod "{message.pod}" has no node yet, so no container of it has a log')
        address = self._agent(pod.spec.nodeName)
        stub = streams_v1_pb2_grpc.StreamsStub(self._peers.channel(address, pod.spec.nodeName))  # type: ignore[no-untyped-call]
        call = stub.Log(message)
        try:
            async for chunk in call:
                await context.write(chunk.SerializeToString())
        except grpc.aio.AioRpcError as error:
            raise _of_peer(error, f'the agent of node "{pod.spec.nodeName}" at {address}') from error
        finally:
            call.cancel()

    @staticmethod
    def _container(pod: core.Pod, name: str) -> str:
        names = [item.name for item in (*pod.spec.initContainers, *pod.spec.containers)]
        names += [item.ephemeralContainerCommon.name for item in pod.spec.ephemeralContainers]
        if name:
            if name not in names:
                raise errors.BadRequestError(f"container {name} is not valid for pod {pod.metadata.name}")
            return name
        if len(pod.spec.containers) == 1:
            return pod.spec.containers[0].name
        choices = " ".join(item.name for item in pod.spec.containers)
        raise errors.BadRequestError(
            f"a container name must be specified for pod {pod.metadata.name}, choose one of: [{choices}]"
        )

    def _agent(self, name: str) -> str:
        entry = self._api.cache.get(f"/registry/minions/{name}")
        if entry is None:
            raise errors.not_found("nodes", name)
        status = entry.decoded.status
        port = status.daemonEndpoints.kubeletEndpoint.Port
        by_type = {address.type: address.address for address in reversed(status.addresses)}
        host = next((by_type[kind] for kind in _ADDRESSES if by_type.get(kind)), "")
        if not host or not port:
            raise errors.ServiceUnavailableError(f'node "{name}" reports no address and port of its agent')
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

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
            raise _of_peer(error, f"the scheduler at {address}") from error
        return bytes(answer.SerializeToString())


def _of_peer(error: grpc.aio.AioRpcError, peer: str) -> errors.StatusError:
    """Return what a client is told when a peer failed."""
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        # gRPC nests its causes, the last one is what a person can use.
        cause = (error.details() or "").rpartition("connect: ")[2]
        return errors.ServiceUnavailableError(f"{peer} cannot be reached: {cause}; does it run?")
    return error_from_rpc(error)
