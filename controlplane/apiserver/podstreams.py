"""The streams of pods: found, allowed, and opened at the agent of the pod's node.

Both fronts begin here. What is decided (who may, which pod, which container, where its agent is) is decided once; what
comes back is an open call to the agent, and the front moves bytes between it and its client. A call to an agent and the
client that it serves share one fate: when either is gone the other is ended at once.

Nothing is buffered here. A message is read from one side only when the other has taken the one before, so whoever is
slow holds up its own stream and nothing else: the flow control of HTTP/2 towards the agent is one a stream.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import grpc
import grpc.aio

from controlplane.apiserver.request import Request
from wharfinger import hostport
from wharfinger.api import errors
from wharfinger.client.transport import CHANNEL_OPTIONS, error_from_rpc
from wharfinger.daemon import ClientFiles, Follower, Retirement
from wharfinger.proto.native import streams_v1_pb2

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from pathlib import Path

    from controlplane.apiserver.chain import Api
    from controlplane.apiserver.request import User, Verb
    from wharfinger.api.types import core

log = logging.getLogger(__name__)

Subresource = Literal["log", "exec", "attach", "portforward"]
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
OPENING_SECONDS = 30.0
"""How long an agent may take to open a stream."""
_LONGEST_SECONDS = 4 * 3600.0
"""That a stream may go on with the certificate with which it began, after that was replaced."""
_METHODS = {"exec": "Exec", "attach": "Attach", "portforward": "PortForward"}
_ADDRESSES = ("InternalIP", "Hostname", "ExternalIP")
_WINDOW: list[tuple[str, Any]] = [
    # What a stream may hold here for a client that does not read: not the many megabytes that gRPC would allow itself.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 1 << 20),
]
EOF: Any = getattr(grpc.aio, "EOF")  # noqa: B009  (the stubs do not know it)


class Peers:
    """Channels to agents and the scheduler, one an address, made at first use.

    When the files are replaced, calls go over new channels; those under way (somebody's shell) end when they end.
    """

    def __init__(self, *, ca: Path | None, cert: Path | None, key: Path | None) -> None:
        """Raises OSError, or ValueError when certificate and key do not belong together."""
        self._files = ClientFiles(ca, cert, key)
        self._channels: dict[tuple[str, str], grpc.aio.Channel] = {}
        self._retired = Retirement("channel")
        self._read()

    def _read(self) -> None:
        pair = self._files.read()
        self._credentials = grpc.ssl_channel_credentials(
            root_certificates=pair.ca, private_key=pair.key, certificate_chain=pair.cert
        )

    def follower(self) -> Follower:
        """Return who follows the files."""
        return Follower(lambda: self._files.paths, self.renew, what="certificate for agents")

    def renew(self) -> None:
        """Read the files, and use them for every new call. Raises as the constructor."""
        self._read()
        log.info("a new certificate is used for agents from now on", extra={"file": str(self._files.cert)})
        old, self._channels = self._channels, {}
        for channel in old.values():
            self._retired.add(partial(channel.close, None), seconds=_LONGEST_SECONDS)

    def channel(self, address: str, name: str = "") -> grpc.aio.Channel:
        """Return the channel to an address whose certificate must be for `name` (or for the address itself)."""
        key = (address, name)
        found = self._channels.get(key)
        if found is None:
            options = [*CHANNEL_OPTIONS, *_WINDOW]
            if name:
                options.append(("grpc.ssl_target_name_override", name))
            found = self._channels[key] = grpc.aio.secure_channel(address, self._credentials, options=options)
        return found

    async def close(self) -> None:
        """Close every channel."""
        await self._retired.close()
        for channel in self._channels.values():
            await channel.close(None)
        self._channels.clear()


@dataclass(frozen=True, slots=True)
class Target:
    """A pod whose streams may be used, and where its agent is."""

    namespace: str
    pod: str
    uid: str
    container: str
    node: str
    address: str

    @property
    def agent(self) -> str:
        """How messages name the agent."""
        return f'the agent of node "{self.node}" at {self.address}'


class AgentCall:
    """An open bidirectional call to an agent, on serialised messages. Every way out of it must pass :meth:`cancel`."""

    def __init__(self, call: Any, target: Target, under_way: set[AgentCall]) -> None:
        self._call = call
        self._under_way = under_way
        under_way.add(self)
        self._writing = asyncio.Lock()
        self.target = target

    async def write(self, message: bytes) -> bool:
        """Send a message, once the agent has room. False: the call has ended, and :meth:`read` tells how."""
        try:
            async with self._writing:  # gRPC takes one message at a time
                await self._call.write(message)
        except (asyncio.InvalidStateError, grpc.aio.AioRpcError, grpc.aio.UsageError):
            return False
        return True

    async def done_writing(self) -> None:
        """Say that no more will be sent."""
        try:
            await self._call.done_writing()
        except (asyncio.InvalidStateError, grpc.aio.AioRpcError, grpc.aio.UsageError):
            return  # it has ended; reading tells how

    async def read(self) -> bytes | None:
        """Return the next message; None when the agent has ended the call in order. Raises StatusError."""
        try:
            message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise of_peer(error, self.target.agent) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():  # it was not we who gave up, but `PodStreams.end`
                raise errors.ServiceUnavailableError("the apiserver ends the stream: it is stopping") from None
            raise
        return None if message is EOF else message

    def cancel(self) -> None:
        """End the call; harmless when it has ended."""
        self._under_way.discard(self)
        self._call.cancel()


class PodStreams:
    """See the module."""

    def __init__(self, api: Api, peers: Peers) -> None:
        self._api = api
        self._peers = peers
        self._under_way: set[AgentCall] = set()

    def end(self) -> None:
        """End every stream: their clients are told that the apiserver is stopping."""
        for call in list(self._under_way):
            call.cancel()

    async def target(
        self,
        user: User,
        subresource: Subresource,
        namespace: str,
        pod: str,
        *,
        verbs: Sequence[Verb] = ("create",),
        container: str = "",
        uid: str = "",
    ) -> Target:
        """Find a pod's agent for a user who may use the pod's stream, by every one of `verbs`. Raises StatusError."""
        for name, value in (("namespace", namespace), ("pod", pod)):
            if not value:
                raise errors.BadRequestError(f"{name}: Required value")
        pods = self._api.kind("", "v1", "pods")
        for verb in verbs:
            self._api.authorize(Request(user, verb, pods, namespace, pod, subresource))
        found: core.Pod = (await self._api.registry(pods).reader.entry(namespace, pod)).decoded
        if uid and uid != found.metadata.uid:
            raise errors.conflict("pods", pod, f"it is another pod now, with uid {found.metadata.uid}")
        if subresource != "portforward":
            container = choose_container(found, container)
        node = found.spec.nodeName
        if not node:
            if subresource == "log":
                raise errors.BadRequestError(f'pod "{pod}" has no node yet, so no container of it has a log')
            raise errors.BadRequestError(f"pod {pod} does not have a host assigned: it has no node yet")
        entry = self._api.cache.get(f"/registry/minions/{node}")
        if entry is None:
            raise errors.not_found("nodes", node)
        return Target(namespace, pod, found.metadata.uid, container, node, agent_address(entry.decoded))

    def channel(self, target: Target) -> grpc.aio.Channel:
        """Return the channel to a target's agent."""
        return self._peers.channel(target.address, target.node)

    def open(self, subresource: Subresource, target: Target) -> AgentCall:
        """Begin a bidirectional call; whether the agent can be reached shows when it is read."""
        channel: Any = self.channel(target)  # the stubs demand serialisers, but bytes need none
        method = channel.stream_stream(f"/wharfinger.v1.Streams/{_METHODS[subresource]}")
        return AgentCall(method(), target, self._under_way)

    async def begin(self, subresource: Subresource, target: Target, message: bytes) -> AgentCall:
        """Open a call with its first message, and wait until the agent has taken it on. Raises StatusError."""
        call = self.open(subresource, target)
        try:
            async with asyncio.timeout(OPENING_SECONDS):
                await call.write(message)
                first = await call.read()
        except TimeoutError as error:
            call.cancel()
            raise errors.TimeoutError_(
                f"{target.agent} did not open the stream within {OPENING_SECONDS:g} s"
            ) from error
        except BaseException:
            call.cancel()
            raise
        # `opened` has the same number in both kinds of answers.
        if first is None or not streams_v1_pb2.StreamOutput.FromString(first).opened:
            call.cancel()
            raise errors.InternalError(f"{target.agent} began the stream without saying that it is open")
        return call


def agent_address(node: core.Node) -> str:
    """Return where a node's agent listens, as its status says. Raises ServiceUnavailableError when it does not."""
    port = node.status.daemonEndpoints.kubeletEndpoint.Port
    by_type = {address.type: address.address for address in reversed(node.status.addresses)}
    host = next((by_type[kind] for kind in _ADDRESSES if by_type.get(kind)), "")
    if not host or not port:
        raise errors.ServiceUnavailableError(f'node "{node.metadata.name}" reports no address and port of its agent')
    return hostport.join(host, port)


def choose_container(pod: core.Pod, name: str) -> str:
    """Return the container that is meant: the one named, the annotated default, the only one. BadRequestError else."""
    mains = [item.name for item in pod.spec.containers]
    inits = [item.name for item in pod.spec.initContainers]
    ephemeral = [item.ephemeralContainerCommon.name for item in pod.spec.ephemeralContainers]
    if name:
        if name not in (*inits, *mains, *ephemeral):
            raise errors.BadRequestError(f"container {name} is not valid for pod {pod.metadata.name}")
        return name
    if len(mains) == 1:
        return mains[0]
    annotated = pod.metadata.annotations.get(DEFAULT_CONTAINER, "")
    if annotated in mains:
        return annotated
    also = f" or one of the init containers: [{' '.join(inits)}]" if inits else ""
    raise errors.BadRequestError(
        f"a container name must be specified for pod {pod.metadata.name}, choose one of: [{' '.join(mains)}]{also}"
    )


def of_peer(error: grpc.aio.AioRpcError, peer: str) -> errors.StatusError:
    """Return what a client is told when a peer failed."""
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        own = error_from_rpc(error)
        if not own.message.startswith("the apiserver "):
            return own  # its own words, carried by a Status
        # gRPC nests its causes, the last one is what a person can use.
        cause = (error.details() or "").rpartition("connect: ")[2]
        return errors.ServiceUnavailableError(f"{peer} cannot be reached: {cause}; does it run?")
    if error.code() is grpc.StatusCode.CANCELLED:
        return errors.ServiceUnavailableError(f"{peer} broke off the call; it may be stopping")
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return errors.InternalError(f"{peer} does not know this call: it is older than the apiserver")
    return error_from_rpc(error)


async def until_first(*works: Coroutine[Any, Any, None]) -> None:
    """Run all of them until the first has ended, then end the others; raises what that first one raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for task, outcome in zip(tasks, outcomes, strict=True):
        if task in done and isinstance(outcome, BaseException):
            raise outcome
