"""Regular expressions of schemas: Go's dialect (RE2), matched by Python's engine.

What the two write differently is rewritten: ``\\z``, named groups, POSIX classes, ``\\Q…\\E``. Python's engine can take
very long for patterns that RE2 matches in linear time; values are therefore cut off at :data:`MAX_MATCHED` characters.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_MATCHED = 1 << 16
"""Characters of a value that a pattern is tried on; a longer value does not match."""

_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7F", "blank": r"\t ", "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_CLASS = re.compile(r"\[:(\^?)(\w+):\]")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)


@lru_cache(maxsize=2048)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern. Raises ValueError that says what is wrong."""
    text = _QUOTED.sub(lambda found: re.escape(found[1]), pattern)
    text = _CLASS.sub(lambda found: _posix(found[1], found[2]), text)
    # Python's $ also matches before a final line feed, Go's does not.
    text = re.sub(r"(?<!\\)((?:\\\\)*)\$(?![^\[]*\])", r"\1\\Z", text).replace(r"\z", r"\Z")
    text = re.sub(r"\(\?<(?![=!])", "(?P<", text)
    try:
        return re.compile(text, re.ASCII)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error


def _posix(negated: str, name: str) -> str:
    if name not in _POSIX or negated:
        raise ValueError(f"[:{negated}{name}:] is no class of characters that is known here")
    return _POSIX[name]


def matches(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a pattern is found anywhere in a text."""
    return len(text) <= MAX_MATCHED and pattern.search(text) is not None
