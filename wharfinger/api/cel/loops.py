"""Loops over lists and maps: all, exists, exists_one, filter, map.

Each takes the frame, the name of the loop's variable, the values, and the compiled expressions of its body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wharfinger.api.cel.frame import BudgetError, Frame, Run, truth
from wharfinger.api.cel.values import CelError


def _all(frame: Frame, variable: str, values: list[Any], inner: list[Run]) -> bool:
    return not _any(frame, variable, values, inner, wanted=False)


def _exists(frame: Frame, variable: str, values: list[Any], inner: list[Run]) -> bool:
    return _any(frame, variable, values, inner, wanted=True)


def _any(frame: Frame, variable: str, values: list[Any], inner: list[Run], *, wanted: bool) -> bool:
    failed: CelError | None = None
    for value in values:
        frame.spend()
        frame.variables[variable] = value
        try:
            if truth(inner[0](frame), "a condition") is wanted:
                return True
        except BudgetError:
            raise
        except CelError as error:
            failed = error  # another element may decide
    if failed is not None:
        raise failed
    return False


def _exists_one(frame: Frame, variable: str, values: list[Any], inner: list[Run]) -> bool:
    return len(chosen(frame, variable, values, inner)) == 1


def chosen(frame: Frame, variable: str, values: list[Any], inner: list[Run]) -> list[Any]:
    """Return the values for which the body's only expression is true."""
    kept = []
    for value in values:
        frame.spend()
        frame.variables[variable] = value
        if truth(inner[0](frame), "a condition"):
            kept.append(value)
    return kept


def mapped(frame: Frame, variable: str, values: list[Any], inner: list[Run]) -> list[Any]:
    """Return what the body's last expression makes of the values; of two, the first says which count."""
    made = []
    for value in values:
        frame.spend()
        frame.variables[variable] = value
        if len(inner) == 2 and not truth(inner[0](frame), "a condition"):
            continue
        made.append(inner[-1](frame))
    return made


LOOPS: dict[str, Callable[[Frame, str, list[Any], list[Run]], Any]] = {
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "filter": chosen,
    "map": mapped,
}
