"""Reading the span of a certificate agrees with a library that reads all of it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from wharfinger import pki
from wharfinger.daemon import validity


@pytest.mark.parametrize("days", [1, 365, 30_000], ids=["short", "usual", "beyond 2050"])
def test_agrees_with_cryptography(tmp_path: Path, days: int) -> None:
    ca = pki.ensure_ca(tmp_path, "test-ca", lifetime=timedelta(days=days))
    for pair in (ca, pki.issue_client(ca, "alice", ["b"] * 40, lifetime=timedelta(days=days))):
        found = validity.read(b"-----BEGIN EC PRIVATE KEY-----\nnot this\n" + pair.cert)
        certificate = pair.certificate
        assert found.serial == certificate.serial_number
        assert found.begins == certificate.not_valid_before_utc
        assert found.ends == certificate.not_valid_after_utc


@pytest.mark.parametrize("broken", [b"", b"-----BEGIN CERTIFICATE-----", b"nonsense"])
def test_what_is_none_is_refused(broken: bytes) -> None:
    with pytest.raises(ValueError, match="certificate"):
        validity.read(broken)


def test_a_cut_certificate_is_refused(tmp_path: Path) -> None:
    lines = pki.ensure_ca(tmp_path, "test-ca").cert.splitlines()
    with pytest.raises(ValueError, match="cut off"):
        validity.read(b"\n".join([*lines[:4], lines[-1]]))
