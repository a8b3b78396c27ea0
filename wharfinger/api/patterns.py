"""Regular expressions of schemas and rules: Go's dialect, matched in linear time.

Who defines a custom kind writes the patterns, and whoever writes its objects the texts. On Python's engine a pattern of
seven characters and a text of thirty would stop the whole server for hours, so RE2 itself matches here: the engine of
which Go's dialect is a copy, with bounds on the memory of each pattern.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol

MAX_PATTERN_BYTES = 4 << 20
"""Memory that one compiled pattern may take; with more it is refused, or matched more slowly."""
MAX_WORK = 200_000_000
"""Size of a pattern's program times characters of the text, about a second at worst; beyond it nothing matches."""
_KEPT = 256


class Match(Protocol):
    """Where a pattern was found."""

    def group(self, number: int = 0) -> str:
        """Return the text that was found."""


class Pattern(Protocol):
    """A compiled pattern; the methods are those of Python's own."""

    programsize: int

    def search(self, text: str) -> Match | None:
        """Find it anywhere."""

    def finditer(self, text: str) -> Any:
        """Yield each place where it is found."""


@lru_cache(maxsize=_KEPT)
def compile_pattern(pattern: str) -> Pattern:
    """Compile a pattern. Raises ValueError that says what is wrong."""
    import re2  # at first use: a cluster without patterns does not need its 3 MB

    options: Any = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_PATTERN_BYTES
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if error.args else "unknown"
        raise ValueError(f"{pattern[:200]!r} is no regular expression: {why}") from error
    except UnicodeEncodeError as error:
        raise ValueError(f"{pattern[:200]!r} is no regular expression: it holds half a character") from error
    return compiled


def matches(pattern: Pattern, text: str) -> bool:
    """Whether a pattern is found anywhere in a text."""
    return len(text) * pattern.programsize <= MAX_WORK and pattern.search(text) is not None
