"""Secrets: what is in them, not what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.api.types import core
from wharfinger.cli.describing import common

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client


async def describe(client: Client, secret: core.Secret, out: Layout) -> None:
    """Write the names and sizes of a secret's entries."""
    common.head(out, secret)
    common.labels_and_annotations(out, secret.metadata)
    common.deletion(out, secret.metadata)
    out.line(0, "")
    out.field(0, "Type", secret.type)
    out.line(0, "")
    out.line(0, "Data")
    out.line(0, "====")
    for name in sorted(secret.data):
        out.field(0, name, f"{len(secret.data[name])} bytes")
