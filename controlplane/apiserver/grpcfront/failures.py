"""Errors on the wire: a meta.v1.Status as a detail of google.rpc.Status, with the gRPC code that says the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import grpc
from google.protobuf import any_pb2
from google.rpc import status_pb2

from controlplane.apiserver import audit
from controlplane.apiserver.failures import as_status_error
from wharfinger.client.transport import STATUS_DETAILS, STATUS_TYPE_URL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wharfinger.api.errors import StatusError

_CODES: Mapping[str, grpc.StatusCode] = {
    "BadRequest": grpc.StatusCode.INVALID_ARGUMENT,
    "Invalid": grpc.StatusCode.INVALID_ARGUMENT,
    "UnsupportedMediaType": grpc.StatusCode.INVALID_ARGUMENT,
    "NotAcceptable": grpc.StatusCode.INVALID_ARGUMENT,
    "Unauthorized": grpc.StatusCode.UNAUTHENTICATED,
    "Forbidden": grpc.StatusCode.PERMISSION_DENIED,
    "NotFound": grpc.StatusCode.NOT_FOUND,
    "MethodNotAllowed": grpc.StatusCode.UNIMPLEMENTED,
    "AlreadyExists": grpc.StatusCode.ALREADY_EXISTS,
    "Conflict": grpc.StatusCode.ABORTED,
    "Gone": grpc.StatusCode.OUT_OF_RANGE,
    "Expired": grpc.StatusCode.OUT_OF_RANGE,
    "RequestEntityTooLarge": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "TooManyRequests": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "InternalError": grpc.StatusCode.INTERNAL,
    "ServiceUnavailable": grpc.StatusCode.UNAVAILABLE,
    "Timeout": grpc.StatusCode.DEADLINE_EXCEEDED,
}
_MAX_MESSAGE = 512
"""Characters of the plain message, which travels in a header; the Status has more of it."""
_MAX_DETAILS = 6000
"""Bytes of the Status, which travels in a trailer: gRPC's clients take 8 KiB of headers together by default, and tell
of nothing but that when there are more."""


def code_of(error: StatusError) -> grpc.StatusCode:
    """Return the gRPC code of an error."""
    return _CODES.get(error.status_reason, grpc.StatusCode.UNKNOWN)


def shortened(failure: StatusError) -> bytes:
    """Return the bytes of the error's Status, without the last causes and the end of its message if it is too long."""
    status = failure.to_status()
    if status.ByteSize() <= _MAX_DETAILS:
        return status.SerializeToString()
    causes = status.details.causes
    room, kept = _MAX_DETAILS // 2, 0
    for cause in causes:
        room -= cause.ByteSize() + 4
        if room < 0:
            break
        kept += 1
    left = len(causes) - kept
    del causes[kept:]
    status.message = _cut(failure.message, _MAX_DETAILS // 3)
    if left:
        status.message += f" (and {left} more causes)"
    if status.ByteSize() > _MAX_DETAILS:
        status.details.name = _cut(status.details.name, 300)
    return status.SerializeToString()


def _cut(text: str, size: int) -> str:
    """Return the beginning of a text, `size` bytes of UTF-8 at most."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= size else data[: size - 3].decode("utf-8", "ignore") + "..."


async def abort(context: Any, error: Exception, what: str) -> NoReturn:
    """End a call with an error."""
    failure = as_status_error(error, what)
    code = code_of(failure)
    value: Any = code.value
    detail = status_pb2.Status(
        code=value[0],
        details=[any_pb2.Any(type_url=STATUS_TYPE_URL, value=shortened(failure))],
    )
    trailing: tuple[tuple[str, Any], ...] = ((STATUS_DETAILS, detail.SerializeToString()),)
    if (record := audit.current()) is not None:
        trailing += (("audit-id", record.audit_id),)
    await context.abort(code, _cut(failure.message, _MAX_MESSAGE), trailing_metadata=trailing)
    raise AssertionError  # abort has raised
