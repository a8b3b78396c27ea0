"""What an archive from a container may write, and what it may not."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.cli.failures import CommandError
from wharfinger.cli.tarpipe import pack, prefix_of, unpack


class Source(io.RawIOBase):
    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        return self._data.readinto(buffer[:1000])


class Sink(io.RawIOBase):
    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.data += bytes(data)
        return len(data)


def archive(*names: str, kind: bytes = tarfile.REGTYPE, link: str = "", content: bytes = b"x") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for name in names:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            member.size = len(content) if kind == tarfile.REGTYPE else 0
            made.addfile(member, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize(
    ("path", "prefix"),
    [
        ("/var/log", "var/log"),
        ("var//log/", "var/log"),
        ("./x", "x"),
        ("../../x", "x"),
        ("/", ""),
        (".", ""),
        ("..", ""),
        ("a/../b", "a/../b"),
    ],
)
def test_prefixes(path: str, prefix: str) -> None:
    assert prefix_of(path) == prefix


def test_there_and_back(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "empty").mkdir(parents=True)
    (source / "deep" / "er").mkdir(parents=True)
    (source / "deep" / "er" / "file").write_bytes(os.urandom(200_000))
    (source / "run").write_bytes(b"#!")
    (source / "run").chmod(0o750)
    (source / "link").symlink_to("run")
    sink = Sink()
    pack(source, "name", sink)
    unpack(Source(sink.data), "name", tmp_path / "back")
    assert (tmp_path / "back" / "deep" / "er" / "file").read_bytes() == (source / "deep" / "er" / "file").read_bytes()
    assert (tmp_path / "back" / "empty").is_dir()
    assert (tmp_path / "back" / "run").stat().st_mode & 0o777 == 0o750
    assert not (tmp_path / "back" / "link").is_symlink()
    assert not (tmp_path / "back" / "link").exists()


def test_one_file(tmp_path: Path) -> None:
    unpack(Source(archive("etc/hosts")), "etc/hosts", tmp_path / "new" / "name")
    assert (tmp_path / "new" / "name").read_bytes() == b"x"
    unpack(Source(archive("etc/hosts")), "etc/hosts", tmp_path)
    assert (tmp_path / "hosts").read_bytes() == b"x", "into a folder that is there"


def test_what_is_not_asked_for_is_an_error(tmp_path: Path) -> None:
    for name in ("other", "etc/hostsandmore", "/abs"):
        with pytest.raises(CommandError, match="corrupted"):
            unpack(Source(archive(name)), "etc/hosts", tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


names = st.lists(st.sampled_from(["..", ".", "", "a", "b", "link", "\n", "é"]), min_size=1, max_size=6).map("/".join)


@settings(max_examples=200, deadline=None)
@given(paths=st.lists(names, max_size=5), kind=st.sampled_from([tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE]))
def test_nothing_is_written_outside(tmp_path_factory: pytest.TempPathFactory, paths: list[str], kind: bytes) -> None:
    top = tmp_path_factory.mktemp("t")
    outside, target = top / "outside", top / "target"
    outside.mkdir()
    target.mkdir()
    (target / "link").symlink_to(outside)
    data = archive(*(f"d/{path}" for path in paths), kind=kind, link=str(outside))
    with contextlib.suppress(CommandError, OSError):  # a refusal is fine, whatever else is in the archive
        unpack(Source(data), "d", target)
    assert sorted(path.name for path in top.iterdir()) == ["outside", "target"]
    assert list(outside.iterdir()) == []
    assert os.readlink(target / "link") == str(outside)
