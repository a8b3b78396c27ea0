"""The file of encryption at rest: private, usable, and never without the keys that something was written with."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from wharfinger import encryptionkeys
from wharfinger.api import encryption
from wharfinger.api.encryption import Transformer
from wharfinger.cli.pki import pki

KEY = "/registry/secrets/default/db"


def transformer(path: Path) -> Transformer:
    return Transformer(encryption.load(path))


def test_a_change_of_keys_step_by_step(tmp_path: Path) -> None:
    path = tmp_path / "encryption.yaml"
    assert encryptionkeys.ensure(path, plain=True) == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert transformer(path).seal(KEY, b"value") == b"value"
    before = transformer(path)
    assert encryptionkeys.ensure(path) == "values are written encrypted"
    assert encryptionkeys.ensure(path) == ""
    old = transformer(path).seal(KEY, b"value")
    assert old.startswith(b"k8s:enc:secretbox:v1:key1:")
    assert before.open(KEY, old) == b"value"  # a server that has the file of the step before

    assert encryptionkeys.use_newest(path) == ""
    assert encryptionkeys.add_key(path) == "key2"
    before = transformer(path)
    assert before.seal(KEY, b"").startswith(b"k8s:enc:secretbox:v1:key1:")
    assert encryptionkeys.use_newest(path) == "key2"
    after = transformer(path)
    new = after.seal(KEY, b"value")
    assert new.startswith(b"k8s:enc:secretbox:v1:key2:")
    assert before.open(KEY, new) == after.open(KEY, old) == b"value"
    assert encryptionkeys.drop_old(path) == ["key1"]
    assert encryptionkeys.drop_old(path) == []
    assert transformer(path).open(KEY, new) == b"value"
    assert encryptionkeys.add_key(path) == "key3"
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_others_wrote_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "encryption.yaml"
    path.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"
        "resources: [{resources: [secrets], providers: [{identity: {}}]}]\n"
    )
    for change in (encryptionkeys.ensure, encryptionkeys.add_key, encryptionkeys.use_newest, encryptionkeys.drop_old):
        with pytest.raises(encryptionkeys.EncryptionFileError, match="change it by hand"):
            change(path)
    path.write_text("kind: Pod\n")
    with pytest.raises(encryptionkeys.EncryptionFileError, match="apiVersion"):
        encryptionkeys.add_key(path)


def test_the_commands(tmp_path: Path) -> None:
    def run(*words: str) -> str:
        done = CliRunner().invoke(pki, ["encryption", *words, "--dir", str(tmp_path)], catch_exceptions=True)
        return done.output or str(done.exception)

    assert "does not exist; `wharf pki encryption init`" in run("add-key")
    assert "encryption.yaml written (new)" in run("init")
    assert "encryption.yaml kept" in run("init")
    assert "written (key2 added)" in run("add-key")
    assert "written (key2 writes)" in run("use-key")
    assert "written (key1 dropped)" in run("drop-keys")
    assert "secret" not in run("init")
