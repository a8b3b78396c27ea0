"""Ends of certificates: how loudly they are told of, and the metric."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path

import pytest

from wharfinger import pki
from wharfinger.daemon import validity
from wharfinger.daemon.certificates import EXPIRATION, CertificateWatch, level_of

DAY = 86_400.0


def test_levels(tmp_path: Path) -> None:
    ca = pki.ensure_ca(tmp_path, "ca")
    certificate = validity.read(pki.issue_client(ca, "me", lifetime=timedelta(days=365)).cert)
    end = certificate.ends.timestamp()
    assert [level_of(certificate, end - days * DAY) for days in (60, 31, 29, 8, 6, -1)] == [
        None, None, logging.WARNING, logging.WARNING, logging.ERROR, logging.ERROR,
    ]  # fmt: skip
    short = validity.read(pki.issue_client(ca, "me", lifetime=timedelta(hours=1)).cert)
    assert level_of(short, short.ends.timestamp() - 3 * 3600) is None


def test_it_is_said_once_a_day_and_again_after_a_renewal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ca = pki.ensure_ca(tmp_path, "ca")
    life = timedelta(days=100)
    pki.write_pair(tmp_path, "c", pki.issue_client(ca, "me", lifetime=life))
    now = [0.0]
    watch = CertificateWatch({"client": tmp_path / "c.crt", "none": None}, clock=lambda: now[0])
    end = pki.read_pair(tmp_path, "c").certificate.not_valid_after_utc.timestamp()
    for days, said in ((50, 0), (9, 1), (8.9, 1), (7.8, 2)):
        now[0] = end - days * DAY
        watch.look()
        assert len(caplog.records) == said, days
    assert EXPIRATION.labels("client")._value.get() == end
    pki.write_pair(tmp_path, "c", pki.issue_client(ca, "me", lifetime=life * 2))
    watch.look()
    assert len(caplog.records) == 2
    (tmp_path / "c.crt").unlink()
    watch.look()
    assert "cannot be read" in caplog.records[-1].message
