"""Go's regular expressions on Python's engine."""

from __future__ import annotations

import pytest

from wharfinger.api import patterns


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("^a$", "a", "a\n"),
        (r"^a\z", "a", "a\n"),
        (r"^\d+\$$", "12$", "12"),
        ("^[$]$", "$", "a"),
        ("^[[:alpha:]_]+$", "ab_", "a1"),
        (r"^\Qa.b\E$", "a.b", "axb"),
        ("^(?P<x>a)(?<y>b)$", "ab", "a"),
        (r"^\w+$", "abc", "é"),
    ],
)
def test_dialect(pattern: str, good: str, bad: str) -> None:
    compiled = patterns.compile_pattern(pattern)
    assert patterns.matches(compiled, good)
    assert not patterns.matches(compiled, bad)


@pytest.mark.parametrize("pattern", ["(", "[[:nope:]]", "a{2,1}"])
def test_broken(pattern: str) -> None:
    with pytest.raises(ValueError, match="no "):
        patterns.compile_pattern(pattern)
