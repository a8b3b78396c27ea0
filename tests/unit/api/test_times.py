from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.api import times
from wharfinger.api.types import meta


@pytest.mark.parametrize(
    ("text", "seconds", "nanos"),
    [
        ("1970-01-01T00:00:00Z", 0, 0),
        ("2026-01-02T03:04:05Z", 1767323045, 0),
        ("2026-01-02T03:04:05.000001Z", 1767323045, 1000),
        ("2026-01-02T03:04:05.123456789Z", 1767323045, 123456789),
        ("2026-01-02T05:04:05+02:00", 1767323045, 0),
        ("2026-01-01T22:34:05-04:30", 1767323045, 0),
        ("0001-01-01T00:00:00Z", times.ZERO_SECONDS, 0),
        ("9999-12-31T23:59:59Z", 253402300799, 0),
    ],
)
def test_reads_rfc3339(text: str, seconds: int, nanos: int) -> None:
    assert times.parse_rfc3339(text) == (seconds, nanos)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-02",
        "2026-01-02 03:04:05Z",
        "2026-01-02T03:04:05",
        "2026-13-02T03:04:05Z",
        "2026-02-30T03:04:05Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T03:60:05Z",
        "2026-01-02T03:04:05+25:00",
        "26-01-02T03:04:05Z",
        "0000-01-01T00:00:00Z",
    ],
)
def test_refuses_other_notations(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|date|offset"):
        times.parse_rfc3339(text)


def test_zero_times_are_no_time() -> None:
    assert times.is_zero(meta.Time())
    assert times.is_zero(meta.Time(seconds=times.ZERO_SECONDS))
    assert not times.is_zero(meta.Time(seconds=0))
    assert times.to_text(meta.Time()) == ""
    assert times.to_text(meta.Time(seconds=0)) == "1970-01-01T00:00:00Z"


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)))
def test_micro_times_survive(moment: datetime) -> None:
    made = times.micro_from_datetime(moment)
    assert times.to_datetime(made) == moment
    assert times.parse_micro(times.to_text(made)) == made


def test_zones_are_converted_and_required() -> None:
    there = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    assert times.to_text(times.from_datetime(there)) == "2025-12-31T22:00:00Z"
    with pytest.raises(ValueError, match="no time zone"):
        times.from_datetime(datetime(2026, 1, 1))
    with pytest.raises(ValueError, match="no time zone"):
        times.micro_from_datetime(datetime(2026, 1, 1))


def test_now_has_whole_seconds() -> None:
    assert times.now().HasField("nanos")
    assert times.now().nanos == 0
    assert times.micro_now().nanos % 1000 == 0
