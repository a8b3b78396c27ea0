"""The errors that clients see: one class a reason of Kubernetes' ``Status``.

::

    StatusError
    ├── BadRequestError        400  the request cannot be understood
    ├── UnauthorizedError      401  nobody is known by these credentials
    ├── ForbiddenError         403  known, but not allowed
    ├── NotFoundError          404  no such object or resource
    ├── MethodNotAllowedError  405  the resource has no such verb
    ├── NotAcceptableError     406  no representation that the client accepts
    ├── AlreadyExistsError     409  the name is taken
    ├── ConflictError          409  it changed meanwhile, or a precondition failed
    ├── GoneError              410  an address that is no more
    │   └── ExpiredError       410  the resourceVersion or continue token is too old
    ├── RequestTooLargeError   413  the object does not fit into the store
    ├── UnsupportedMediaTypeError 415
    ├── InvalidError           422  fields are wrong; one cause each
    ├── TooManyRequestsError   429  later, perhaps (evictions against a budget)
    ├── InternalError          500
    ├── ServiceUnavailableError 503 the store cannot be reached or is out of space
    └── TimeoutError_          504  the answer did not come in time; the write may have happened

A :class:`FieldError` is one cause of an :class:`InvalidError`: it names the field, the value and what would be right.
The reasons and codes follow ``k8s.io/apimachinery/pkg/apis/meta/v1`` (documented under "Response codes" in the API
conventions of Kubernetes).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from wharfinger.api.types import meta

Reason = Literal[
    "FieldValueRequired", "FieldValueInvalid", "FieldValueNotSupported", "FieldValueDuplicate",
    "FieldValueForbidden", "FieldValueNotFound", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid",
    "InternalError", "ResourceVersionTooLarge",
]  # fmt: skip


@dataclass(frozen=True)
class FieldError:
    """One wrong field."""

    field: str
    """Path in JSON notation: ``spec.containers[0].image``."""
    reason: Reason
    message: str
    """As kubectl prints it after the path, such as ``Required value: must be set``."""

    @classmethod
    def required(cls, field: str, detail: str = "") -> Self:
        """Say that a field is missing."""
        return cls(field, "FieldValueRequired", _join("Required value", detail))

    @classmethod
    def invalid(cls, field: str, value: Any, detail: str) -> Self:
        """Say that a value is wrong, and what would be right."""
        return cls(field, "FieldValueInvalid", _join(f"Invalid value: {_show(value)}", detail))

    @classmethod
    def not_supported(cls, field: str, value: Any, supported: Iterable[str]) -> Self:
        """Say that a value is none of a closed list."""
        values = ", ".join(json.dumps(item) for item in supported)
        return cls(field, "FieldValueNotSupported", f"Unsupported value: {_show(value)}: supported values: {values}")

    @classmethod
    def duplicate(cls, field: str, value: Any) -> Self:
        """Say that a value stands twice where it may stand once."""
        return cls(field, "FieldValueDuplicate", f"Duplicate value: {_show(value)}")

    @classmethod
    def forbidden(cls, field: str, detail: str) -> Self:
        """Say that a field may not be set or changed here."""
        return cls(field, "FieldValueForbidden", _join("Forbidden", detail))

    @classmethod
    def not_found(cls, field: str, value: Any) -> Self:
        """Say that what a field names is not there."""
        return cls(field, "FieldValueNotFound", f"Not found: {_show(value)}")

    @classmethod
    def too_long(cls, field: str, limit: int) -> Self:
        """Say that a value has more than `limit` bytes."""
        return cls(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")

    @classmethod
    def too_many(cls, field: str, count: int, limit: int) -> Self:
        """Say that a list has more than `limit` elements."""
        return cls(field, "FieldValueTooMany", f"Too many: {count}: must have at most {limit} items")

    @classmethod
    def type_invalid(cls, field: str, value: Any, detail: str) -> Self:
        """Say that a value has the wrong type."""
        return cls(field, "FieldValueTypeInvalid", _join(f"Invalid value: {_show(value)}", detail))


def _join(head: str, detail: str) -> str:
    return f"{head}: {detail}" if detail else head


def _show(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 300 else text[:297] + "..."


class StatusError(Exception):
    """An error that a client sees as a ``Status``; see the module for the tree.

    `resource` is the plural with its group (``deployments.apps``), as in messages; `kind`, `group` and `name` fill
    ``details`` of the Status.
    """

    code: ClassVar[int] = 500
    reason: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        name: str = "",
        kind: str = "",
        group: str = "",
        uid: str = "",
        causes: Sequence[FieldError] = (),
        retry_after: int = 0,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.name = name
        self.kind = kind
        self.group = group
        self.uid = uid
        self.causes = tuple(causes)
        self.retry_after = retry_after
        self.details = details
        self.status_code = self.code
        self.status_reason = self.reason

    def __str__(self) -> str:
        return self.message

    def to_status(self) -> meta.Status:
        """Return the Status that goes to the client."""
        status = meta.Status(status="Failure", message=self.message, reason=self.status_reason, code=self.status_code)
        status.metadata.SetInParent()
        if self.details is not None:
            status.details.SetInParent()  # some answers of Kubernetes have details without anything in them
        if self.name or self.kind or self.group or self.uid or self.causes or self.retry_after:
            details = status.details
            details.name, details.kind, details.group = self.name, self.kind, self.group
            details.uid, details.retryAfterSeconds = self.uid, self.retry_after
            for cause in self.causes:
                details.causes.add(reason=cause.reason, message=cause.message, field=cause.field)
        return status


class BadRequestError(StatusError):
    """Raised when a request cannot be understood."""

    code = 400
    reason = "BadRequest"


class UnauthorizedError(StatusError):
    """Raised when nobody is known by the credentials given."""

    code = 401
    reason = "Unauthorized"


class ForbiddenError(StatusError):
    """Raised when the user is known but may not do this."""

    code = 403
    reason = "Forbidden"


class NotFoundError(StatusError):
    """Raised when there is no such object, resource or subresource."""

    code = 404
    reason = "NotFound"


class MethodNotAllowedError(StatusError):
    """Raised when a resource does not know a verb."""

    code = 405
    reason = "MethodNotAllowed"


class NotAcceptableError(StatusError):
    """Raised when no representation is one that the client accepts."""

    code = 406
    reason = "NotAcceptable"


class AlreadyExistsError(StatusError):
    """Raised when the name is taken."""

    code = 409
    reason = "AlreadyExists"


class ConflictError(StatusError):
    """Raised when the object changed meanwhile, or a precondition or fence failed."""

    code = 409
    reason = "Conflict"


class GoneError(StatusError):
    """Raised when what was asked for is no more."""

    code = 410
    reason = "Gone"


class ExpiredError(GoneError):
    """Raised when a resourceVersion or continue token is older than what the server keeps."""

    reason = "Expired"


class RequestTooLargeError(StatusError):
    """Raised when an object is larger than the store takes."""

    code = 413
    reason = "RequestEntityTooLarge"


class UnsupportedMediaTypeError(StatusError):
    """Raised when a body is in a format that the server does not read."""

    code = 415
    reason = "UnsupportedMediaType"


class InvalidError(StatusError):
    """Raised when fields are wrong; its causes name each."""

    code = 422
    reason = "Invalid"


class TooManyRequestsError(StatusError):
    """Raised when the request may succeed later: an eviction against a budget, a server at its limit."""

    code = 429
    reason = "TooManyRequests"


class InternalError(StatusError):
    """Raised when the server itself failed."""

    code = 500
    reason = "InternalError"


class ServiceUnavailableError(StatusError):
    """Raised when the store or the server cannot be reached, or the store is out of space."""

    code = 503
    reason = "ServiceUnavailable"


class TimeoutError_(StatusError):  # noqa: N801, N818  (the builtin's name is taken)
    """Raised when an answer did not come in time; the write may or may not have happened."""

    code = 504
    reason = "Timeout"


_CLASSES: tuple[type[StatusError], ...] = (
    BadRequestError, UnauthorizedError, ForbiddenError, NotFoundError, MethodNotAllowedError, NotAcceptableError,
    AlreadyExistsError, ConflictError, GoneError, ExpiredError, RequestTooLargeError, UnsupportedMediaTypeError,
    InvalidError, TooManyRequestsError, InternalError, ServiceUnavailableError, TimeoutError_,
)  # fmt: skip
_BY_REASON = {cls.reason: cls for cls in _CLASSES}
_BY_CODE: dict[int, type[StatusError]] = {}
for _cls in _CLASSES:
    _BY_CODE.setdefault(_cls.code, _cls)


def from_status(status: meta.Status) -> StatusError:
    """Return the error that a received Status stands for; unknown reasons fall back to their code."""
    cls = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code) or StatusError
    details = status.details
    error = cls(
        status.message,
        name=details.name,
        kind=details.kind,
        group=details.group,
        uid=details.uid,
        retry_after=details.retryAfterSeconds,
        causes=[FieldError(cause.field, cause.reason, cause.message) for cause in details.causes],  # type: ignore[arg-type]
    )
    error.status_code = status.code or cls.code
    error.status_reason = status.reason
    return error


def not_found(group_resource: str, name: str) -> NotFoundError:
    """Return the usual 404 for an object: ``pods "web" not found``."""
    resource, _, group = group_resource.partition(".")
    return NotFoundError(f'{group_resource} "{name}" not found', name=name, kind=resource, group=group)


def already_exists(group_resource: str, name: str) -> AlreadyExistsError:
    """Return the usual 409 for a create: ``pods "web" already exists``."""
    resource, _, group = group_resource.partition(".")
    return AlreadyExistsError(f'{group_resource} "{name}" already exists', name=name, kind=resource, group=group)


def conflict(group_resource: str, name: str, why: str) -> ConflictError:
    """Return the usual 409 for a write: ``Operation cannot be fulfilled on pods "web": <why>``."""
    resource, _, group = group_resource.partition(".")
    return ConflictError(
        f'Operation cannot be fulfilled on {group_resource} "{name}": {why}', name=name, kind=resource, group=group
    )


def invalid(kind: str, group: str, name: str, causes: Sequence[FieldError]) -> InvalidError:
    """Return the usual 422: ``Pod "web" is invalid: spec.containers: Required value``."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    qualified = f"{kind}.{group}" if group else kind
    return InvalidError(f'{qualified} "{name}" is invalid: {text}', name=name, kind=kind, group=group, causes=causes)
