"""What Kubernetes adds to CEL beyond text: URLs, IP addresses, quantities, sets."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from wharfinger.api import quantity as quantities
from wharfinger.api.cel.values import CelError, equal, type_of


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount, exactly."""

    amount: Fraction
    text: str

    def cel_string(self) -> str:
        """Return it as it was written."""
        return self.text


@dataclass(frozen=True, slots=True)
class Url:
    """An address of the web."""

    text: str
    parts: SplitResult

    def cel_string(self) -> str:
        """Return it as it was written."""
        return self.text


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address."""

    ip: ipaddress.IPv4Address | ipaddress.IPv6Address

    def cel_string(self) -> str:
        """Return its usual notation."""
        return str(self.ip)


@dataclass(frozen=True, slots=True)
class Network:
    """A range of IP addresses, with the address that it was written with."""

    interface: ipaddress.IPv4Interface | ipaddress.IPv6Interface

    def cel_string(self) -> str:
        """Return its usual notation."""
        return str(self.interface)


def _want(value: Any, cls: type, name: str) -> Any:
    if not isinstance(value, cls):
        raise CelError(f"no such overload: {name} on {type_of(value)}")
    return value


def _quantity(text: str) -> Quantity:
    try:
        return Quantity(Fraction(quantities.parse(text).nanos, 10**9), text)
    except ValueError as error:
        raise CelError(str(error)) from error


def _url(text: str) -> Url:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise CelError(f"{text!r} is no URL: {error}") from error
    if not (parts.scheme and (parts.netloc or parts.path)) and not text.startswith("/"):
        raise CelError(f"{text!r} is no URL: it must have a scheme, or begin with a slash")
    return Url(text, parts)


def _ip(text: Any) -> Address:
    if isinstance(text, Network):
        return Address(text.interface.ip)
    try:
        address = ipaddress.ip_address(_want(text, str, "ip"))
    except ValueError as error:
        raise CelError(str(error)) from error
    if getattr(address, "scope_id", None) or getattr(address, "ipv4_mapped", None):
        raise CelError(f"{text!r}: zones and mapped addresses are not allowed")
    return Address(address)


def _cidr(text: str) -> Network:
    if "/" not in _want(text, str, "cidr"):
        raise CelError(f"{text!r} is no range: it needs a slash and a length")
    try:
        return Network(ipaddress.ip_interface(text))
    except ValueError as error:
        raise CelError(str(error)) from error


def _is(read: Callable[[str], Any]) -> Callable[[Any], bool]:
    def run(text: Any) -> bool:
        try:
            read(_want(text, str, "a test"))
        except CelError:
            return False
        return True

    return run


def _compared(value: Any, other: Any) -> int:
    one, two = _want(value, Quantity, "compareTo").amount, _want(other, Quantity, "compareTo").amount
    return int(one > two) - int(one < two)


def _combine(value: Any, other: Any, sign: int) -> Quantity:
    added = other.amount if isinstance(other, Quantity) else Fraction(other)
    amount = _want(value, Quantity, "add").amount + sign * added
    return Quantity(amount, str(amount))


def _as_integer(value: Any) -> int:
    amount = _want(value, Quantity, "asInteger").amount
    if amount.denominator != 1 or not -(1 << 63) <= amount < 1 << 63:
        raise CelError("the quantity is no integer of 64 bits")
    return int(amount)


def _is_integer(value: Any) -> bool:
    amount = _want(value, Quantity, "isInteger").amount
    return bool(amount.denominator == 1 and -(1 << 63) <= amount < 1 << 63)


def _url_part(name: str, read: Callable[[SplitResult], Any]) -> Callable[[Any], Any]:
    return lambda value: read(_want(value, Url, name).parts)


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _hostname(parts: SplitResult) -> str:
    host = _host(parts)
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _range_contains(value: Any, other: Any) -> bool:
    network = _want(value, Network, "containsIP").interface.network
    address = other.ip if isinstance(other, Address) else _ip(other).ip
    return address in network


def _range_covers(value: Any, other: Any) -> bool:
    network = _want(value, Network, "containsCIDR").interface.network
    inner = (other if isinstance(other, Network) else _cidr(other)).interface.network
    return inner.version == network.version and inner.subnet_of(network)


def _is_in(item: Any, values: list[Any]) -> bool:
    return any(equal(item, value) for value in values)


def are_texts(*lists: list[Any]) -> bool:
    """Whether lists hold nothing but texts, so that Python's sets know what is equal."""
    return all(isinstance(item, str) for one in lists for item in one)


def _contains(one: list[Any], other: list[Any]) -> bool:
    if are_texts(one, other):
        return set(one).issuperset(other)
    return all(_is_in(item, one) for item in other)


def _intersects(one: list[Any], other: list[Any]) -> bool:
    if are_texts(one, other):
        return not set(one).isdisjoint(other)
    return any(_is_in(item, one) for item in other)


METHODS: dict[str, Callable[..., Any]] = {
    "compareTo": _compared,
    "isLessThan": lambda value, other: _compared(value, other) < 0,
    "isGreaterThan": lambda value, other: _compared(value, other) > 0,
    "sign": lambda value: _compared(value, Quantity(Fraction(0), "0")),
    "add": lambda value, other: _combine(value, other, 1),
    "sub": lambda value, other: _combine(value, other, -1),
    "asInteger": _as_integer,
    "isInteger": _is_integer,
    "asApproximateFloat": lambda value: float(_want(value, Quantity, "asApproximateFloat").amount),
    "getScheme": _url_part("getScheme", lambda parts: parts.scheme),
    "getHost": _url_part("getHost", _host),
    "getHostname": _url_part("getHostname", _hostname),
    "getPort": _url_part("getPort", lambda parts: str(parts.port) if parts.port is not None else ""),
    "getEscapedPath": _url_part("getEscapedPath", lambda parts: parts.path),
    "getQuery": _url_part("getQuery", lambda parts: parse_qs(parts.query, keep_blank_values=True)),
    "family": lambda value: _want(value, Address, "family").ip.version,
    "isUnspecified": lambda value: _want(value, Address, "isUnspecified").ip.is_unspecified,
    "isLoopback": lambda value: _want(value, Address, "isLoopback").ip.is_loopback,
    "isLinkLocalMulticast": lambda value: _is_local_multicast(_want(value, Address, "isLinkLocalMulticast").ip),
    "isLinkLocalUnicast": lambda value: _want(value, Address, "isLinkLocalUnicast").ip.is_link_local,
    "isGlobalUnicast": lambda value: _is_global(_want(value, Address, "isGlobalUnicast").ip),
    "ip": _ip,
    "containsIP": _range_contains,
    "containsCIDR": _range_covers,
    "prefixLength": lambda value: _want(value, Network, "prefixLength").interface.network.prefixlen,
    "masked": lambda value: Network(
        ipaddress.ip_interface(str(_want(value, Network, "masked").interface.network))
    ),
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quantity": _quantity,
    "isQuantity": _is(_quantity),
    "url": _url,
    "isURL": _is(_url),
    "ip": _ip,
    "isIP": _is(_ip),
    "ip.isCanonical": lambda text: str(_ip(text).ip) == text,
    "cidr": _cidr,
    "isCIDR": _is(_cidr),
    "sets.contains": _contains,
    "sets.intersects": _intersects,
    "sets.equivalent": lambda one, other: _contains(one, other) and _contains(other, one),
}


def _is_local_multicast(ip: Any) -> bool:
    network = "224.0.0.0/24" if ip.version == 4 else "ff02::/16"
    return ip in ipaddress.ip_network(network)


def _is_global(ip: Any) -> bool:
    return not (ip.is_unspecified or ip.is_loopback or ip.is_multicast or ip.is_link_local)
