"""PodDisruptionBudgets: how many pods may be taken away now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.api.tables import text
from wharfinger.api.types import policy
from wharfinger.cli.describing import common

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client


async def describe(client: Client, obj: policy.PodDisruptionBudget, out: Layout) -> None:
    """Write a budget and what it comes to."""
    spec, status = obj.spec, obj.status
    common.head(out, obj)
    common.deletion(out, obj.metadata)
    if spec.HasField("minAvailable"):
        out.field(0, "Min available", text.int_or_string(spec.minAvailable))
    elif spec.HasField("maxUnavailable"):
        out.field(0, "Max unavailable", text.int_or_string(spec.maxUnavailable))
    out.field(0, "Selector", text.selector(spec.selector) if spec.HasField("selector") else "<unset>")
    out.line(0, "Status:")
    out.field(2, "Allowed disruptions", status.disruptionsAllowed)
    out.field(2, "Current", status.currentHealthy)
    out.field(2, "Desired", status.desiredHealthy)
    out.field(2, "Total", status.expectedPods)
    common.events(out, await common.events_of(client, obj, "PodDisruptionBudget"))
