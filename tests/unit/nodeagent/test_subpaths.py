from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from nodeagent import subpaths
from nodeagent.subpaths import SubPathError, open_below


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    made = tmp_path / "volume"
    (made / "data").mkdir(parents=True)
    (made / "data" / "file").write_text("inside")
    (made / "within").symlink_to("data/file")
    (made / "out").symlink_to(tmp_path)
    (made / "loop").symlink_to("loop")
    made.chmod(0o2770)
    (tmp_path / "secret").write_text("outside")
    return made


def place(descriptor: int) -> Path:
    try:
        return Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(("below", "at"), [("data", "data"), ("within", "data/file"), ("./data//file", "data/file")])
def test_what_is_there(volume: Path, below: str, at: str) -> None:
    assert place(open_below(volume, below)) == volume / at


def test_what_is_missing_is_made_with_the_volumes_mode(volume: Path) -> None:
    before = os.umask(0o077)
    try:
        assert place(open_below(volume, "new/deep")) == volume / "new" / "deep"
    finally:
        os.umask(before)
    assert [stat.S_IMODE((volume / name).stat().st_mode) for name in ("new", "new/deep")] == [0o2770] * 2


@pytest.mark.parametrize("below", ["out", "out/secret", "../secret", "/etc", "loop", "data/file/x", "data/../../x"])
def test_what_leads_out_or_nowhere(volume: Path, below: str) -> None:
    open_before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SubPathError, match="subPath"):
        open_below(volume, below)
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_folder_that_becomes_a_link_after_the_check(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = subpaths._step

    def swapped(at: int, part: str, mode: int) -> int:
        (volume / "data").rename(volume / "moved")
        (volume / "data").symlink_to(volume.parent)
        return step(at, part, mode)

    monkeypatch.setattr(subpaths, "_step", swapped)
    with pytest.raises(SubPathError, match="become a link"):
        open_below(volume, "data")


def test_folder_that_is_swapped_after_it_was_opened(volume: Path) -> None:
    descriptor = open_below(volume, "data")
    (volume / "data").rename(volume / "moved")
    (volume / "data").symlink_to(volume.parent)
    assert place(descriptor) == volume / "moved"


@pytest.mark.parametrize("earlier", ["folder", "file"])
def test_place_takes_the_kind_of_what_is_bound(volume: Path, monkeypatch: pytest.MonkeyPatch, earlier: str) -> None:
    seen = []
    monkeypatch.setattr(subpaths, "bind", lambda descriptor, target: seen.append((target.is_dir(), target.is_file())))
    monkeypatch.setattr(subpaths, "unmount", lambda target: False)
    target = volume.parent / "pod" / "0"
    order = ["data", "within"] if earlier == "folder" else ["within", "data"]
    for below in order:
        assert subpaths.pin(volume, below, target) == target
    assert sorted(seen) == [(False, True), (True, False)]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_bound_and_bound_again_and_taken_off(volume: Path) -> None:
    target = volume.parent / "pod" / "0"
    try:
        subpaths.pin(volume, "data", target)
    except PermissionError:
        pytest.skip("this machine does not let root mount")
    try:
        assert (target / "file").read_text() == "inside"
        subpaths.pin(volume, "within", target)
        assert target.read_text() == "inside"
    finally:
        while subpaths.unmount(target):
            pass
    assert target.read_text() == ""
