"""What becomes of an exception that a request ends in, whichever front it came by."""

from __future__ import annotations

import logging

from controlplane.apiserver import audit
from wharfinger.api.errors import InternalError, StatusError

log = logging.getLogger(__name__)


def as_status_error(error: Exception, what: str) -> StatusError:
    """Return the error that a client sees; one that nobody foresaw is logged and becomes a plain 500.

    The audit record of the request has it, too.
    """
    if isinstance(error, StatusError):
        audit.failed(error)
        return error
    log.error("a request failed unexpectedly", exc_info=error, extra={"call": what})
    failure = InternalError(
        f"an error on the server ({type(error).__name__}) has prevented the request from succeeding"
    )
    audit.failed(failure, unforeseen=True)
    return failure
