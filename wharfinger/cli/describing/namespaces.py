"""Namespaces, with their quotas and limits and what keeps them from ending."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.api.types import core
from wharfinger.cli.describing import common

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client


async def describe(client: Client, namespace: core.Namespace, out: Layout) -> None:
    """Write everything about a namespace."""
    common.head(out, namespace, namespaced=False)
    common.labels_and_annotations(out, namespace.metadata)
    out.field(0, "Status", namespace.status.phase)
    if namespace.spec.finalizers and namespace.metadata.HasField("deletionTimestamp"):
        out.field(0, "Waiting for finalizers", ", ".join(namespace.spec.finalizers))
    if namespace.status.conditions:
        out.line(0, "Conditions:")
        out.line(1, "Type", "Status", "LastTransitionTime", "Reason", "Message")
        out.line(1, "----", "------", "------------------", "------", "-------")
        for one in namespace.status.conditions:
            out.line(1, one.type, one.status, common.moment(one.lastTransitionTime), one.reason, one.message)
    quotas = await client.resource(core.ResourceQuota).list(namespace=namespace.metadata.name)
    if not quotas.items:
        out.line(0, "")
        out.line(0, "No resource quota.")
    for quota in quotas.items:
        out.line(0, "")
        out.line(0, "Resource Quotas")
        out.field(1, "Name", quota.metadata.name)
        out.line(1, "Resource", "Used", "Hard")
        out.line(1, "--------", "---", "---")
        for name in sorted(quota.status.hard):
            used = quota.status.used[name].string if name in quota.status.used else "0"
            out.line(1, name, used, quota.status.hard[name].string)
    limits = await client.resource(core.LimitRange).list(namespace=namespace.metadata.name)
    if not limits.items:
        out.line(0, "")
        out.line(0, "No LimitRange resource.")
    for limit in limits.items:
        out.line(0, "")
        out.line(0, "Resource Limits")
        out.line(1, "Type", "Resource", "Min", "Max", "Default Request", "Default Limit", "Max Limit/Request Ratio")
        out.line(1, "----", "--------", "---", "---", "---------------", "-------------", "-----------------------")
        for item in limit.spec.limits:
            maps = (item.min, item.max, item.defaultRequest, item.default, item.maxLimitRequestRatio)
            for name in sorted({key for values in maps for key in values}):
                cells = [values[name].string if name in values else "-" for values in maps]
                out.line(1, item.type, name, *cells)
