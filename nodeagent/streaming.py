"""What the agent serves to the apiserver: logs, exec, attach, port-forward, figures; gRPC with client certificates.

Only the apiserver's own identity and administrators are let in; everybody else asks the apiserver, which knows who may
read what.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import grpc
import grpc.aio
from google.protobuf import any_pb2
from google.rpc import status_pb2

from nodeagent import processstreams
from nodeagent.agent import NodeAgent
from nodeagent.logs import LogQuery, read_log
from nodeagent.options import Options
from nodeagent.podspec import all_containers
from nodeagent.podworker import PodWorker
from nodeagent.runtime import ContainerRecord, ContainerState, RuntimeFailure
from wharfinger import hostport
from wharfinger.api import errors
from wharfinger.api.times import parse_rfc3339
from wharfinger.client.transport import SERVER_OPTIONS, STATUS_DETAILS, STATUS_TYPE_URL
from wharfinger.daemon import TLSFiles
from wharfinger.proto.native import streams_v1_pb2, streams_v1_pb2_grpc

log = logging.getLogger(__name__)

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    503: grpc.StatusCode.UNAVAILABLE,
}
_ALLOWED_USERS = ("system:apiserver", "kube-apiserver-kubelet-client")
_ALLOWED_GROUP = "system:masters"


class StreamServer:
    """See the module. Serves all agents of a process on one port."""

    def __init__(self, agents: Iterable[NodeAgent]) -> None:
        self._agents = list(agents)
        self._server: grpc.aio.Server | None = None
        self.port = 0

    async def start(self, options: Options) -> None:
        """Listen. Raises OSError when the address is taken or a file cannot be read."""
        if not options.tls_cert_file or not options.tls_private_key_file:
            raise ValueError("serving logs needs --tls-cert-file and --tls-private-key-file")
        ca = Path(options.client_ca_file) if options.client_ca_file else None
        files = TLSFiles(Path(options.tls_cert_file), Path(options.tls_private_key_file), ca)
        credentials = files.server_credentials(require_client=True)
        server = grpc.aio.server(options=SERVER_OPTIONS)
        streams_v1_pb2_grpc.add_StreamsServicer_to_server(Streams(self._agents), server)  # type: ignore[no-untyped-call]
        wanted = hostport.join(options.address, options.port)
        try:
            self.port = server.add_secure_port(wanted, credentials)
        except RuntimeError as error:
            raise OSError(f"{wanted} cannot be listened on: {error}") from error
        await server.start()
        self._server = server
        log.info("serving logs", extra={"address": hostport.join(options.address, self.port)})

    async def close(self) -> None:
        """Stop listening; streams under way end."""
        if self._server is not None:
            await self._server.stop(0.5)


class Streams(streams_v1_pb2_grpc.StreamsServicer):
    """The service."""

    def __init__(self, agents: Sequence[NodeAgent]) -> None:
        self._agents = agents

    async def Log(self, request: streams_v1_pb2.LogRequest, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        """Send a container's log."""
        try:
            authorize(context.auth_context())
            async for data in self._log(request):
                yield streams_v1_pb2.LogChunk(data=data)
        except errors.StatusError as error:
            await _abort(context, error)

    async def Exec(self, _: Any, context: Any) -> None:  # noqa: N802
        """Run a command in a container."""
        await self._process(context, attach=False)

    async def Attach(self, _: Any, context: Any) -> None:  # noqa: N802
        """Join a container's first process."""
        await self._process(context, attach=True)

    async def _process(self, context: Any, *, attach: bool) -> None:
        try:
            authorize(context.auth_context())
            wanted = await processstreams.first_of(context, "Attach" if attach else "Exec")
            agent, worker = self._find(wanted)
            name = container_name(worker, wanted.container)
            process = await processstreams.open_process(agent, worker, name, wanted, attach=attach)
        except errors.StatusError as error:
            await _abort(context, error)
        await processstreams.serve_process(context, process, wanted)

    async def PortForward(self, _: Any, context: Any) -> None:  # noqa: N802
        """Connect to a port of a pod."""
        try:
            authorize(context.auth_context())
            wanted = await processstreams.first_of(context, "PortForward")
            agent, worker = self._find(wanted)
            port = await processstreams.open_port(agent, worker, wanted.port)
        except errors.StatusError as error:
            await _abort(context, error)
        await processstreams.serve_port(context, port)

    async def Usage(self, request: streams_v1_pb2.UsageRequest, context: Any) -> streams_v1_pb2.NodeUsage:  # noqa: N802
        """Say what a node and its containers use."""
        try:
            authorize(context.auth_context())
            for agent in self._agents:
                if request.node in ("", agent.name):
                    return agent.usage.report()
            raise errors.not_found("nodes", request.node)
        except errors.StatusError as error:
            await _abort(context, error)

    async def _log(self, request: streams_v1_pb2.LogRequest) -> AsyncIterator[bytes]:
        agent, worker = self._find(request)
        name = container_name(worker, request.container)
        try:
            record = await agent.runtime.inspect(worker.uid)
        except RuntimeFailure as error:
            raise errors.ServiceUnavailableError(f"the container runtime cannot be asked: {error}") from error
        chosen = choose_run(worker, name, record.history(name), previous=request.previous)
        query = query_of(request)
        final = chosen.state is not ContainerState.RUNNING

        def ended() -> bool:
            status = next(
                (
                    one
                    for one in (*worker.memory.status.containerStatuses, *worker.memory.status.initContainerStatuses)
                    if one.name == name
                ),
                None,
            )
            if final or worker.finished or status is None:
                return True
            return not status.containerID.endswith(chosen.id) or not status.state.HasField("running")

        try:
            async for data in read_log(Path(chosen.log_path), query, ended):
                yield data
        except FileNotFoundError as error:
            raise errors.NotFoundError(f"the log of container {name} is gone") from error

    def _find(self, request: Any) -> tuple[NodeAgent, PodWorker]:
        for agent in self._agents:
            worker = agent.pods.worker(request.namespace, request.pod)
            if worker is not None and request.uid in ("", worker.uid):
                return agent, worker
        raise errors.not_found("pods", request.pod)


def authorize(peer: Mapping[str, Sequence[bytes]]) -> None:
    """Let the apiserver and administrators in. Raises ForbiddenError."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    pems = peer.get("x509_pem_cert") or ()
    if not pems:
        raise errors.ForbiddenError("the node agent serves only clients with a certificate")
    subject = x509.load_pem_x509_certificate(pems[0]).subject
    user = "".join(str(one.value) for one in subject.get_attributes_for_oid(NameOID.COMMON_NAME))
    groups = [str(one.value) for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    if user not in _ALLOWED_USERS and _ALLOWED_GROUP not in groups:
        raise errors.ForbiddenError(f'User "{user}" may not ask the node agent; ask the apiserver')


def container_name(worker: PodWorker, wanted: str) -> str:
    """Return the container that is meant. Raises BadRequestError."""
    names = [container.name for _, container in all_containers(worker.pod)]
    spec = worker.pod.spec
    mains = [container.name for container in spec.containers]
    pod = worker.pod.metadata.name
    if wanted:
        if wanted not in names:
            raise errors.BadRequestError(f"container {wanted} is not valid for pod {pod}")
        return wanted
    if len(mains) == 1 and not spec.initContainers:
        return mains[0]
    if worker.pod.metadata.annotations.get("kubectl.kubernetes.io/default-container") in mains:
        return worker.pod.metadata.annotations["kubectl.kubernetes.io/default-container"]
    raise errors.BadRequestError(
        f"a container name must be specified for pod {pod}, choose one of: [{' '.join(names)}]"
    )


def choose_run(worker: PodWorker, name: str, history: list[ContainerRecord], *, previous: bool) -> ContainerRecord:
    """Return the run of a container whose log is meant. Raises BadRequestError when there is none."""
    pod = worker.pod.metadata.name
    runs = [record for record in history if record.log_path]
    if previous:
        if len(runs) < 2:
            raise errors.BadRequestError(f'previous terminated container "{name}" in pod "{pod}" not found')
        return runs[1]
    if not runs and history:
        raise errors.BadRequestError(f'container "{name}" in pod "{pod}" writes no log: its node is a hollow one')
    if not runs:
        waiting = worker.memory.waiting.get(name)
        reason = waiting.reason if waiting else "ContainerCreating"
        raise errors.BadRequestError(f'container "{name}" in pod "{pod}" is waiting to start: {reason}')
    return runs[0]


def query_of(request: streams_v1_pb2.LogRequest) -> LogQuery:
    """Return what a request asks of a log. Raises BadRequestError."""
    since = None
    if request.HasField("since_seconds"):
        if request.since_seconds < 1:
            raise errors.BadRequestError("sinceSeconds must be greater than 0")
        since = (int(time.time()) - request.since_seconds, 0)
    elif request.since_time:
        try:
            since = parse_rfc3339(request.since_time)
        except ValueError as error:
            raise errors.BadRequestError(f"sinceTime {request.since_time!r} is no RFC 3339 time") from error
    if request.HasField("tail_lines") and request.tail_lines < 0:
        raise errors.BadRequestError("tailLines must be greater than or equal to 0")
    if request.HasField("limit_bytes") and request.limit_bytes < 1:
        raise errors.BadRequestError("limitBytes must be greater than 0")
    return LogQuery(
        follow=request.follow and not request.previous,
        timestamps=request.timestamps,
        tail_lines=request.tail_lines if request.HasField("tail_lines") else None,
        since=since,
        limit_bytes=request.limit_bytes if request.HasField("limit_bytes") else None,
    )


async def _abort(context: Any, error: errors.StatusError) -> NoReturn:
    status = error.to_status()
    detail = any_pb2.Any(type_url=STATUS_TYPE_URL, value=status.SerializeToString())
    code = _CODES.get(error.status_code, grpc.StatusCode.INTERNAL)
    packed = status_pb2.Status(code=code.value[0], message=error.message, details=[detail])
    await context.abort(code, error.message, ((STATUS_DETAILS, packed.SerializeToString()),))
    raise AssertionError("abort always raises")
