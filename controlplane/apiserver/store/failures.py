"""How etcd fails, as far as the store acts on it, and what of that a client of the apiserver is told.

::

    EtcdFailure
    ├── Unanswered   no answer: what was sent may have happened, or may yet happen
    ├── Overloaded   refused before it was proposed ("too many requests"): did not happen
    ├── NoSpace      the space alarm
    ├── TooLarge     larger than etcd or gRPC takes
    ├── Compacted    the revision asked for is no longer kept
    ├── LeaseGone    the lease named by a put has ended
    └── Refused      anything else: a request that etcd does not accept

etcd's codes and texts are those of its ``rpctypes`` (api/v3rpc/rpctypes/error.go), the same from 3.4 to 3.6.
"""

from __future__ import annotations

import grpc

from wharfinger.api import errors


class EtcdFailure(Exception):  # noqa: N818  (what etcd did, not yet what a client is told)
    """Raised inside the store when a call to etcd failed; ``str()`` is etcd's own text."""

    def to_status(self, doing: str) -> errors.StatusError:
        """Return what the client is told; `doing` names the attempt, as in "cannot <doing>"."""
        return errors.InternalError(f"cannot {doing}: etcd refused: {self}")


class Unanswered(EtcdFailure):
    """Raised when no answer came."""

    def to_status(self, doing: str) -> errors.StatusError:
        """503: later, perhaps."""
        return errors.ServiceUnavailableError(f"cannot {doing}: etcd does not answer: {self}", retry_after=1)


class Overloaded(Unanswered):
    """Raised when etcd turned the request away because it has too many."""


class NoSpace(EtcdFailure):
    """Raised when etcd's database has reached its quota."""

    def to_status(self, doing: str) -> errors.StatusError:
        """503, with what to do."""
        return errors.ServiceUnavailableError(
            f"cannot {doing}: etcd's database has reached its space quota and takes at most deletes; delete what "
            "is not needed, then run `wharf etcd compact`, `wharf etcd defrag` and `wharf etcd disarm`, "
            "or raise etcd's --quota-backend-bytes"
        )


class TooLarge(EtcdFailure):
    """Raised when a request is larger than etcd takes."""

    def to_status(self, doing: str) -> errors.StatusError:
        """413."""
        return errors.RequestTooLargeError(
            f"cannot {doing}: the object is larger than etcd takes (1.5 MiB unless --max-request-bytes says otherwise)"
        )


class Compacted(EtcdFailure):
    """Raised when a revision is older than what etcd keeps."""

    def to_status(self, doing: str) -> errors.StatusError:
        """410."""
        return errors.ExpiredError(
            f"cannot {doing}: the provided resource version is too old: etcd has compacted it; list again without it"
        )


class LeaseGone(EtcdFailure):
    """Raised when a put names a lease that has ended."""


class Refused(EtcdFailure):
    """Raised when etcd does not accept the request as it is."""


_UNANSWERED = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
}


def classify(error: grpc.aio.AioRpcError) -> EtcdFailure:
    """Return the failure that a gRPC error of etcd stands for."""
    code, text = error.code(), error.details() or error.code().name
    if "database space exceeded" in text:
        return NoSpace(text)
    if "too large" in text or "larger than max" in text:
        return TooLarge(text)
    if "revision has been compacted" in text:
        return Compacted(text)
    if "lease not found" in text:
        return LeaseGone(text)
    if "too many requests" in text:
        return Overloaded(text)
    if code in _UNANSWERED:
        return Unanswered(f"{text} ({code.name})")
    return Refused(f"{text} ({code.name})")
