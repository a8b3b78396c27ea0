"""Any other kind: its fields, with their names as words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from wharfinger.api.codec import to_json
from wharfinger.cli.describing import common

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client

_LEFT_OUT = {"metadata": ("managedFields", "name", "namespace", "labels", "annotations")}
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words(name: str) -> str:
    """Write a field's name as words: ``preemptionPolicy`` → ``Preemption Policy``."""
    return " ".join(part[:1].upper() + part[1:] for part in _WORDS.split(name))


async def describe(client: Client, obj: Any, out: Layout) -> None:
    """Write all fields of an object."""
    document: dict[str, Any] = to_json(obj)
    common.head(out, obj, namespaced=bool(obj.metadata.namespace))
    common.labels_and_annotations(out, obj.metadata)
    common.deletion(out, obj.metadata)
    out.field(0, "API Version", document.pop("apiVersion", ""))
    kind = str(document.pop("kind", ""))
    out.field(0, "Kind", kind)
    for name in _LEFT_OUT["metadata"]:
        document.get("metadata", {}).pop(name, None)
    _fields(out, 0, document)
    common.events(out, await common.events_of(client, obj, kind))


def _fields(out: Layout, level: int, document: dict[str, Any]) -> None:
    for name in sorted(document):
        value = document[name]
        if isinstance(value, dict):
            if value:
                out.line(level, f"{words(name)}:")
                _fields(out, level + 1, value)
        elif isinstance(value, list):
            out.line(level, f"{words(name)}:")
            for item in value:
                if isinstance(item, dict):
                    _fields(out, level + 1, item)
                else:
                    out.line(level + 1, item)
        else:
            out.field(level, words(name), _scalar(value))


def _scalar(value: Any) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).replace("\n", " ")
