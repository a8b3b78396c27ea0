"""Go's regular expressions."""

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


@pytest.mark.parametrize(
    "pattern", ["(", "[[:nope:]]", "a{2,1}", "(?=a)b", r"(a)\1", "(a{1000}){1000}", "a|b" * 300_000, "\ud800"]
)
def test_broken(pattern: str) -> None:
    with pytest.raises(ValueError, match="no "):
        patterns.compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "(.*)*x", "(a?){50}a{50}$", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_no_pattern_takes_longer_than_its_text(pattern: str) -> None:
    """On an engine that tries one way after another each of these would outlive the machine."""
    assert not patterns.matches(patterns.compile_pattern(pattern), "a" * 40 + "!")
    assert not patterns.matches(patterns.compile_pattern(pattern), "a" * 100_000 + "!")
