"""Services, with the addresses that are behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.api.tables.services import external_ip
from wharfinger.api.types import core, discovery
from wharfinger.cli.describing import common

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client


async def describe(client: Client, service: core.Service, out: Layout) -> None:
    """Write everything about a service."""
    spec = service.spec
    common.head(out, service)
    common.labels_and_annotations(out, service.metadata)
    common.deletion(out, service.metadata)
    out.field(0, "Selector", ",".join(f"{k}={spec.selector[k]}" for k in sorted(spec.selector)) or common.NONE)
    out.field(0, "Type", spec.type)
    out.field(0, "IP Family Policy", spec.ipFamilyPolicy or common.NONE)
    out.field(0, "IP Families", ",".join(spec.ipFamilies) or common.NONE)
    out.field(0, "IP", spec.clusterIP or common.NONE)
    out.field(0, "IPs", ",".join(spec.clusterIPs) or common.NONE)
    if spec.type in ("LoadBalancer", "ExternalName") or spec.externalIPs:
        out.field(0, "External", external_ip(service))
    slices = await client.resource(discovery.EndpointSlice).list(
        namespace=service.metadata.namespace, label_selector=f"kubernetes.io/service-name={service.metadata.name}"
    )
    for port in spec.ports:
        out.field(0, "Port", f"{port.name or '<unset>'}  {port.port}/{port.protocol}")
        target = port.targetPort.strVal if port.targetPort.type == 1 else str(port.targetPort.intVal or port.port)
        out.field(0, "TargetPort", f"{target}/{port.protocol}")
        if port.nodePort:
            out.field(0, "NodePort", f"{port.name or '<unset>'}  {port.nodePort}/{port.protocol}")
        out.field(0, "Endpoints", ",".join(_addresses(slices.items, port.name)) or common.NONE)
    out.field(0, "Session Affinity", spec.sessionAffinity)
    if spec.externalTrafficPolicy:
        out.field(0, "External Traffic Policy", spec.externalTrafficPolicy)
    if spec.internalTrafficPolicy:
        out.field(0, "Internal Traffic Policy", spec.internalTrafficPolicy)
    common.events(out, await common.events_of(client, service, "Service"))


def _addresses(slices: list[discovery.EndpointSlice], name: str) -> list[str]:
    return [
        f"{address}:{port.port}"
        for one in slices
        for port in one.ports
        if port.name == name
        for endpoint in one.endpoints
        if endpoint.conditions.ready or not endpoint.conditions.HasField("ready")
        for address in endpoint.addresses
    ]
