"""The list of what need not agree with the recordings."""

from __future__ import annotations

from pathlib import Path

import pytest

from wharfinger.devtools.containerd import DevtoolsError
from wharfinger.devtools.golden import Exceptions


def test_wording_is_not_held_against_a_step() -> None:
    known = Exceptions.load()
    path = "expect.body.columnDefinitions[2].description"
    assert known.is_prose({"path": path, "expected": "their words", "got": "our words"})
    assert not known.is_prose({"path": path, "expected": "their words", "got": "  "})
    assert not known.is_prose({"path": "expect.body.columnDefinitions[2].name", "expected": "Age", "got": "Old"})


def test_steps_are_named_by_pattern(tmp_path: Path) -> None:
    listed = tmp_path / "exceptions.yaml"
    listed.write_text('steps:\n  "area/case [one*]": why not\n')
    known = Exceptions.load(listed)
    assert known.reason("area/case", "one-more") == "why not"
    assert known.reason("area/case", "two") == ""


def test_an_exception_needs_a_reason(tmp_path: Path) -> None:
    listed = tmp_path / "exceptions.yaml"
    listed.write_text('steps:\n  "area/case [one]": ""\n')
    with pytest.raises(DevtoolsError, match="no reason"):
        Exceptions.load(listed)
