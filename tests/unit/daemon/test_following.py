"""Files that are replaced while we run."""

from __future__ import annotations

from pathlib import Path

import pytest

from wharfinger import pki
from wharfinger.daemon import ClientFiles, Follower


def renew(folder: Path) -> pki.Pair:
    pair = pki.issue_client(pki.ensure_ca(folder, "ca"), "me")
    pki.write_pair(folder, "c", pair)
    return pair


def test_a_pair_is_used_when_both_halves_are_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = renew(tmp_path)
    files = ClientFiles(tmp_path / "ca.crt", tmp_path / "c.crt", tmp_path / "c.key")
    read = []
    follower = Follower(lambda: files.paths, lambda: read.append(files.read()), what="test")
    follower.look()
    assert not read, "nothing has changed"
    second = pki.issue_client(pki.load_ca(tmp_path), "me")
    (tmp_path / "c.crt").write_bytes(second.cert)
    follower.look()
    assert not read
    assert not caplog.records, "the other half may be on its way"
    follower.look()
    follower.look()
    assert [record.message for record in caplog.records] == ["new files cannot be used"], "told once"
    (tmp_path / "c.key").write_bytes(second.key)
    follower.look()
    assert [pair.cert for pair in read] == [second.cert]
    follower.look()
    assert len(read) == 1
    (tmp_path / "c.crt").unlink()
    follower.look()
    assert len(read) == 1
    pki.write_pair(tmp_path, "c", first)
    follower.look()
    assert read[-1].key == first.key


def test_what_is_not_a_pair_is_refused(tmp_path: Path) -> None:
    renew(tmp_path)
    (tmp_path / "c.key").write_text("no key")
    with pytest.raises(ValueError, match="belong together"):
        ClientFiles(None, tmp_path / "c.crt", tmp_path / "c.key").read()
    with pytest.raises(FileNotFoundError):
        ClientFiles(tmp_path / "none", None, None).read()
