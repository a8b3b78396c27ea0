"""One request's entry in the audit log, from its arrival to its end, and the lines that are written of it.

What a line holds follows kube-apiserver's event by event: the body is recorded as it was decoded and defaulted, before
admission; a Status that is the answer is ``responseStatus`` at every level; names, uid and version of the object come
from the body where the address has none; the first to set an annotation has set it.

One thing is left out that kube-apiserver writes: live bearer tokens in TokenReviews and TokenRequests, whatever the
level. Whoever reads the log could be their bearer.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from controlplane.apiserver.audit.policy import Level
from wharfinger.api import codec
from wharfinger.api.custom import CustomKind
from wharfinger.api.errors import StatusError
from wharfinger.api.types import authentication, meta

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.apiserver.audit.policy import Decision
    from controlplane.apiserver.audit.source import Source
    from controlplane.apiserver.auth.attributes import Attributes
    from controlplane.apiserver.registry.reader import Page
    from controlplane.apiserver.registry.resources import StoredResource
    from controlplane.apiserver.request import Answer, User

API_VERSION = "audit.k8s.io/v1"
_EARLY: ContextVar[dict[str, str] | None] = ContextVar("annotations before the audit record", default=None)
_CURRENT: ContextVar[Record | None] = ContextVar("audit record", default=None)
_DECISION, _REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
_TOKEN = "(a token)"
_CLOSED_EARLY = "Connection closed early"


def current() -> Record | None:
    """Return the record of the request that is being worked on; None when nothing is to be recorded of it."""
    return _CURRENT.get()


def annotate(key: str, value: str) -> None:
    """Say something about the request that is being worked on."""
    record = _CURRENT.get()
    if record is not None:
        record.annotations.setdefault(key, value)


def annotate_early(key: str, value: str) -> None:
    """Say something about a request that perhaps has no record yet: about its credentials."""
    if _CURRENT.get() is None:
        _EARLY.set({**(_EARLY.get() or {}), key: value})
    annotate(key, value)


def failed(error: StatusError, *, unforeseen: bool = False) -> None:
    """Note how the request that is being worked on has failed."""
    record = _CURRENT.get()
    if record is not None:
        record.failed(error, unforeseen=unforeseen)


def started(code: int = 200) -> None:
    """Note that a stream's answer has begun."""
    record = _CURRENT.get()
    if record is not None:
        record.started(code)


def answered(code: int) -> None:
    """Note the code of the answer to the request that is being worked on."""
    record = _CURRENT.get()
    if record is not None:
        record.code(code)


def impersonating(user: User) -> None:
    """Note as whom the user acts."""
    record = _CURRENT.get()
    if record is not None:
        record.impersonated = user


def done() -> None:
    """Note that the request that is being worked on has succeeded, if nobody has said how it ended."""
    record = _CURRENT.get()
    if record is not None:
        record.done()


def end() -> None:
    """End the record of the request that was worked on, if there is one."""
    record = _CURRENT.get()
    if record is not None:
        _CURRENT.set(None)
        record.end()
    if _EARLY.get() is not None:  # a policy that wants no record: nothing may be left for the next request
        _EARLY.set(None)


class Record:
    """See the module. Made by :class:`.auditor.Auditor`."""

    __slots__ = (
        "_asked", "_base", "_decision", "_emit", "_ended", "_panic", "_received", "_reference", "_request", "_response",
        "_started", "_status", "annotations", "impersonated",
    )  # fmt: skip

    def __init__(
        self, asked: Attributes, source: Source, decision: Decision, emit: Callable[[dict[str, Any]], None]
    ) -> None:
        self._asked = asked
        self._decision = decision
        self._emit = emit
        self._received = _now()
        self._base = source
        self._reference = None if asked.path else _reference(asked)
        self._request: Any = None
        self._response: Any = None
        self._status: dict[str, Any] | None = None
        self._panic = self._ended = self._started = False
        self.annotations: dict[str, str] = {}
        self.impersonated: User | None = None
        """Whom the user acts as."""

    def begin(self) -> None:
        """Say that the request was received, and be the current record from now on."""
        _CURRENT.set(self)
        if (early := _EARLY.get()) is not None:
            self.annotations.update(early)
        self._line("RequestReceived", self._received)

    @property
    def level(self) -> Level:
        """How much is recorded."""
        return self._decision.level

    @property
    def audit_id(self) -> str:
        """The request's id."""
        return self._base.audit_id

    # --- what the chain tells -------------------------------------------------------------------------------------

    def authorized(self, *, allowed: bool, reason: str) -> None:
        """Take note of what was decided and why; of several questions the first no counts, else the first."""
        if self.annotations.get(_DECISION) != "forbid" and not (allowed and _DECISION in self.annotations):
            self.annotations[_DECISION] = "allow" if allowed else "forbid"
            self.annotations[_REASON] = reason

    def requested(self, message: Any) -> None:
        """Take note of the object in the request, as it was decoded."""
        reference = self._reference
        metadata = getattr(message, "metadata", None)
        if reference is not None and metadata is not None:
            for name in ("namespace", "name", "uid", "resourceVersion"):
                value = getattr(metadata, name, "")
                if value and not reference.get(name):
                    reference[name] = value
        if self.level >= Level.REQUEST:
            self._request = self._encoded(message)

    def patched(self, patch: bytes) -> None:
        """Take note of a patch, as it was sent."""
        if self.level >= Level.REQUEST:
            self._request = _patch(patch)

    def answered(self, answer: Answer) -> None:
        """Take note of the object that answers."""
        status_kind = answer.kind.message is meta.Status
        if status_kind:
            self._status = _status(answer.message())
        self.code(201 if answer.created else 200)
        if self.level >= Level.REQUEST_RESPONSE and not status_kind:
            self._response = self._encoded(answer.message())

    def listed(self, resource: StoredResource, page: Page) -> None:
        """Take note of the list that answers."""
        self.code(200)
        if self.level >= Level.REQUEST_RESPONSE:
            kind = resource.kind
            metadata = {"resourceVersion": str(page.revision), "continue": page.continue_ or None}
            self._response = {
                "kind": kind.list_kind if isinstance(kind, CustomKind) else f"{kind.kind}List",
                "apiVersion": kind.api_version,
                "metadata": {name: value for name, value in metadata.items() if value},
                "items": [self._encoded(kind.message.FromString(resource.raw(entry))) for entry in page.entries],
            }

    def code(self, code: int) -> None:
        """Take note of the answer's code."""
        if self._status is None:
            self._status = {"metadata": {}}
        self._status["code"] = code

    def done(self) -> None:
        """Take note of success, if no answer was noted."""
        if self._status is None:
            self.code(200)

    def refused(self, message: str) -> None:
        """Take note that nobody knows who asks, and write the one line that there is about it."""
        self._status = {"metadata": {}, "message": message, "code": 401}
        self._ended = True
        self._line("ResponseStarted", _now())

    def failed(self, error: StatusError, *, unforeseen: bool) -> None:
        """Take note of the error that answers. The request need not be over: others may take note, too."""
        self._status = _status(error.to_status())
        self._status["code"] = error.status_code
        self._panic = unforeseen

    def started(self, code: int) -> None:
        """Write that a stream has begun."""
        if not self._started:
            self._started = True
            self.code(code)
            self._line("ResponseStarted", _now())

    def end(self) -> None:
        """Write how the request ended."""
        if self._ended:
            return
        self._ended = True
        if self._status is None:
            # Nobody has noted an answer: the client went away, or the server stops.
            self._status = {"metadata": {}, "status": "Success", "message": _CLOSED_EARLY, "code": 200}
        self._line("Panic" if self._panic else "ResponseComplete", _now())

    # --- lines ----------------------------------------------------------------------------------------------------

    def _encoded(self, message: Any) -> Any:
        """Return a message as what the line will hold of it."""
        if self._decision.omit_managed_fields and getattr(message, "metadata", None) is not None:
            message = _copy(message)
            del message.metadata.managedFields[:]
        if isinstance(message, authentication.TokenReview) and message.spec.token:
            message = _copy(message)
            message.spec.token = _TOKEN
        elif isinstance(message, authentication.TokenRequest) and message.status.token:
            message = _copy(message)
            message.status.token = _TOKEN
        return orjson.Fragment(codec.to_json_bytes(message))

    def _line(self, stage: str, stamp: str) -> None:
        if stage in self._decision.omitted:
            return
        source, asked = self._base, self._asked
        event: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": API_VERSION,
            "level": self._decision.level.text,
            "auditID": source.audit_id,
            "stage": stage,
            "requestURI": source.uri,
            "verb": asked.verb,
            "user": _user(asked.user),
        }
        if self.impersonated is not None:
            event["impersonatedUser"] = _user(self.impersonated)
        if source.ips:
            event["sourceIPs"] = source.ips
        if source.agent:
            event["userAgent"] = source.agent
        if self._reference is not None:
            event["objectRef"] = self._reference
        if self._status is not None:
            event["responseStatus"] = self._status
        if self._request is not None:
            event["requestObject"] = self._request
        if self._response is not None:
            event["responseObject"] = self._response
        event["requestReceivedTimestamp"] = self._received
        event["stageTimestamp"] = stamp
        if self.annotations:
            event["annotations"] = self.annotations
        self._emit(event)


def _patch(patch: bytes) -> Any:
    """Return a patch as JSON; one that cannot be read as its text."""
    try:
        return orjson.Fragment(orjson.dumps(orjson.loads(patch)))
    except orjson.JSONDecodeError:
        try:
            (document,) = codec.load_documents(patch)  # an apply in YAML
            return orjson.Fragment(orjson.dumps(document))
        except (StatusError, ValueError, TypeError):
            return patch.decode(errors="replace")


def _copy(message: Any) -> Any:
    made = type(message)()
    made.CopyFrom(message)
    return made


def _reference(asked: Attributes) -> dict[str, str]:
    pairs = (
        ("resource", asked.resource),
        ("namespace", asked.namespace),
        ("name", asked.name),
        ("uid", ""),
        ("apiGroup", asked.group),
        ("apiVersion", asked.version),
        ("resourceVersion", ""),
        ("subresource", asked.subresource),
    )
    return {name: value for name, value in pairs if value}


def _status(status: Any) -> dict[str, Any]:
    """Return what is recorded of a Status: everything but its own metadata's content."""
    found = codec.to_json(status)
    wanted = ("status", "message", "reason", "details", "code")
    return {"metadata": {}, **{name: found[name] for name in wanted if name in found}}


@lru_cache(maxsize=4096)
def _user(user: User) -> orjson.Fragment:
    value: dict[str, Any] = {"username": user.name, "uid": user.uid, "groups": user.groups, "extra": dict(user.extra)}
    return orjson.Fragment(orjson.dumps({name: item for name, item in value.items() if item}))


_second = 0
_prefix = ""


def _now() -> str:
    """Return the time as a MicroTime in JSON. Written by hand: strftime costs as much as the rest of a line."""
    global _second, _prefix
    second, micro = divmod(time.time_ns() // 1000, 1_000_000)
    if second != _second:
        _second, _prefix = second, datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{_prefix}.{micro:06d}Z"
