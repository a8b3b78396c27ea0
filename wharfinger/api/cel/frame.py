"""What an evaluation works on: the variables, and what is left of its budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wharfinger.api.cel.values import CelError, type_of

BUDGET = 200_000
"""Steps of one evaluation: calls, selections and rounds of loops."""


class BudgetError(CelError):
    """Raised when an evaluation takes too many steps."""


@dataclass(slots=True)
class Frame:
    """What an evaluation works on."""

    variables: dict[str, Any]
    left: int = BUDGET

    def spend(self, steps: int = 1) -> None:
        """Take steps from the budget."""
        self.left -= steps
        if self.left < 0:
            raise BudgetError("the expression is too expensive: it was ended")


Run = Callable[[Frame], Any]


def weight(values: Sequence[Any]) -> int:
    """Return the steps that work on these values takes besides its own one: more for long ones."""
    return sum(len(value) // 100 for value in values if isinstance(value, (str, bytes, list, dict)))


def truth(value: Any, sign: str) -> bool:
    """Return a condition's value. Raises CelError for what is no bool; `sign` is what needed one."""
    if not isinstance(value, bool):
        raise CelError(f"no such overload: {sign} on {type_of(value)}")
    return value
