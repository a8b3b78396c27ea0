"""Bodies of requests to messages: protobuf, JSON or YAML in, a checked and defaulted message out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.apiserver import audit
from controlplane.apiserver.request import JSON, PROTOBUF, YAML
from wharfinger.api import codec, defaults
from wharfinger.api.errors import BadRequestError, RequestTooLargeError, UnsupportedMediaTypeError

if TYPE_CHECKING:
    from controlplane.apiserver.request import Body, Request
    from wharfinger.api.kinds import Kind

VALIDATIONS = ("Strict", "Warn", "Ignore")


def check_size(size: int, limit: int) -> None:
    """Raise RequestTooLargeError when a body is larger than the store takes."""
    if size > limit:
        raise RequestTooLargeError(
            f"the object has {size} bytes; at most {limit} are taken (--max-request-bytes, and what etcd accepts)"
        )


def read(body: Body, kind: Kind, request: Request, *, default: bool = True) -> Any:
    """Decode a body as an object of a kind, and fill in defaults.

    Unknown and duplicate fields of JSON and YAML become warnings of the request, or an error with ``Strict``.
    Raises BadRequestError for what cannot be decoded or is another kind, UnsupportedMediaTypeError.
    """
    content_type = body.content_type
    if content_type == PROTOBUF or not content_type:
        if not kind.described:
            raise UnsupportedMediaTypeError(f"{kind.group_resource} have no protobuf form; send {JSON} or {YAML}")
        message = _read_protobuf(body, kind)
    else:
        message = _read_text(body, kind, request)
    if default:
        defaults.apply(message)
    record = audit.current()
    if record is not None:
        record.requested(message)
    return message


def _read_protobuf(body: Body, kind: Kind) -> Any:
    if body.kind and (body.kind != kind.kind or body.api_version != kind.api_version):
        raise BadRequestError(
            f"the object is a {body.kind} of {body.api_version}, but a {kind.kind} of {kind.api_version} is wanted here"
        )
    return codec.from_protobuf(body.data, kind.message)


def _read_text(body: Body, kind: Kind, request: Request) -> Any:
    request.heeds_warnings = True
    if body.content_type not in (JSON, YAML):
        raise UnsupportedMediaTypeError(
            f"the body's content type is {body.content_type!r}; supported are {PROTOBUF}, {JSON} and {YAML}"
        )
    validation: Any = request.options.field_validation or "Warn"
    read_text = codec.from_yaml if body.content_type == YAML else codec.from_json
    decoded = read_text(body.data, kind.message, validation=validation)
    request.warnings.extend(str(issue) for issue in decoded.issues)
    return decoded.message
