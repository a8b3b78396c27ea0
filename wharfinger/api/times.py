"""Points in time as Kubernetes writes them: RFC 3339 in UTC, to the second (Time) or microsecond (MicroTime).

In memory a time is ``meta.Time{seconds, nanos}`` since the Unix epoch. An empty message is Go's zero time: it is
written as ``null`` and never means 1970.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from wharfinger.api.types import meta

ZERO_SECONDS = -62135596800
"""Seconds of Go's zero time, the first of January of the year 1."""
_LAST_SECONDS = 253402300799
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SYNTAX = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)


def now() -> meta.Time:
    """Return the present time, whole seconds."""
    return meta.Time(seconds=int(time.time()), nanos=0)


def micro_now() -> meta.MicroTime:
    """Return the present time in microseconds."""
    seconds, nanos = divmod(time.time_ns(), 1_000_000_000)
    return meta.MicroTime(seconds=seconds, nanos=nanos // 1000 * 1000)


def is_zero(moment: meta.Time | meta.MicroTime) -> bool:
    """Whether this is no time at all (an unset field, or Go's zero time)."""
    return (not moment.HasField("seconds") and not moment.nanos) or moment.seconds == ZERO_SECONDS


def to_datetime(moment: meta.Time | meta.MicroTime) -> datetime:
    """Return an aware datetime in UTC; nanoseconds are cut to microseconds."""
    return _EPOCH + timedelta(seconds=moment.seconds, microseconds=moment.nanos // 1000)


def from_datetime(moment: datetime) -> meta.Time:
    """Return a Time in whole seconds; raises ValueError for a datetime without a zone."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone: Kubernetes' times are absolute")
    return meta.Time(seconds=(moment - _EPOCH) // timedelta(seconds=1), nanos=0)


def micro_from_datetime(moment: datetime) -> meta.MicroTime:
    """Return a MicroTime; raises ValueError for a datetime without a zone."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone: Kubernetes' times are absolute")
    micros = (moment - _EPOCH) // timedelta(microseconds=1)
    seconds, rest = divmod(micros, 1_000_000)
    return meta.MicroTime(seconds=seconds, nanos=rest * 1000)


@lru_cache(maxsize=16384)
def format_seconds(seconds: int) -> str:
    """Write whole seconds since the epoch as RFC 3339."""
    moment = _EPOCH + timedelta(seconds=min(max(seconds, ZERO_SECONDS), _LAST_SECONDS))
    return f"{moment.year:04}-{moment:%m-%dT%H:%M:%SZ}"


def format_micro(seconds: int, nanos: int) -> str:
    """Write seconds and nanoseconds since the epoch as RFC 3339 with six digits."""
    return f"{format_seconds(seconds)[:-1]}.{nanos // 1000:06}Z"


def to_text(moment: meta.Time | meta.MicroTime) -> str:
    """Write a time as its field shows it in JSON; empty for a zero time."""
    if is_zero(moment):
        return ""
    if isinstance(moment, meta.MicroTime):
        return format_micro(moment.seconds, moment.nanos)
    return format_seconds(moment.seconds)


@lru_cache(maxsize=16384)
def parse_rfc3339(text: str) -> tuple[int, int]:
    """Read RFC 3339; returns seconds since the epoch and nanoseconds. Raises ValueError."""
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:60]!r} is not a time in RFC 3339, such as 2006-01-02T15:04:05Z")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    try:
        days = (datetime(year, month, day, tzinfo=UTC) - _EPOCH).days
    except ValueError as error:
        raise ValueError(f"{text!r} is not a date: {error}") from error
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text!r} is not a time of day")
    seconds = days * 86400 + hour * 3600 + minute * 60 + second
    if match[8]:
        if int(match[9]) > 24 or int(match[10]) > 60:
            raise ValueError(f"{text!r} has an offset that no time zone has")
        offset = int(match[9]) * 3600 + int(match[10]) * 60
        seconds += offset if match[8] == "-" else -offset
    return seconds, int(((match[7] or "") + "000000000")[:9])


def parse(text: str) -> meta.Time:
    """Read a Time, cut to whole seconds. Raises ValueError."""
    return meta.Time(seconds=parse_rfc3339(text)[0], nanos=0)


def parse_micro(text: str) -> meta.MicroTime:
    """Read a MicroTime. Raises ValueError."""
    seconds, nanos = parse_rfc3339(text)
    return meta.MicroTime(seconds=seconds, nanos=nanos // 1000 * 1000)
