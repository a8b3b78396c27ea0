"""ConfigMaps, with all that is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.api.types import core
from wharfinger.cli.describing import common

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client


async def describe(client: Client, obj: core.ConfigMap, out: Layout) -> None:
    """Write a map's entries."""
    common.head(out, obj)
    common.labels_and_annotations(out, obj.metadata)
    common.deletion(out, obj.metadata)
    out.line(0, "")
    out.line(0, "Data")
    out.line(0, "====")
    for name in sorted(obj.data):
        out.line(0, f"{name}:")
        out.line(0, "----")
        for line in obj.data[name].split("\n"):
            out.line(0, line.replace("\t", "    "))
        out.line(0, "")
    out.line(0, "")
    out.line(0, "BinaryData")
    out.line(0, "====")
    for name in sorted(obj.binaryData):
        out.field(0, name, f"{len(obj.binaryData[name])} bytes")
    out.line(0, "")
    common.events(out, await common.events_of(client, obj, "ConfigMap"))
