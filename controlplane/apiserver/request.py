"""What a front tells the chain about one request, and nothing about how it was sent.

Both fronts (gRPC, HTTP) turn what they received into these values; everything behind them knows only these. So
authentication, authorisation, admission and storage are written once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from google.protobuf.message import Message

    from wharfinger.api.kinds import Kind

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]

PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON = "application/json"
YAML = "application/yaml"


@dataclass(frozen=True, slots=True)
class User:
    """Who asks, as far as the credentials say."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Further attributes by key, sorted; a service account's token says here which pod it is for."""

    @property
    def node_name(self) -> str:
        """The node whose agent this is; empty for everybody else."""
        if self.name.startswith("system:node:") and "system:nodes" in self.groups:
            return self.name[len("system:node:") :]
        return ""


@dataclass(frozen=True, slots=True)
class Fence:
    """A leader's right to write: `term` is the resourceVersion that its Lease had when it was acquired."""

    namespace: str
    lease: str
    term: int


@dataclass(slots=True)
class WriteOptions:
    """How a write is to be done."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    """``Strict``, ``Warn`` or ``Ignore``: what unknown and duplicate fields of a JSON or YAML body lead to."""
    fence: Fence | None = None
    lazy: bool = False
    """May wait for a short tick, to be committed with others."""
    force: bool = False
    """Of an apply: take over what others own."""


@dataclass(slots=True)
class Request:
    """One request: who wants what done with which object."""

    user: User
    verb: Verb
    kind: Kind
    namespace: str = ""
    """Empty: all namespaces, or the kind has none."""
    name: str = ""
    subresource: str = ""
    options: WriteOptions = field(default_factory=WriteOptions)
    warnings: list[str] = field(default_factory=list)
    """Said to the client with the answer."""
    heeds_warnings: bool = False
    """Whether warnings about the object are worth their time: bodies written by people, not by controllers."""
    applying: bool = False
    """Whether it is a server-side apply, which settles the owners of fields itself."""
    field_selector: str = ""
    """Of a list, watch or deletecollection; an authoriser may rely on it."""
    undo: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """What takes back what admission has written elsewhere (charges of quotas), should the object not be stored."""

    async def undo_all(self) -> None:
        """Take back what admission has written elsewhere."""
        while self.undo:
            await self.undo.pop()()

    def describe(self) -> str:
        """Return the resource as it stands in messages: ``pods/status`` or ``deployments.apps``."""
        resource = f"{self.kind.resource}/{self.subresource}" if self.subresource else self.kind.resource
        return f"{resource}.{self.kind.group}" if self.kind.group else resource


@dataclass(frozen=True, slots=True)
class Body:
    """The bytes of a request and the format they are in."""

    data: bytes
    content_type: str = PROTOBUF
    """``application/json``, ``application/yaml``, or the bare protobuf bytes of the object."""
    api_version: str = ""
    """As the envelope names it; empty when only the body itself can tell."""
    kind: str = ""


@dataclass(slots=True)
class Answer:
    """What a write or a get leads to: an object, as bytes and, at first use, as a message."""

    kind: Kind
    raw: bytes
    """The protobuf bytes, resourceVersion included."""
    resource_version: int = 0
    """0 for objects that are not stored: dry runs, Status."""
    created: bool = False
    """Whether an update made the object (HTTP says 201 then)."""

    def message(self) -> Message:
        """Decode the object."""
        return self.kind.message.FromString(self.raw)
