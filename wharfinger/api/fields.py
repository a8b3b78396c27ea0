"""Field selectors (``spec.nodeName=n1,status.phase!=Running``) and the fields that each kind can be selected by.

Kubernetes allows only a few fields a kind, and compares them as text. They stand here as data; every kind has
``metadata.name``, and ``metadata.namespace`` when it lives in one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from google.protobuf.message import Message

from wharfinger.api import kinds
from wharfinger.api.errors import BadRequestError
from wharfinger.api.kinds import Kind

MAX_SELECTOR_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition on one field."""

    path: str
    operator: Literal["=", "!="]
    value: str

    def matches(self, values: Mapping[str, str]) -> bool:
        """Whether the values of an object's fields meet the condition; an absent one counts as empty."""
        return (values.get(self.path, "") == self.value) == (self.operator == "=")

    def __str__(self) -> str:
        return f"{self.path}{self.operator}{_escape(self.value)}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A conjunction of conditions; without any it selects everything."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, values: Mapping[str, str]) -> bool:
        """Whether an object with these field values is selected."""
        return all(requirement.matches(values) for requirement in self.requirements)

    def matches_object(self, message: Message) -> bool:
        """Whether an object is selected; its kind must know the fields (see :func:`check`)."""
        return all((value(message, item.path) == item.value) == (item.operator == "=") for item in self.requirements)

    def exact(self, path: str) -> str | None:
        """Return the value that a field must have, for use with an index; None when it may have several."""
        for item in self.requirements:
            if item.path == path and item.operator == "=":
                return item.value
        return None

    @property
    def everything(self) -> bool:
        """Whether each object is selected."""
        return not self.requirements

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        return ((item.path, item.operator, item.value) for item in self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


EVERYTHING = FieldSelector()


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


@lru_cache(maxsize=4096)
def parse(text: str) -> FieldSelector:
    """Read a field selector. Raises BadRequestError that says which part breaks it."""
    if len(text) > MAX_SELECTOR_BYTES:
        raise BadRequestError(f"the field selector has {len(text)} characters; at most {MAX_SELECTOR_BYTES} are read")
    return FieldSelector(tuple(_term(term) for term in _split(text) if term))


def _split(text: str) -> list[str]:
    terms, start, at = [], 0, 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == ",":
            terms.append(text[start:at])
            start = at + 1
        at += 1
    return [*terms, text[start:]]


def _term(term: str) -> FieldRequirement:
    at = 0
    while at < len(term):
        if term[at] == "\\":
            at += 2
            continue
        for sign in ("!=", "==", "="):
            if term.startswith(sign, at):
                value = _unescape(term[at + len(sign) :], term)
                return FieldRequirement(term[:at], "!=" if sign == "!=" else "=", value)
        at += 1
    raise BadRequestError(
        f'cannot read the field selector "{term[:200]}": a term is path=value, path==value or path!=value'
    )


def _unescape(value: str, term: str) -> str:
    if "\\" not in value and "=" not in value:
        return value
    out, at = [], 0
    while at < len(value):
        if value[at] == "\\":
            if value[at + 1 : at + 2] not in ("\\", ",", "="):
                raise BadRequestError(
                    f'cannot read the field selector "{term[:200]}": only \\\\ \\, and \\= may be escaped'
                )
            at += 1
        elif value[at] in "=,":
            raise BadRequestError(f'cannot read the field selector "{term[:200]}": write \\= for a = inside of a value')
        out.append(value[at])
        at += 1
    return "".join(out)


# --- which fields a kind has ------------------------------------------------------------------------------------------

_Getter = Callable[[Any], str]


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _reference(name: str) -> dict[str, _Getter]:
    parts = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    return {f"{name}.{part}": _path(f"{name}.{part}") for part in parts}


def _path(path: str) -> _Getter:
    names = path.split(".")

    def read(message: Any) -> str:
        for name in names:
            message = getattr(message, name)
        return str(message)

    return read


_POD: dict[str, _Getter] = {
    **{
        path: _path(path)
        for path in (
            "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase",
            "status.podIP", "status.nominatedNodeName",
        )
    },
    "spec.hostNetwork": lambda pod: _bool(pod.spec.hostNetwork),
    # accepted, but always empty: Kubernetes lets clients name it and then compares with nothing
    "status.podIPs": lambda _: "",
}  # fmt: skip
_EVENT: dict[str, _Getter] = {
    **_reference("involvedObject"),
    "reason": _path("reason"),
    "reportingComponent": _path("reportingComponent"),
    "source": lambda event: event.source.component or event.reportingComponent,
    "type": _path("type"),
}
_GROUP_EVENT: dict[str, _Getter] = {
    **_reference("regarding"),
    "reason": _path("reason"),
    "reportingController": _path("reportingController"),
    "type": _path("type"),
}
_FIELDS: dict[tuple[str, str], dict[str, _Getter]] = {
    ("", "Pod"): _POD,
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _GROUP_EVENT,
    ("", "Node"): {"spec.unschedulable": lambda node: _bool(node.spec.unschedulable)},
    ("", "Namespace"): {"status.phase": _path("status.phase"), "name": _path("metadata.name")},
    ("", "Secret"): {"type": _path("type")},
    ("", "ReplicationController"): {"status.replicas": _path("status.replicas")},
    ("", "Service"): {"spec.clusterIP": _path("spec.clusterIP"), "spec.type": _path("spec.type")},
    ("batch", "Job"): {"status.successful": _path("status.succeeded")},
    ("resource.k8s.io", "ResourceSlice"): {
        "spec.nodeName": _path("spec.nodeName"),
        "spec.driver": _path("spec.driver"),
    },
    ("certificates.k8s.io", "CertificateSigningRequest"): {"spec.signerName": _path("spec.signerName")},
}
_HIDDEN = {("", "Namespace"): frozenset({"name"})}


@lru_cache(maxsize=512)
def _getters(kind: Kind) -> dict[str, _Getter]:
    own = kind.getters or _FIELDS.get((kind.group, kind.kind), {})
    hidden = _HIDDEN.get((kind.group, kind.kind), frozenset())
    found = {path: getter for path, getter in own.items() if path not in hidden}
    found["metadata.name"] = _path("metadata.name")
    if kind.namespaced:
        found["metadata.namespace"] = _path("metadata.namespace")
    return found


def selectable(kind: Kind) -> frozenset[str]:
    """Return the fields that objects of a kind can be selected by."""
    return frozenset(_getters(kind))


def check(selector: FieldSelector, kind: Kind) -> None:
    """Raise BadRequestError when a kind cannot be selected by one of the fields."""
    for item in selector.requirements:
        if item.path not in _getters(kind):
            allowed = ", ".join(sorted(_getters(kind)))
            raise BadRequestError(
                f'{kind.group_resource} cannot be selected by the field "{item.path}"; possible are: {allowed}'
            )


def value(message: Message, path: str) -> str:
    """Return the text that a field of an object is compared as. Raises KeyError for a field that is not selectable."""
    return _getters(kinds.of(message))[path](message)
