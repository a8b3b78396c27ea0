"""One stored resource: its kind, its keys, and the views that fronts need of an entry.

Two served kinds may share one prefix (events are served under two groups and stored once); then the one that is not
stored carries a conversion. Everything that knows about the storage envelope is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from controlplane.apiserver.store import Resource
from controlplane.apiserver.strategies import strategy_for
from wharfinger.api import codec, storage
from wharfinger.api.errors import BadRequestError, InternalError

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from controlplane.apiserver.registry.conversion import Conversion
    from controlplane.apiserver.store import Compare, CompareFailed, Entry
    from controlplane.apiserver.strategies import Strategy
    from wharfinger.api.kinds import Kind


def cache_resource(kind: Kind) -> Resource:
    """Return what the cache must know to hold a kind."""
    indexes = {}
    if kind.group_resource == "pods":
        indexes["spec.nodeName"] = lambda pod: (pod.spec.nodeName,)
    return Resource(
        prefix=kind.etcd_prefix + "/",
        name=kind.group_resource,
        namespaced=kind.namespaced,
        decode=storage.decode,
        indexes=indexes,
    )


class StoredResource:
    """Where and how objects of one served kind lie."""

    def __init__(self, kind: Kind, conversion: Conversion | None = None, *, strategy: Strategy | None = None) -> None:
        self.kind = kind
        self.strategy = strategy or strategy_for(kind)
        self.prefix = kind.etcd_prefix + "/"
        self.conversion = conversion
        # Definitions of custom resources are stored as JSON, everything else as protobuf in an envelope.
        self._enveloped = kind.group_resource != "customresourcedefinitions.apiextensions.k8s.io"
        self.state = ""
        """Tells the bytes of one state of a custom kind's definition from those of another."""
        self._form = f"protobuf {kind.api_version}" if conversion else "protobuf"

    def compares(self) -> list[Compare]:
        """Return what else must be as it was known when an object is written; nothing for the schema's own kinds."""
        return []

    def check(self, failed: CompareFailed) -> None:
        """Raise an error when one of :meth:`compares` did not hold."""

    def key(self, namespace: str, name: str) -> str:
        """Return the key of an object."""
        return f"{self.prefix}{namespace}/{name}" if self.kind.namespaced else self.prefix + name

    def view(self, entry: Entry) -> Any:
        """Return an entry's object as the served kind. Shared: copy before changing it."""
        return self.conversion.to_served(entry.decoded) if self.conversion else entry.decoded

    def raw(self, entry: Entry) -> bytes:
        """Return an entry's object as protobuf bytes with its resourceVersion, made once a revision."""
        return entry.served(self._form, self._make_raw)

    def _make_raw(self, entry: Entry) -> bytes:
        if self.conversion is not None:
            raw = self.conversion.to_served(entry.decoded).SerializeToString()
        elif self._enveloped:
            api_version, kind, raw = storage.unwrap(entry.value)
            if kind != self.kind.kind or api_version != self.kind.api_version:
                raise InternalError(
                    f"{entry.key} holds a {kind} of {api_version}, not a {self.kind.kind} of {self.kind.api_version}"
                )
        else:
            raw = entry.decoded.SerializeToString()
        return storage.with_resource_version(raw, entry.mod_revision)

    def message(self, value: bytes, revision: int) -> Any:
        """Decode a stored value into a message of the served kind that the caller may change."""
        stored: Message = storage.decode(value)
        message: Any = self.conversion.to_served(stored) if self.conversion else stored
        message.metadata.resourceVersion = str(revision)
        return message

    def encode(self, message: Any) -> tuple[bytes, bytes]:
        """Return an object's value for the store and its served bytes, both without a resourceVersion.

        Raises BadRequestError for an object that is nested deeper than protobuf can be read.
        """
        try:
            return self._encode(message)
        except DecodeError as error:
            raise BadRequestError("the object is nested too deep: at most 100 messages inside of each other") from error

    def _encode(self, message: Any) -> tuple[bytes, bytes]:
        message.metadata.resourceVersion = ""
        if self.conversion is not None:
            return storage.encode(self.conversion.to_stored(message)), message.SerializeToString()
        raw = codec.canonical_bytes(message)
        if not self._enveloped:
            return storage.encode(message), raw
        return storage.wrap(self.kind.api_version, self.kind.kind, raw), raw
