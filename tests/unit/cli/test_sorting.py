"""``--sort-by``."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.cli.failures import CommandError
from wharfinger.cli.sorting import sort_by


def _sorted(values: list[Any], path: str = ".v") -> list[int]:
    return sort_by(path, [({} if value is None else {"v": value}, index) for index, value in enumerate(values)])


@pytest.mark.parametrize(
    ("values", "order"),
    [
        ([3, 1, 2], [1, 2, 0]),
        (["b", "a", "c"], [1, 0, 2]),
        (["web-10", "web-9", "web-2"], [2, 1, 0]),
        (["1Gi", "500Mi", "2"], [2, 1, 0]),
        (["100m", "1", "50m"], [2, 0, 1]),
        ([2, None, 1], [1, 2, 0]),
        (["2026-01-02T00:00:00Z", "2025-01-02T00:00:00Z"], [1, 0]),
        ([1, 1, 0], [2, 0, 1]),
        ([True, False], [1, 0]),
    ],
)
def test_order(values: list[Any], order: list[int]) -> None:
    assert _sorted(values) == order
    assert _sorted(values, "{.v}") == order


def test_nothing_to_sort_by() -> None:
    with pytest.raises(CommandError, match="couldn't find any field"):
        _sorted([1, 2], ".nope")
    assert _sorted([], ".nope") == []


@pytest.mark.parametrize("values", [[1, "x"], [{"a": 1}, {"a": 2}]])
def test_what_has_no_order(values: list[Any]) -> None:
    with pytest.raises(CommandError):
        _sorted(values)
