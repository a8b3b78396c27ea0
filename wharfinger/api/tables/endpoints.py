"""Endpoints and EndpointSlices."""

from __future__ import annotations

from wharfinger.api.tables import text
from wharfinger.api.tables.table import AGE, NAME, Cell, Column, Table
from wharfinger.api.types import core, discovery

_SHOWN = 3


def _shortened(values: list[str], empty: str) -> str:
    if not values:
        return empty
    more = len(values) - _SHOWN
    return ",".join(values[:_SHOWN]) + (f" + {more} more..." if more > 0 else "")


def _row(obj: core.Endpoints, now: float) -> list[Cell]:
    addresses: list[str] = []
    for subset in obj.subsets:
        hosts = [f"[{entry.ip}]" if ":" in entry.ip else entry.ip for entry in subset.addresses]
        if not subset.ports:
            addresses += [entry.ip for entry in subset.addresses]
        for port in subset.ports:
            addresses += [f"{host}:{port.port}" for host in hosts]
    return [obj.metadata.name, _shortened(addresses, text.NONE), text.age(obj, now)]


def _slice_row(obj: discovery.EndpointSlice, now: float) -> list[Cell]:
    ports = [
        str(port.port) if port.HasField("port") else (port.name or "*") for port in obj.ports
    ]  # fmt: skip
    addresses = [address for endpoint in obj.endpoints for address in endpoint.addresses]
    return [
        obj.metadata.name,
        obj.addressType,
        _shortened(ports, text.UNSET),
        _shortened(addresses, text.UNSET),
        text.age(obj, now),
    ]


TABLE = Table((NAME, Column("Endpoints", description="Addresses that take traffic."), AGE), _row)
SLICES = Table(
    (
        NAME,
        Column("AddressType", description="Which kind of addresses."),
        Column("Ports", description="Ports of every endpoint."),
        Column("Endpoints", description="Addresses that take traffic."),
        AGE,
    ),
    _slice_row,
)
