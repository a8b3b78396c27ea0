"""The formats that strings (and numbers) of custom objects are held to.

Only these are checked, as in Kubernetes; any other format is a remark for readers. Source: "Validation" in
Kubernetes' documentation of CustomResourceDefinitions, and the format registry of kube-openapi that it stands on.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import re
from collections.abc import Callable
from urllib.parse import urlsplit

from wharfinger.api import durations, times

_PART = r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_HOST = re.compile(rf"(?=.{{1,255}}\Z)({_PART}\.)*{_PART}\.?")
_MAIL = re.compile(r"[^@\s<>()\[\]\\,;:\"]+@[^@\s<>()\[\]\\,;:\"]+")
_MAC = re.compile(
    r"[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}([:-][0-9a-fA-F]{2}){0,14}|([0-9a-fA-F]{4}\.){2,9}[0-9a-fA-F]{4}"
)
_UUID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?([0-9a-fA-F])[0-9a-fA-F]{3}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
_COLOR = re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_RGB = re.compile(r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")
_ISBN = re.compile(r"[\d -]+[\dXx]")
_CARD = re.compile(r"[\d -]{13,23}")
_SSN = re.compile(r"\d{3}[- ]?\d{2}[- ]?\d{4}")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_OBJECT_ID = re.compile(r"[0-9a-fA-F]{24}")


def _full(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10


def _date_time(text: str) -> bool:
    try:
        times.parse_rfc3339(text)
    except ValueError:
        return False
    return True


def _duration(text: str) -> bool:
    try:
        durations.parse(text)
    except ValueError:
        return False
    return True


def _base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _address(version: int) -> Callable[[str], bool]:
    kind = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address

    def check(text: str) -> bool:
        try:
            kind(text)
        except ValueError:
            return False
        return True

    return check


def _cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme or text.startswith("/")) and not re.search(r"\s", text)


def _uuid(version: str) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        found = _UUID.fullmatch(text)
        return found is not None and (not version or found[1] == version)

    return check


def _rgb(text: str) -> bool:
    found = _RGB.fullmatch(text)
    return found is not None and all(int(part) < 256 for part in found.groups())


def _isbn10(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "").upper()
    if not _ISBN.fullmatch(text) or len(digits) != 10:
        return False
    return sum((10 - at) * (10 if digit == "X" else int(digit)) for at, digit in enumerate(digits)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if not digits.isdigit() or len(digits) != 13:
        return False
    return sum(int(digit) * (3 if at % 2 else 1) for at, digit in enumerate(digits)) % 10 == 0


def _card(text: str) -> bool:
    if not _CARD.fullmatch(text):
        return False
    total = 0
    for at, digit in enumerate(reversed([int(char) for char in text if char.isdigit()])):
        doubled = digit * 2 if at % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


CHECKS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _full(_OBJECT_ID),
    "byte": _base64,
    "cidr": _cidr,
    "creditcard": _card,
    "date": _date,
    "date-time": _date_time,
    "datetime": _date_time,
    "duration": _duration,
    "email": _full(_MAIL),
    "hexcolor": _full(_COLOR),
    "hostname": _full(_HOST),
    "ipv4": _address(4),
    "ipv6": _address(6),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "k8s-long-name": _full(_SUBDOMAIN),
    "k8s-short-name": _full(_LABEL),
    "mac": _full(_MAC),
    "password": lambda _: True,
    "rgbcolor": _rgb,
    "ssn": _full(_SSN),
    "uri": _uri,
    "uuid": _uuid(""),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
}
"""By name; a format without its dashes means the same."""

INTEGERS = {"int32": 1 << 31, "int64": 1 << 63}
"""What whole numbers of a format must lie below, in either direction."""


def check_of(name: str) -> Callable[[str], bool] | None:
    """Return the check of a format of strings; None when it is none that is checked."""
    return CHECKS.get(name) or CHECKS.get(name.replace("-", ""))
