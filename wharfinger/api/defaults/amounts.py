"""Amounts of resources are counted in thousandths at most; finer ones are rounded up when they come in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from wharfinger.api import quantity
from wharfinger.api.types import quantity as messages

_MILLI = 1_000_000
"""Billionths."""


@lru_cache(maxsize=8192)
def _rounded(text: str) -> str:
    """Return the notation of an amount rounded up to thousandths; what is no amount stays for the codec to refuse."""
    try:
        amount = quantity.parse(text)
    except ValueError:
        return text
    if amount.nanos % _MILLI == 0:
        return text
    return str(quantity.Quantity(-(-amount.nanos // _MILLI) * _MILLI, amount.format))


def round_up(resources: Mapping[str, messages.Quantity]) -> None:
    """Round the amounts of a map in place."""
    for amount in resources.values():
        text = amount.string
        rounded = _rounded(text) if text else text
        if rounded != text:
            amount.string = rounded


def copy_missing(target: object, source: Mapping[str, messages.Quantity]) -> None:
    """Give a map of amounts the entries of another that it lacks."""
    for name, amount in source.items():
        if name not in target:  # type: ignore[operator]
            target[name].string = amount.string  # type: ignore[index]
