"""Configuration files in Kubernetes' form, read strictly: whatever is wrong is an error that names the field's path.

A file of this kind decides what is logged or how secrets are stored; a misspelt field that is passed over in silence
would be found out when it is too late. So unknown fields and wrong types stop the start::

    top = configfile.parse(path.read_bytes(), api_version="audit.k8s.io/v1", kind="Policy")
    for rule in top.items("rules"):
        users = rule.texts("users")
        rule.end()
    top.end()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wharfinger.api.codec import load_manifests
from wharfinger.api.errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Sequence

_TYPES = {str: "text", bool: "true or false", list: "a list", dict: "an object", int: "a whole number"}


class ConfigError(ValueError):
    """Raised when a file cannot be used; says which field and what would be right."""


class Fields:
    """An object of the file: its fields are taken one by one, and :meth:`end` refuses what is left."""

    def __init__(self, data: Any, path: str = "") -> None:
        if not isinstance(data, dict):
            raise ConfigError(f"{path or 'the document'}: must be an object, not {_shown(data)}")
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

    def _take(self, name: str, kind: type, default: Any) -> Any:
        value = self._data.pop(name, None)
        if value is None:
            return default
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(name, f"must be {_TYPES[kind]}, not {_shown(value)}")
        return value

    def text(self, name: str, default: str = "") -> str:
        """Take a string."""
        taken: str = self._take(name, str, default)
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
        taken: bool | None = self._take(name, bool, None)
        return taken

    def texts(self, name: str) -> tuple[str, ...]:
        """Take a list of strings."""
        values = self._take(name, list, [])
        for number, value in enumerate(values):
            if not isinstance(value, str):
                raise self.error(f"{name}[{number}]", f"must be text, not {_shown(value)}")
        return tuple(values)

    def sub(self, name: str) -> Fields:
        """Take an object."""
        return Fields(self._take(name, dict, {}), self.at(name))

    def items(self, name: str) -> list[Fields]:
        """Take a list of objects."""
        values = self._take(name, list, [])
        return [Fields(value, f"{self.at(name)}[{number}]") for number, value in enumerate(values)]

    def end(self) -> None:
        """Refuse what was not taken."""
        for name in self._data:
            raise self.error(str(name), "there is no such field")


def parse(text: bytes, *, api_version: str, kind: str) -> Fields:
    """Read the text of a file of one document of a kind. Raises ConfigError."""
    try:
        documents = load_manifests(text)
    except (StatusError, ValueError) as error:
        raise ConfigError(str(error)) from error
    if len(documents) != 1:
        raise ConfigError(f"holds {len(documents)} documents, one is wanted")
    top = Fields(documents[0])
    for name, wanted in (("apiVersion", api_version), ("kind", kind)):
        if (given := top.text(name)) != wanted:
            raise top.error(name, f"{given!r}: must be {wanted}")
    top._take("metadata", dict, None)  # it may have a name; nothing reads it
    return top


def _shown(value: Any) -> str:
    """Return the type of a value in words; never the value, which may be a secret."""
    for kind in (bool, int, str, list, dict):
        if isinstance(value, kind):
            return _TYPES[kind]
    return type(value).__name__
