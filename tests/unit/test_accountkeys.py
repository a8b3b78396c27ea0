"""The keys of service accounts' tokens, step by step."""

from __future__ import annotations

from pathlib import Path

import pytest

from wharfinger import pki
from wharfinger.pki import accountkeys
from wharfinger.signingkeys import load_key, load_keys


def signing(folder: Path) -> str:
    return load_key(folder / "sa.key", private=True).id


def accepted(folder: Path) -> set[str]:
    keys = load_keys(folder / "sa.pub")
    assert all(key.private is None for key in keys)
    return {key.id for key in keys}


def test_a_key_is_changed(tmp_path: Path) -> None:
    pki.ensure_signing_key(tmp_path)
    old = signing(tmp_path)
    assert accepted(tmp_path) == {old}
    assert not accountkeys.use_newest(tmp_path)

    assert accountkeys.add_key(tmp_path)
    assert signing(tmp_path) == old, "it signs nothing before all know it"
    both = accepted(tmp_path)
    assert old in both
    assert len(both) == 2
    assert not accountkeys.add_key(tmp_path), "one at a time"
    assert accepted(tmp_path) == both

    assert accountkeys.use_newest(tmp_path)
    new = signing(tmp_path)
    assert {old, new} == both == accepted(tmp_path)
    assert (tmp_path / "sa.key").stat().st_mode & 0o077 == 0
    assert not accountkeys.use_newest(tmp_path)

    assert accountkeys.drop_old(tmp_path) == 1
    assert accepted(tmp_path) == {new}
    assert accountkeys.drop_old(tmp_path) == 0


def test_what_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(pki.PKIError, match="`wharf pki init` makes it"):
        accountkeys.add_key(tmp_path)
    pki.ensure_signing_key(tmp_path)
    accountkeys.add_key(tmp_path)
    public = (tmp_path / "sa.pub").read_bytes().split(b"-----END")[0] + b"-----END PUBLIC KEY-----\n"
    (tmp_path / "sa.pub").write_bytes(public)  # the first alone: the one that signs
    with pytest.raises(pki.PKIError, match="lacks the next key"):
        accountkeys.use_newest(tmp_path)
