"""How objects of a custom kind lie: as JSON in one version, read in any, shown in the version that was asked for.

An object is only written while the definition is the one that is known here: the write's transaction compares it.
An object is stored in the storage version of the moment; the versions differ in nothing but ``apiVersion`` (strategy
None). What is read is cut to the schema and completed from it as of today: objects that were stored under an older
schema look as if they had been written now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.apiserver.custom.strategy import CustomStrategy
from controlplane.apiserver.registry.resources import StoredResource
from controlplane.apiserver.store import Compare
from wharfinger.api import errors, storage, storedjson

if TYPE_CHECKING:
    from controlplane.apiserver.store import CompareFailed, Entry
    from wharfinger.api.custom import CustomKind, CustomObject


class DefinitionChangedError(errors.ServiceUnavailableError):
    """Raised when an object was to be written under a definition that has changed meanwhile: to be done again."""


class CustomResource(StoredResource):
    """Objects of one version of a definition."""

    kind: CustomKind

    def __init__(self, kind: CustomKind, definition: str, revision: int) -> None:
        """`definition` is the key of the definition, `revision` which state of it this is."""
        self.definition = definition
        self.revision = revision
        """Raised by the catalogue when the definition changes in nothing that matters here."""
        super().__init__(kind, strategy=CustomStrategy(kind))
        self.state = f" {revision}"
        self._form = f"custom {kind.version}{self.state}"
        self._stored_version = f"{kind.group}/{kind.storage_version}"

    def _read(self, value: bytes) -> Any:
        cls: type[CustomObject] = self.kind.message  # type: ignore[assignment]
        made = cls.of_stored(storedjson.decode_json(value))
        cls.shape(made.content)
        return made

    def compares(self) -> list[Compare]:
        """Return that the definition must be the one that is known here.

        So no server stores an object under a schema that is out of date, or after the definition's end has begun.
        """
        return [Compare(self.definition, self.revision)]

    def check(self, failed: CompareFailed) -> None:
        """Raise DefinitionChangedError when the definition is another one by now."""
        if self.definition not in failed.current:
            return
        current = failed.current[self.definition]
        if current is None or current.mod_revision != self.revision:
            raise DefinitionChangedError(f"the definition of {self.kind.group_resource} has just changed; try again")

    def view(self, entry: Entry) -> Any:
        """Return an entry's object as this version. Shared: copy before changing it."""
        known = entry.decoded
        if type(known) is self.kind.message:
            return known
        return self.kind.message.FromString(self.raw(entry))

    def _make_raw(self, entry: Entry) -> bytes:
        known = entry.decoded
        obj = known if type(known) is self.kind.message else self._read(entry.value)
        return storage.with_resource_version(obj.SerializeToString(), entry.mod_revision)

    def message(self, value: bytes, revision: int) -> Any:
        """Decode a stored value into an object of this version that the caller may change."""
        made = self._read(value)
        made.metadata.resourceVersion = str(revision)
        return made

    def decode(self, value: bytes) -> Any:
        """Decode a stored value for the cache."""
        return self._read(value)

    def encode(self, message: Any) -> tuple[bytes, bytes]:
        """Return an object's value for the store and its served bytes, both without a resourceVersion."""
        message.metadata.resourceVersion = ""
        document = message.to_value()
        return storedjson.encode_custom({**document, "apiVersion": self._stored_version}), message.SerializeToString()
