"""Files that others only ever see whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from wharfinger import wholefile


def test_it_is_there_with_its_rights_and_nothing_else_is(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    wholefile.write(path, b"1")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"1", 0o600)
    wholefile.write(path, b"2", mode=0o644, durable=False)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"2", 0o644)
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    wholefile.write(path, b"before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        wholefile.write(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
