"""Conversions between the types of CEL."""

from __future__ import annotations

import datetime
import math
import zoneinfo
from typing import Any

from wharfinger.api import durations, times
from wharfinger.api.cel.values import CelError, Duration, Timestamp, TypeName, UInt, type_of, whole


def _wrong(name: str, value: Any) -> CelError:
    return CelError(f"no such overload: {name}({type_of(value)})")


def type_value(value: Any) -> TypeName:
    """Return the type of a value."""
    return TypeName(type_of(value))


def to_int(value: Any) -> int:
    """Return a value as an int."""
    if isinstance(value, bool):
        raise _wrong("int", value)
    if isinstance(value, int):
        return whole(int(value))
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            raise CelError("integer overflow")
        return whole(int(value))
    if isinstance(value, str):
        try:
            return whole(int(value, 10))
        except ValueError as error:
            raise CelError(f"{value!r} is no integer") from error
    if isinstance(value, Timestamp):
        return value.nanos // 10**9
    if isinstance(value, Duration):
        return value.nanos
    raise _wrong("int", value)


def to_uint(value: Any) -> UInt:
    """Return a value as an unsigned int."""
    return UInt(whole(to_int(value) if not isinstance(value, UInt) else value, "uint"))


def to_double(value: Any) -> float:
    """Return a value as a double."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError as error:
            raise CelError(f"{value!r} is no number") from error
    raise _wrong("double", value)


def number_text(value: float) -> str:
    """Return a double as CEL writes it: the shortest text that means it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def to_string(value: Any) -> str:
    """Return a value as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise CelError("the bytes are not UTF-8") from error
    if isinstance(value, Duration):
        text = f"{value.nanos / 10**9:.9f}".rstrip("0").rstrip(".")
        return f"{text}s"
    if isinstance(value, Timestamp):
        moment = value.moment()
        fraction = f".{value.nanos % 10**9:09d}".rstrip("0") if value.nanos % 10**9 else ""
        return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"
    if hasattr(value, "cel_string"):
        return str(value.cel_string())
    raise _wrong("string", value)


def to_bytes(value: Any) -> bytes:
    """Return text as bytes."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise _wrong("bytes", value)


def to_bool(value: Any) -> bool:
    """Return a value as a truth value."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if value in ("true", "True", "TRUE", "t", "1"):
            return True
        if value in ("false", "False", "FALSE", "f", "0"):
            return False
        raise CelError(f"{value!r} is no truth value")
    raise _wrong("bool", value)


def to_duration(value: Any) -> Duration:
    """Read a duration in Go's notation."""
    if isinstance(value, Duration):
        return value
    if isinstance(value, str):
        try:
            return Duration(durations.parse(value))
        except ValueError as error:
            raise CelError(str(error)) from error
    if isinstance(value, int) and not isinstance(value, bool):
        return Duration(value)
    raise _wrong("duration", value)


def to_timestamp(value: Any) -> Timestamp:
    """Read a moment in the notation of RFC 3339; a number is seconds since 1970."""
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, str):
        try:
            seconds, nanos = times.parse_rfc3339(value)
        except ValueError as error:
            raise CelError(str(error)) from error
        return Timestamp(seconds * 10**9 + nanos)
    if isinstance(value, int) and not isinstance(value, bool):
        return Timestamp(value * 10**9)
    raise _wrong("timestamp", value)


def in_zone(value: Timestamp, zone: str) -> datetime.datetime:
    """Return a moment in a time zone, by name or as an offset such as ``+02:00``."""
    moment = value.moment()
    if zone in ("", "UTC"):
        return moment
    if zone[0] in "+-0123456789":
        sign = -1 if zone[0] == "-" else 1
        try:
            hours, minutes = zone.lstrip("+-").split(":")
            offset = datetime.timedelta(hours=int(hours), minutes=int(minutes))
        except ValueError as error:
            raise CelError(f"{zone!r} is no time zone") from error
        return moment.astimezone(datetime.timezone(sign * offset))
    try:
        return moment.astimezone(zoneinfo.ZoneInfo(zone))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
        raise CelError(f"{zone!r} is no time zone") from error
