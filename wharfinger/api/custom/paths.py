"""Paths of plain field names, as definitions use them for scale and selectable fields: ``.spec.replicas``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SimplePath:
    """A way along the fields of objects."""

    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> SimplePath:
        """Read a path that begins with a dot."""
        return cls(tuple(part for part in text.split(".") if part))

    def get(self, content: dict[str, Any]) -> Any:
        """Return what lies there; None when the way ends before."""
        value: Any = content
        for name in self.names:
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value

    def set(self, content: dict[str, Any], value: Any) -> dict[str, Any]:
        """Return the content with another value there; nothing is changed in place."""
        return _set(content, self.names, value)

    def __str__(self) -> str:
        return "." + ".".join(self.names)


def _set(content: Any, names: tuple[str, ...], value: Any) -> dict[str, Any]:
    base = content if isinstance(content, dict) else {}
    return {**base, names[0]: value if len(names) == 1 else _set(base.get(names[0]), names[1:], value)}
