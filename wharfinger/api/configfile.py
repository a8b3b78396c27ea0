"""Configuration files in Kubernetes' form, read strictly: whatever is wrong is an error that names the field's path.

A file of this kind decides what is logged or how secrets are stored; a misspelt field that is passed over in silence
would be found out when it is too late. So unknown fields and wrong types stop the start::

    def read(text: bytes) -> Policy:
        top = configfile.parse(text, api_version="audit.k8s.io/v1", kind="Policy")
        for rule in top.items("rules"):
            users = rule.texts("users")
            rule.end()
        top.end()

    policy = configfile.load(path, read)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from wharfinger.api.codec import load_manifests
from wharfinger.api.errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

T = TypeVar("T")
_TYPES = {bool: "true or false", int: "a whole number", str: "text", list: "a list", dict: "an object"}
"""In this order: a truth value is an int, too."""


class ConfigError(ValueError):
    """Raised when a file cannot be used; says which field and what would be right."""


class Fields:
    """An object of the file: its fields are taken one by one, and :meth:`end` refuses what is left."""

    unknown = "there is no such field"
    """What is said of a field that nobody took."""

    def __init__(self, data: Any, path: str = "") -> None:
        if not isinstance(data, dict):
            raise ConfigError(f"{path or 'the document'}: {self.unfit(data, dict)}")
        self._data = dict(data)
        self.path = path

    def at(self, name: str) -> str:
        """Return the path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def error(self, name: str, why: str) -> ConfigError:
        """Return the error that a field's value is."""
        return ConfigError(f"{self.at(name)}: {why}")

    def has(self, name: str) -> bool:
        """Whether a field is there and not null."""
        return self._data.get(name) is not None

    @staticmethod
    def unfit(value: Any, kind: type) -> str:
        """Return what is said of a value of the wrong type: never the value itself, which may be a secret."""
        given = next((words for known, words in _TYPES.items() if isinstance(value, known)), type(value).__name__)
        return f"must be {_TYPES[kind]}, not {given}"

    def take(self, name: str, kind: type, default: Any) -> Any:
        """Take a value of a type; `default` when it is missing or null."""
        value = self._data.pop(name, None)
        if value is None:
            return default
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(name, self.unfit(value, kind))
        return value

    def text(self, name: str, default: str = "") -> str:
        """Take a string."""
        taken: str = self.take(name, str, default)
        return taken

    def choice(self, name: str, known: Sequence[str]) -> str:
        """Take a string that must be one of `known`."""
        value = self.text(name)
        if value not in known:
            listed = ", ".join(known)
            raise self.error(name, f"{value!r}: must be one of {listed}" if value else f"is required: one of {listed}")
        return value

    def flag(self, name: str) -> bool | None:
        """Take a boolean; None when it is not there."""
        taken: bool | None = self.take(name, bool, None)
        return taken

    def texts(self, name: str) -> tuple[str, ...]:
        """Take a list of strings."""
        values = self.take(name, list, [])
        for number, value in enumerate(values):
            if not isinstance(value, str):
                raise self.error(f"{name}[{number}]", self.unfit(value, str))
        return tuple(values)

    def sub(self, name: str) -> Self:
        """Take an object; an empty one when it is missing."""
        return type(self)(self.take(name, dict, {}), self.at(name))

    def items(self, name: str) -> list[Self]:
        """Take a list of objects."""
        values = self.take(name, list, [])
        return [type(self)(value, f"{self.at(name)}[{number}]") for number, value in enumerate(values)]

    def end(self) -> None:
        """Refuse what was not taken."""
        for name in self._data:
            raise self.error(str(name), self.unknown)


def load(path: Path, read: Callable[[bytes], T]) -> T:
    """Return what `read` makes of a file's text. Raises ConfigError that names the file and the field."""
    try:
        return read(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def document(text: bytes) -> Any:
    """Return the only document of a file's text. Raises ConfigError."""
    try:
        documents = load_manifests(text)
    except (StatusError, ValueError) as error:
        raise ConfigError(str(error)) from error
    if len(documents) != 1:
        raise ConfigError(f"holds {len(documents)} documents, one is wanted")
    return documents[0]


def parse(text: bytes, *, api_version: str, kind: str) -> Fields:
    """Read the text of a file of one document of a kind. Raises ConfigError."""
    top = Fields(document(text))
    for name, wanted in (("apiVersion", api_version), ("kind", kind)):
        if (given := top.text(name)) != wanted:
            raise top.error(name, f"{given!r}: must be {wanted}")
    top.take("metadata", dict, None)  # it may have a name; nothing reads it
    return top
