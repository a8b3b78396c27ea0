"""Serves ``wharfinger.v1.Scheduling`` to the apiserver, which relays it to users after checking their rights.

The port demands a client certificate of the cluster's authority, and lets in only the apiserver and administrators.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
from google.rpc import code_pb2, status_pb2

from controlplane.scheduler import why
from controlplane.scheduler.decisions import Diagnosis, Placement
from controlplane.scheduler.gangplacing import GangRefusal
from controlplane.scheduler.leadership import Leadership
from controlplane.scheduler.pending import STATES, pending
from controlplane.scheduler.queue import QueuedPod
from controlplane.scheduler.simulate import simulate
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.client import SERVER_OPTIONS
from wharfinger.client.transport import STATUS_DETAILS, STATUS_TYPE_URL
from wharfinger.daemon import TLSFiles
from wharfinger.proto.native import scheduling_v1_pb2 as native
from wharfinger.proto.native import scheduling_v1_pb2_grpc

log = logging.getLogger(__name__)

ALLOWED_USERS = frozenset({"system:apiserver"})
ALLOWED_GROUPS = frozenset({"system:masters"})

_CODES = {
    400: (grpc.StatusCode.INVALID_ARGUMENT, code_pb2.INVALID_ARGUMENT),
    403: (grpc.StatusCode.PERMISSION_DENIED, code_pb2.PERMISSION_DENIED),
    404: (grpc.StatusCode.NOT_FOUND, code_pb2.NOT_FOUND),
    503: (grpc.StatusCode.UNAVAILABLE, code_pb2.UNAVAILABLE),
}


class Scheduling(scheduling_v1_pb2_grpc.SchedulingServicer):
    """Answers from the present term."""

    def __init__(self, term: Callable[[], Leadership | None]) -> None:
        self._term = term

    async def Why(self, request: native.WhyRequest, context: Any) -> native.Explanation:  # noqa: N802
        """Return what was decided last for a pod."""
        try:
            return await explain(self._leading(context), request.namespace, request.pod)
        except errors.StatusError as error:
            await _abort(context, error)
            raise AssertionError("unreachable") from error

    async def Pending(self, request: native.PendingRequest, context: Any) -> native.PendingReply:  # noqa: N802
        """Return what the pods of the queue wait for."""
        try:
            term = self._leading(context)
            return pending(term.engine, term.queue, time.monotonic(), namespace=request.namespace)
        except errors.StatusError as error:
            await _abort(context, error)
            raise AssertionError("unreachable") from error

    async def Simulate(self, request: native.SimulateRequest, context: Any) -> native.SimulateReply:  # noqa: N802
        """Return where pods would go."""
        try:
            return simulate(self._leading(context).engine, request)
        except errors.StatusError as error:
            await _abort(context, error)
            raise AssertionError("unreachable") from error

    def _leading(self, context: Any) -> Leadership:
        _authorise(context)
        term = self._term()
        if term is None or not term.ready:
            raise errors.ServiceUnavailableError("this scheduler does not lead; ask the holder of its Lease")
        return term


async def explain(term: Leadership, namespace: str, name: str) -> native.Explanation:
    """Explain a pod. Raises NotFoundError for one that nobody has heard of, others when the pod cannot be read."""
    key = f"{namespace}/{name}"
    engine = term.engine
    answer = native.Explanation(namespace=namespace, pod=name, state="unknown")
    waiting = term.queue.get(key)
    gang = engine.gangs.of(key)
    if waiting is not None:
        if gang is not None:
            last = waiting.last if isinstance(waiting.last, GangRefusal) else None
            why.explain_gang(gang, last, time.monotonic(), answer.gang)
        _explain_waiting(term, waiting, answer)
        return answer
    pod = term.pods.get(key)
    if pod is None:
        raise errors.not_found("pods", name)
    answer.uid = pod.uid
    answer.scheduler = pod.scheduler
    if gang is not None:
        why.explain_gang(gang, None, time.monotonic(), answer.gang)
    remembered = term.bound.get(key)
    if remembered is not None and remembered.uid == pod.uid:
        answer.state = "bound"
        answer.attempts = remembered.attempts
        answer.age_seconds = time.monotonic() - remembered.at
        why.explain_placement(engine, remembered.placement, answer)
        return answer
    if pod.node:
        answer.state = "bound"
        answer.chosen_node = pod.node
        answer.message = "not placed by this scheduler since it leads; what follows is what it would find now"
    elif pod.scheduler in engine.profiles:
        answer.message = "the pod is being deleted; what follows is what an attempt would find now"
    else:
        answer.message = (
            f"the pod asks for scheduler {pod.scheduler!r}, this one serves {', '.join(engine.profiles)}; "
            "what follows is what it would find now"
        )
    _explain_now(term, await term.read_pod(namespace, name), answer)
    return answer


def _explain_waiting(term: Leadership, waiting: QueuedPod, answer: native.Explanation) -> None:
    info = waiting.info
    answer.uid = info.uid
    answer.scheduler = info.cls.exemplar.spec.schedulerName
    answer.attempts = waiting.attempts
    answer.state = STATES.get(waiting.state, waiting.state)
    if waiting.attempted:
        answer.age_seconds = time.monotonic() - waiting.attempted
    if waiting.gate is not None:
        answer.message = f"{waiting.gate.plugin}: {', '.join(waiting.gate.reasons)}"
    elif isinstance(waiting.last, GangRefusal):
        why.explain_gang_refusal(waiting.last, answer)
    elif isinstance(waiting.last, Diagnosis):
        why.explain_failure(term.engine, info, waiting.last, answer)
        if info.nominated:
            answer.message += f" Room is being made on {info.nominated}."
    elif isinstance(waiting.last, Placement):
        why.explain_placement(term.engine, waiting.last, answer)
        if waiting.state == "in flight":
            answer.state = "binding"
    else:
        answer.message = "not looked at yet; what follows is what an attempt would find now"
        why.explain_now(term.engine, info, answer)


def _explain_now(term: Leadership, pod: core.Pod, answer: native.Explanation) -> None:
    """Evaluate a pod that is not in the queue, by the profile it asks for or else the first."""
    profiles = term.engine.profiles
    copy = core.Pod()
    copy.CopyFrom(pod)
    copy.spec.ClearField("nodeName")
    if copy.spec.schedulerName not in profiles:
        copy.spec.schedulerName = next(iter(profiles))
    why.explain_now(term.engine, term.engine.pods.info(copy), answer)


def _authorise(context: Any) -> None:
    """Let in the apiserver and administrators. Raises ForbiddenError for all others."""
    certificate = context.auth_context()
    pem = certificate.get("x509_pem_cert")
    if not pem:
        return  # a server without TLS, whose operator has chosen so
    users = {name.decode() for name in certificate.get("x509_common_name", ())}
    if not (users & ALLOWED_USERS or _groups(pem[0]) & ALLOWED_GROUPS):
        raise errors.ForbiddenError(f"{', '.join(sorted(users))} may not ask the scheduler; ask the apiserver")


def _groups(pem: bytes) -> set[str]:
    # Seven megabytes that are only needed when a person asks the scheduler directly.
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    subject = x509.load_pem_x509_certificate(pem).subject
    return {str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}


async def _abort(context: Any, error: errors.StatusError) -> None:
    code, number = _CODES.get(error.code, (grpc.StatusCode.INTERNAL, code_pb2.INTERNAL))
    status = status_pb2.Status(code=number, message=str(error))
    status.details.add(type_url=STATUS_TYPE_URL, value=error.to_status().SerializeToString())
    context.set_trailing_metadata(((STATUS_DETAILS, status.SerializeToString()),))
    await context.abort(code, str(error))


async def serve(term: Callable[[], Leadership | None], *, address: str, tls: TLSFiles | None) -> tuple[Any, int]:
    """Start the gRPC server; returns it and its port. Raises OSError when the address is taken."""
    server = grpc.aio.server(options=SERVER_OPTIONS)
    scheduling_v1_pb2_grpc.add_SchedulingServicer_to_server(Scheduling(term), server)  # type: ignore[no-untyped-call]
    try:
        if tls is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, tls.server_credentials(require_client=True))
    except RuntimeError as error:
        raise OSError(f"cannot listen on {address}: {error}") from error
    await server.start()
    return server, port
