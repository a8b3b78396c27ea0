"""The audit log: who asked for what, when, from where, and how it ended; in Kubernetes' ``audit.k8s.io/v1`` events.

`policy` says how much of which request is recorded, `record` is one request's entry while the request is under way,
`auditor` makes records, `logfile` is where finished lines go.

A front begins a record when it knows who asks for what, and ends it when the answer is given. In between everything
that works on the request finds it by :func:`current`: a request runs in one asyncio task and those that it starts, so a
context variable reaches the store and back without passing through every signature. Without a policy there are no
records, and what is left is one look at that variable.
"""

from controlplane.apiserver.audit.auditor import Auditor, configured
from controlplane.apiserver.audit.record import (
    Record,
    annotate,
    annotate_early,
    answered,
    current,
    done,
    end,
    failed,
    impersonating,
    started,
)
from controlplane.apiserver.audit.source import Source

__all__ = [
    "Auditor", "Record", "Source", "annotate", "annotate_early", "answered", "configured", "current", "done", "end",
    "failed", "impersonating", "started",
]  # fmt: skip
