"""Cron schedules and time zones, as cron jobs name them.

The syntax is that of the library which Kubernetes uses: five fields (minute, hour, day of month, month, day of week)
of ``*``, ``?``, numbers, names, ranges, lists and steps; or ``@hourly`` and its like, or ``@every 1h30m``; before them
perhaps ``TZ=zone``. Source: "Cron schedule syntax" in Kubernetes' documentation.
"""

from __future__ import annotations

import re
from functools import lru_cache
from zoneinfo import available_timezones

_DESCRIPTORS = frozenset({
    "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly",
})  # fmt: skip
_MONTHS = {
    name: index
    for index, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
_DAYS = {name: index for index, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 6, _DAYS),
)
_DURATION = re.compile(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+|[-+]?0", re.ASCII)
_ZONE_NAME = re.compile(r"[A-Za-z_]+|[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)


@lru_cache(maxsize=1024)
def schedule_problem(schedule: str) -> str:
    """Return what is wrong with a schedule; empty when nothing is."""
    if len(schedule) > 1024:
        return "is too long for a schedule"
    rest = schedule
    if rest.startswith(("TZ=", "CRON_TZ=")):
        zone, _, rest = rest.partition(" ")
        zone = zone.partition("=")[2]
        if not is_zone(zone) and zone not in ("", "Local"):
            return f"provided bad location {zone!r}"
        rest = rest.strip()
    if rest.startswith("@"):
        return _descriptor_problem(rest)
    fields = rest.split()
    if len(fields) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(fields)}"
    for text, (name, least, most, names) in zip(fields, _FIELDS, strict=True):
        for part in text.split(","):
            problem = _part_problem(part, least, most, names) if part else ""
            if problem:
                return f"{name}: {problem}"
        if not any(text.split(",")):
            return f"{name}: is empty"
    return ""


def _descriptor_problem(text: str) -> str:
    if text in _DESCRIPTORS:
        return ""
    if text.startswith("@every "):
        return "" if _DURATION.fullmatch(text[len("@every ") :]) else f"failed to parse duration {text!r}"
    return f"unrecognized descriptor {text!r}"


def _part_problem(part: str, least: int, most: int, names: dict[str, int]) -> str:
    span, *steps = part.split("/")
    if len(steps) > 1:
        return f"too many slashes in {part!r}"
    first, *last = span.split("-")
    if len(last) > 1:
        return f"too many hyphens in {part!r}"
    if first in ("*", "?"):
        if last:
            return f"a range cannot begin with {first!r}"
        start, end = least, most
    else:
        numbers = []
        for text in (first, *last):
            number = names.get(text.lower()) if text.lower() in names else None
            if number is None:
                if not _NUMBER.fullmatch(text):
                    return f"{text!r} is no number"
                number = int(text)
            numbers.append(number)
        start = numbers[0]
        end = numbers[-1] if last or not steps else most
    if steps:
        if not _NUMBER.fullmatch(steps[0]):
            return f"{steps[0]!r} is no number"
        if int(steps[0]) == 0:
            return "a step must be a positive number"
    if start < least:
        return f"{start} is below the least, {least}"
    if end > most:
        return f"{end} is above the largest, {most}"
    if start > end:
        return f"{start} is beyond the end of its range, {end}"
    return ""


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones()) | {"UTC"}


def is_zone(name: str) -> bool:
    """Whether the time zone database of this machine knows a zone."""
    return name in _zones()


def zone_problem(name: str) -> str:
    """Return what is wrong with the name of a time zone; empty when nothing is."""
    if not name:
        return "must be nil or non-empty string"
    if not _ZONE_NAME.fullmatch(name):
        return "must be a valid name of a time zone"
    if name.lower() == "local":
        return "must be an explicit time zone"
    return "" if is_zone(name) else f"unknown time zone {name}"
