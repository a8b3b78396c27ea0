"""Checks that many kinds share: numbers, ports, addresses, percentages, selectors, quantities."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache

from wharfinger.api import quantity
from wharfinger.api.types import intstr, meta
from wharfinger.api.types import quantity as quantity_messages
from wharfinger.api.validation import names
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.metadata import validate_label_name, validate_labels

NEGATIVE = "must be greater than or equal to 0"
NOT_POSITIVE = "must be greater than zero"
NOT_INTEGER = "must be an integer"
MAX_INT32 = 2**31 - 1

PROTOCOLS = ("SCTP", "TCP", "UDP")

_PERCENT = re.compile(r"[0-9]+%")
_IPV4_SLOPPY = re.compile(r"\d{1,}(?:\.\d{1,}){3}", re.ASCII)
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def nonnegative(errors: Errors, path: str, value: int) -> None:
    """Note a negative number."""
    if value < 0:
        errors.invalid(path, value, NEGATIVE)


def required_name(errors: Errors, path: str, value: str, check: object = None) -> None:
    """Note a missing text, or what `check` (of :mod:`.names`) says about it."""
    if not value:
        errors.required(path)
    elif check is not None:
        errors.complaints(path, value, check(value))  # type: ignore[operator]


def one_of(errors: Errors, path: str, value: str, supported: tuple[str, ...], *, required: bool = False) -> None:
    """Note a value outside a closed list; with `required`, an empty one is missing instead."""
    if value not in supported:
        if required and not value:
            errors.required(path)
        else:
            errors.not_supported(path, value, supported)


def port_or_name(port: intstr.IntOrString, errors: Errors, path: str) -> None:
    """Judge a port given by number or by name."""
    if port.type == 1:
        errors.complaints(path, port.strVal, names.port_name(port.strVal))
    else:
        errors.complaints(path, port.intVal, names.port_number(port.intVal))


def _unpadded(text: str) -> str:
    """Drop leading zeros of an IPv4 address; Kubernetes reads 010.0.0.1 as 10.0.0.1."""
    return ".".join(part.lstrip("0") or "0" for part in text.split(".")) if _IPV4_SLOPPY.fullmatch(text) else text


@lru_cache(maxsize=4096)
def parse_ip(text: str) -> Address | None:
    """Read an IP address as Kubernetes does, leading zeros and all; None when it is none."""
    if len(text) > 64 or "%" in text:
        return None
    try:
        return ipaddress.ip_address(_unpadded(text))
    except ValueError:
        return None


def is_plain_ip(text: str) -> bool:
    """Tell whether it is an address as newer fields want it: no leading zeros, no IPv4 dressed up as IPv6."""
    found = parse_ip(text)
    return found is not None and _unpadded(text) == text and getattr(found, "ipv4_mapped", None) is None


def is_ip(errors: Errors, path: str, value: str) -> bool:
    """Note what is no IP address; return whether it is one."""
    if parse_ip(value) is not None:
        return True
    errors.invalid(path, value, "must be a valid IP address (such as 10.9.8.7 or 2001:db8::ffff)")
    return False


def parse_cidr(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Read ``address/bits``; None when it is not that."""
    address, slash, bits = text.partition("/")
    if not slash or not bits.isascii() or not bits.isdigit() or len(bits) > 3 or parse_ip(address) is None:
        return None
    try:
        return ipaddress.ip_network(f"{_unpadded(address)}/{int(bits)}", strict=False)
    except ValueError:
        return None


def is_cidr(errors: Errors, path: str, value: str) -> None:
    """Note what is no range of addresses."""
    if parse_cidr(value) is None:
        errors.invalid(path, value, "must be a valid CIDR value (such as 10.9.8.0/24 or 2001:db8::/64)")


def non_special_ip(value: str, errors: Errors, path: str) -> None:
    """Note addresses that make no sense as an endpoint's: unspecified, loopback, link-local."""
    address = parse_ip(value)
    if address is None:
        errors.invalid(path, value, "must be a valid IP address")
        return
    if address.is_unspecified:
        errors.invalid(path, value, f"may not be unspecified ({value})")
    if address.is_loopback:
        errors.invalid(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        errors.invalid(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if address in _LINK_LOCAL_MULTICAST[address.version]:
        errors.invalid(path, value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


_LINK_LOCAL_MULTICAST = {4: ipaddress.ip_network("224.0.0.0/24"), 6: ipaddress.ip_network("ff02::/16")}


def is_dual_stack(addresses: list[str]) -> bool:
    """Whether there are addresses (or ranges) of both families."""
    versions = set()
    for address in addresses:
        parsed = parse_ip(address.partition("/")[0])
        if parsed is not None:
            versions.add(parsed.version)
    return len(versions) == 2


def percent(text: str) -> int | None:
    """Return the number of ``20%``; None when it is no percentage."""
    return int(text[:-1]) if len(text) <= 20 and _PERCENT.fullmatch(text) else None


def positive_int_or_percent(value: intstr.IntOrString, errors: Errors, path: str) -> None:
    """Judge a count or a percentage that may not be negative."""
    if value.type == 1:
        if percent(value.strVal) is None:
            errors.invalid(path, value.strVal, "a valid percent string must be a numeric string followed by '%'")
    elif value.intVal < 0:
        errors.invalid(path, value.intVal, NEGATIVE)


def at_most_100_percent(value: intstr.IntOrString, errors: Errors, path: str) -> None:
    """Note a percentage over 100."""
    share = percent(value.strVal) if value.type == 1 else None
    if share is not None and share > 100:
        errors.invalid(path, value.strVal, "must not be greater than 100%")


def count_or_percent(value: intstr.IntOrString) -> int:
    """Return the number of a count or percentage; 0 for what is neither."""
    return (percent(value.strVal) or 0) if value.type == 1 else value.intVal


def label_selector(selector: meta.LabelSelector, errors: Errors, path: str) -> bool:
    """Judge a label selector; return whether it can be used."""
    before = len(errors)
    validate_labels(selector.matchLabels, errors, f"{path}.matchLabels")
    for index, requirement in enumerate(selector.matchExpressions):
        at = f"{path}.matchExpressions[{index}]"
        operator = requirement.operator
        if operator in ("In", "NotIn"):
            if not requirement.values:
                errors.required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist"):
            if requirement.values:
                errors.forbidden(f"{at}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        else:
            errors.invalid(f"{at}.operator", operator, "must be In, NotIn, Exists or DoesNotExist")
        validate_label_name(requirement.key, errors, f"{at}.key")
        for number, value in enumerate(requirement.values):
            errors.complaints(f"{at}.values[{number}]", value, names.label_value(value))
    return len(errors) == before


def selector_is_empty(selector: meta.LabelSelector) -> bool:
    """Whether a selector selects everything."""
    return not selector.matchLabels and not selector.matchExpressions


def selector_matches(selector: meta.LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy a (valid) selector."""
    if any(key not in labels or labels[key] != value for key, value in selector.matchLabels.items()):
        return False
    for requirement in selector.matchExpressions:
        present = requirement.key in labels
        operator = requirement.operator
        chosen = present and labels[requirement.key] in requirement.values
        if (
            (operator == "In" and not chosen)
            or (operator == "NotIn" and chosen)
            or (operator == "Exists" and not present)
            or (operator == "DoesNotExist" and present)
        ):
            return False
    return True


def amount(message: quantity_messages.Quantity) -> quantity.Quantity:
    """Return the exact amount of a quantity; an unset one counts as zero."""
    return quantity.parse(message.string) if message.string else _ZERO


_ZERO = quantity.Quantity.of(0)


def positive_quantity(message: quantity_messages.Quantity, errors: Errors, path: str) -> None:
    """Note an amount that is not greater than zero."""
    if amount(message).nanos <= 0:
        errors.invalid(path, message.string, NOT_POSITIVE)


def basic_quantity(message: quantity_messages.Quantity, errors: Errors, path: str) -> None:
    """Note an amount below zero (in whole units)."""
    if amount(message).value() < 0:
        errors.invalid(path, message.string, "must be a valid resource quantity")
