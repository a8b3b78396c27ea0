"""``pods/NAME/exec``, ``attach`` and ``portforward``: from a request that wants to leave HTTP to bytes both ways.

In this order, as in Kubernetes: may the user, is there such a pod with a node, are the options right, is it an upgrade
and to a protocol that we speak, does the node's agent take it on; and only then ``101``. Until then every refusal is a
Status. WebSocket v5 alone is answered before the agent is asked, and told a refusal on its error channel, as
kube-apiserver does: kubectl then shows it, instead of trying again by SPDY.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from aiohttp import web

from controlplane.apiserver import metrics
from controlplane.apiserver.httpfront import remotecommand, spdystreams, upgrades, websocket
from controlplane.apiserver.httpfront.calls import method_not_allowed
from controlplane.apiserver.podstreams import until_first
from wharfinger.api import errors
from wharfinger.proto.native import streams_v1_pb2
from wharfinger.spdy import Session

if TYPE_CHECKING:
    from multidict import MultiMapping

    from controlplane.apiserver.httpfront.routing import Address
    from controlplane.apiserver.podstreams import AgentCall, PodStreams, Target
    from controlplane.apiserver.request import User, Verb

log = logging.getLogger(__name__)

_SUBRESOURCES = frozenset({"exec", "attach", "portforward"})
MAX_PORTS = 127
"""Of one WebSocket: the number of a channel is a byte, and each port has two."""
_VERBS: dict[str, tuple[Verb, ...]] = {"POST": ("create",), "GET": ("get", "create")}
"""Since Kubernetes 1.35 a GET needs the right to create, too: a WebSocket does what the POST does."""


def is_stream(address: Address) -> bool:
    """Tell whether an address is one of those that are served here."""
    pods = (address.group, address.version, address.resource) == ("", "v1", "pods")
    return pods and address.subresource in _SUBRESOURCES and bool(address.namespace) and not address.watching


class StreamFront:
    """See the module."""

    def __init__(self, pods: PodStreams) -> None:
        self._pods = pods

    async def serve(self, http: web.BaseRequest, user: User, address: Address) -> web.StreamResponse:
        """Serve one request to its end. Raises StatusError as long as it can be answered."""
        verbs = _VERBS.get(http.method)
        if verbs is None:
            raise method_not_allowed(http.method)
        query = http.query
        subresource: Any = address.subresource
        target = await self._pods.target(
            user, subresource, address.namespace, address.name, verbs=verbs, container=query.get("container", "")
        )
        upgrade = upgrades.wanted(http)
        if not upgrade:
            raise errors.BadRequestError("Upgrade request required")
        if upgrade == "unknown":
            raise errors.BadRequestError(
                f"unable to upgrade to {http.headers['Upgrade']!r}: websocket and SPDY/3.1 are spoken here"
            )
        if http.can_read_body:
            raise errors.BadRequestError("a request to upgrade has no body")
        running = metrics.long_running(f"http {subresource}")
        running.inc()
        try:
            if subresource == "portforward":
                return await self._forward(http, target, upgrade)
            wanted = remotecommand.open_of(address, query)
            wanted.uid, wanted.container = target.uid, target.container
            return await self._command(http, target, subresource, wanted, upgrade)
        except Exception as error:
            if not upgrades.answered(http):
                raise
            level = logging.INFO if isinstance(error, errors.StatusError | ConnectionError) else logging.ERROR
            log.log(level, "a stream broke off", exc_info=level > logging.INFO, extra={"error": str(error)})
            if http.transport is not None:
                http.transport.abort()
            raise ConnectionResetError("the stream broke off") from error
        finally:
            running.dec()

    # --- exec and attach ------------------------------------------------------------------------------------------

    async def _command(
        self,
        http: web.BaseRequest,
        target: Target,
        subresource: Any,
        wanted: streams_v1_pb2.StreamOpen,
        upgrade: upgrades.Upgrade,
    ) -> web.StreamResponse:
        message = streams_v1_pb2.StreamInput(open=wanted).SerializeToString()
        if upgrade == "spdy":
            return await self._spdy_command(http, target, subresource, wanted, message)
        subprotocol = websocket.choose(http, websocket.COMMAND)
        call: AgentCall | None = None
        if not subprotocol.closes:
            call = await self._pods.begin(subresource, target, message)
        try:
            socket = await websocket.accept(http, subprotocol)
            end = websocket.CommandEnd(websocket.Channels(socket, subprotocol), wanted)
            await end.begin()
            if call is None:
                try:
                    call = await self._pods.begin(subresource, target, message)
                except errors.StatusError as error:
                    await end.status(remotecommand.status_bytes(error))
            if call is not None:
                await remotecommand.run(call, end, upgrades.gone(http))
        finally:
            if call is not None:
                call.cancel()
        await websocket.close(http, socket)
        return socket

    async def _spdy_command(
        self,
        http: web.BaseRequest,
        target: Target,
        subresource: Any,
        wanted: streams_v1_pb2.StreamOpen,
        message: bytes,
    ) -> web.StreamResponse:
        protocol = spdystreams.negotiate(http, spdystreams.COMMAND)
        call = await self._pods.begin(subresource, target, message)
        try:
            connection = await _leave_http(http, protocol)
            async with Session(connection, server=True) as session:
                end = spdystreams.CommandEnd(session, wanted, protocol)
                if await end.begin():
                    await remotecommand.run(call, end, upgrades.gone(http))
                    call.cancel()
                    await spdystreams.finish(session)
        finally:
            call.cancel()
        return _ended(http, connection)

    # --- port-forward ---------------------------------------------------------------------------------------------

    async def _forward(self, http: web.BaseRequest, target: Target, upgrade: upgrades.Upgrade) -> web.StreamResponse:
        if upgrade == "spdy":
            protocol = spdystreams.negotiate(http, spdystreams.FORWARD)
            connection = await _leave_http(http, protocol)
            await self._forward_spdy(http, target, connection)
            return _ended(http, connection)
        subprotocol = websocket.choose(http, websocket.FORWARD)
        if subprotocol.name != websocket.TUNNEL:
            return await self._forward_channels(http, target, subprotocol)
        socket = await websocket.accept(http, subprotocol)
        await self._forward_spdy(http, target, websocket.Tunnel(socket))
        await websocket.close(http, socket)
        return socket

    async def _forward_spdy(self, http: web.BaseRequest, target: Target, carrier: upgrades.ByteStream) -> None:
        async def begin(port: int) -> AgentCall:
            return await self._pods.begin("portforward", target, forward_open(target, port))

        async with Session(carrier, server=True) as session:
            await until_first(spdystreams.forward(session, begin), upgrades.gone(http))

    async def _forward_channels(
        self, http: web.BaseRequest, target: Target, subprotocol: websocket.Subprotocol
    ) -> web.StreamResponse:
        ports = ports_of(http.query)
        calls: list[AgentCall] = []
        try:
            for port in ports:
                calls.append(await self._pods.begin("portforward", target, forward_open(target, port)))
            socket = await websocket.accept(http, subprotocol)
            await websocket.forward(websocket.Channels(socket, subprotocol), calls, ports, http)
        finally:
            for call in calls:
                call.cancel()
        await websocket.close(http, socket)
        return socket


async def _leave_http(http: web.BaseRequest, protocol: str) -> upgrades.Upgraded:
    upgrades.keep_alive(http)
    return await upgrades.Upgraded.start(http, {"Upgrade": "SPDY/3.1", spdystreams.PROTOCOL_HEADER: protocol})


def _ended(http: web.BaseRequest, connection: upgrades.Upgraded) -> web.StreamResponse:
    if http.transport is not None:
        http.transport.close()
    return connection.response


def ports_of(query: MultiMapping[str]) -> list[int]:
    """Read the ports of a port-forward by channels. Raises BadRequestError."""
    given = [one for value in query.getall("ports", []) for one in value.split(",")]
    if not given:
        raise errors.BadRequestError('query parameter "ports" is required')
    if len(given) > MAX_PORTS:
        raise errors.BadRequestError(f"ports: {len(given)} of them: must be at most {MAX_PORTS}")
    return [port_of("ports", one) for one in given]


def port_of(name: str, text: str) -> int:
    """Read one port. Raises BadRequestError."""
    if not spdystreams.is_port(text):
        raise errors.BadRequestError(f"{name}: {text[:40]!r} is no port: must be between 1 and 65535")
    return int(text)


def forward_open(target: Target, port: int) -> bytes:
    """Return the message that opens a connection to a port."""
    wanted = streams_v1_pb2.ForwardOpen(namespace=target.namespace, pod=target.pod, uid=target.uid, port=port)
    return streams_v1_pb2.ForwardInput(open=wanted).SerializeToString()
