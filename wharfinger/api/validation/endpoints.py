"""Endpoints and endpoint slices: the addresses behind a service.

Rules: the API references of ``Endpoints`` and ``EndpointSlice``.
"""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.api.types import core, discovery
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.common import PROTOCOLS, is_ip, is_plain_ip, non_special_ip, one_of, parse_ip
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules

ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MAX_ENDPOINTS = 1000
_MAX_ADDRESSES = 100
_MAX_PORTS = 20000
_MAX_TOPOLOGY = 16
_MAX_HINTS = 8


def _create(endpoints: core.Endpoints, errors: Errors) -> None:
    metadata.validate_kind(endpoints.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    for index, subset in enumerate(endpoints.subsets):
        path = f"subsets[{index}]"
        if not subset.addresses and not subset.notReadyAddresses:
            errors.required(path, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(getattr(subset, field)):
                _validate_address(address, errors, f"{path}.{field}[{number}]")
        for number, port in enumerate(subset.ports):
            _validate_port(port, len(subset.ports) > 1, errors, f"{path}.ports[{number}]")


def _validate_address(address: core.EndpointAddress, errors: Errors, path: str) -> None:
    is_ip(errors, f"{path}.ip", address.ip)
    if address.hostname:
        errors.complaints(f"{path}.hostname", address.hostname, names.dns1123_label(address.hostname))
    if address.HasField("nodeName"):
        errors.complaints(f"{path}.nodeName", address.nodeName, names.dns1123_subdomain(address.nodeName))
    non_special_ip(address.ip, errors, f"{path}.ip")


def _validate_port(port: core.EndpointPort, needs_name: bool, errors: Errors, path: str) -> None:
    if port.name:
        errors.complaints(f"{path}.name", port.name, names.dns1123_label(port.name))
    elif needs_name:
        errors.required(f"{path}.name")
    errors.complaints(f"{path}.port", port.port, names.port_number(port.port))
    one_of(errors, f"{path}.protocol", port.protocol, PROTOCOLS, required=True)
    if port.HasField("appProtocol"):
        errors.complaints(f"{path}.appProtocol", port.appProtocol, names.qualified_name(port.appProtocol))


def _update(endpoints: core.Endpoints, old: core.Endpoints, errors: Errors) -> None:
    metadata.validate_kind_update(endpoints.metadata, old.metadata, errors)
    _create(endpoints, errors)


def _create_slice(piece: discovery.EndpointSlice, errors: Errors, known: frozenset[str] = frozenset()) -> None:
    """`known` are addresses that the slice had before, which may stay as they are."""
    metadata.validate_kind(piece.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    kind = piece.addressType
    one_of(errors, "addressType", kind, ADDRESS_TYPES, required=True)
    _validate_endpoints(piece.endpoints, kind, errors, known)
    _validate_ports(piece.ports, errors)


def _validate_endpoints(
    endpoints: Sequence[discovery.Endpoint], kind: str, errors: Errors, known: frozenset[str]
) -> None:
    if len(endpoints) > _MAX_ENDPOINTS:
        errors.too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)
        return
    for index, endpoint in enumerate(endpoints):
        path = f"endpoints[{index}]"
        addresses = endpoint.addresses
        if not addresses:
            errors.required(f"{path}.addresses", "must contain at least 1 address")
        elif len(addresses) > _MAX_ADDRESSES:
            errors.too_many(f"{path}.addresses", len(addresses), _MAX_ADDRESSES)
        else:
            for number, address in enumerate(addresses):
                _validate_slice_address(address, kind, errors, f"{path}.addresses", number, known)
        if endpoint.HasField("nodeName"):
            errors.complaints(f"{path}.nodeName", endpoint.nodeName, names.dns1123_subdomain(endpoint.nodeName))
        if len(endpoint.deprecatedTopology) > _MAX_TOPOLOGY:
            errors.too_many(f"{path}.deprecatedTopology", len(endpoint.deprecatedTopology), _MAX_TOPOLOGY)
        metadata.validate_labels(endpoint.deprecatedTopology, errors, f"{path}.deprecatedTopology")
        if endpoint.HasField("hostname"):
            errors.complaints(f"{path}.hostname", endpoint.hostname, names.dns1123_label(endpoint.hostname))
        if endpoint.HasField("hints"):
            _validate_hints(endpoint.hints, errors, f"{path}.hints")


def _validate_slice_address(
    address: str, kind: str, errors: Errors, path: str, index: int, known: frozenset[str]
) -> None:
    at = f"{path}[{index}]"
    if kind == "FQDN":
        errors.complaints(at, address, names.dns1123_subdomain(address))
        return
    if kind not in ("IPv4", "IPv6"):
        return
    parsed = parse_ip(address)
    if parsed is None or (address not in known and not is_plain_ip(address)):
        errors.invalid(at, address, "must be a valid IP address, without leading zeros")
        return
    if f"IPv{parsed.version}" != kind:
        # The list is what the reference names here, not the element.
        errors.invalid(path, address, f"must be an {kind} address")
    non_special_ip(address, errors, at)


def _validate_hints(hints: discovery.EndpointHints, errors: Errors, path: str) -> None:
    for field, check in (("forZones", names.qualified_name), ("forNodes", names.dns1123_subdomain)):
        found = getattr(hints, field)
        if len(found) > _MAX_HINTS:
            errors.too_many(f"{path}.{field}", len(found), _MAX_HINTS)
            return
        seen: set[str] = set()
        for index, hint in enumerate(found):
            at = f"{path}.{field}[{index}].name"
            if hint.name in seen:
                errors.duplicate(at, hint.name)
            seen.add(hint.name)
            errors.complaints(at, hint.name, check(hint.name))


def _validate_ports(ports: Sequence[discovery.EndpointPort], errors: Errors) -> None:
    if len(ports) > _MAX_PORTS:
        errors.too_many("ports", len(ports), _MAX_PORTS)
        return
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path = f"ports[{index}]"
        if port.name:
            errors.complaints(f"{path}.name", port.name, names.dns1123_label(port.name))
        if port.name in seen:
            errors.duplicate(f"{path}.name", port.name)
        seen.add(port.name)
        one_of(errors, f"{path}.protocol", port.protocol, PROTOCOLS, required=True)
        if port.HasField("appProtocol"):
            errors.complaints(f"{path}.appProtocol", port.appProtocol, names.qualified_name(port.appProtocol))


def _update_slice(piece: discovery.EndpointSlice, old: discovery.EndpointSlice, errors: Errors) -> None:
    metadata.validate_kind_update(piece.metadata, old.metadata, errors)
    known = frozenset(address for endpoint in old.endpoints for address in endpoint.addresses)
    _create_slice(piece, errors, known)
    metadata.immutable(errors, "addressType", piece.addressType, old.addressType)


RULES = {
    core.Endpoints: Rules(create=_create, update=_update),
    discovery.EndpointSlice: Rules(create=_create_slice, update=_update_slice),
}
