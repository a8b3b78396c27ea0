"""What an evaluation works on: the variables, and what is left of its budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wharfinger.api.cel.values import CelError, type_of

BUDGET = 200_000
"""Steps of one evaluation: calls, selections and rounds of loops."""


_A_STEP = 4
"""Elements that are compared in the time of a step."""


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


def depth_weight(value: Any, limit: int) -> int:
    """Return the steps that looking at all of a value takes, down to its innermost elements; it counts to `limit`."""
    steps, waiting = 0, [value]
    while waiting and steps <= limit:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting.extend(one.values())
            steps += 1 + len(one) // _A_STEP
        elif isinstance(one, list):
            waiting.extend(item for item in one if isinstance(item, (list, dict)))
            steps += 1 + len(one) // _A_STEP
        elif isinstance(one, (str, bytes)):
            steps += len(one) // 100
    return steps


def truth(value: Any, sign: str) -> bool:
    """Return a condition's value. Raises CelError for what is no bool; `sign` is what needed one."""
    if not isinstance(value, bool):
        raise CelError(f"no such overload: {sign} on {type_of(value)}")
    return value
