"""Services."""

from __future__ import annotations

from wharfinger.api.tables import text
from wharfinger.api.tables.table import AGE, NAME, SELECTOR, Cell, Column, Table
from wharfinger.api.types import core


def external_ip(service: core.Service) -> str:
    """Return where a service is reachable from outside; ``<pending>`` for a balancer without an address."""
    kind = service.spec.type
    if kind == "ExternalName":
        return service.spec.externalName
    given = list(service.spec.externalIPs)
    if kind == "LoadBalancer":
        balanced = [entry.ip or entry.hostname for entry in service.status.loadBalancer.ingress]
        return text.joined(balanced + given, empty="<pending>")
    return text.joined(given, empty=text.NONE)


def ports(service: core.Service) -> str:
    """Return a service's ports: ``80/TCP,443:30443/TCP``."""
    return text.joined(
        (f"{port.port}:{port.nodePort}/{port.protocol}" if port.nodePort else f"{port.port}/{port.protocol}"
         for port in service.spec.ports), empty=text.NONE,
    )  # fmt: skip


def _row(service: core.Service, now: float) -> list[Cell]:
    addresses = list(service.spec.clusterIPs)
    return [
        service.metadata.name,
        service.spec.type,
        (addresses[0] if addresses else service.spec.clusterIP) or text.NONE,
        external_ip(service),
        ports(service),
        text.age(service, now),
        text.labels(service.spec.selector),
    ]


TABLE = Table(
    (
        NAME,
        Column("Type", description="How the service is reached."),
        Column("Cluster-IP", description="Its address in the cluster."),
        Column("External-IP", description="Its addresses outside."),
        Column("Port(s)", description="Its ports."),
        AGE,
        SELECTOR,
    ),
    _row,
)
