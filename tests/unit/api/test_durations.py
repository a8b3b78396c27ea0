from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.api import durations


@pytest.mark.parametrize(
    ("text", "nanos", "shown"),
    [
        ("0", 0, "0s"),
        ("1s", 10**9, "1s"),
        ("90s", 90 * 10**9, "1m30s"),
        ("1h", 3600 * 10**9, "1h0m0s"),
        ("1.5s", 1_500_000_000, "1.5s"),
        ("300ms", 300_000_000, "300ms"),
        ("-1m", -60 * 10**9, "-1m0s"),
        ("1us", 1000, "1µs"),
        ("1µs", 1000, "1µs"),
        ("1.5us", 1500, "1.5µs"),
        ("7ns", 7, "7ns"),
        ("1h2m3.004s", 3723_004_000_000, "1h2m3.004s"),
        (".5m", 30 * 10**9, "30s"),
        ("+2m", 120 * 10**9, "2m0s"),
    ],
)
def test_go_notation(text: str, nanos: int, shown: str) -> None:
    assert durations.parse(text) == nanos
    assert durations.format_nanos(nanos) == shown


@pytest.mark.parametrize("text", ["", "1", "s", "1 s", "1d", "1.s.", "1s2", "--1s", "9999999h", "1" * 300 + "s"])
def test_other_notations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration"):
        durations.parse(text)


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_what_is_written_is_read_back(nanos: int) -> None:
    assert durations.parse(durations.format_nanos(nanos)) == nanos
