"""Flags are read as Go reads them, and refused with what would be right."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from wharfinger.daemon import flags


def test_booleans_and_durations() -> None:
    assert [flags.boolean(text) for text in ("true", "T", "1", "False", "f", "0")] == [True] * 3 + [False] * 3
    assert flags.duration("1m30s") == 90.0
    with pytest.raises(argparse.ArgumentTypeError, match="'yes' is neither true nor false"):
        flags.boolean("yes")
    with pytest.raises(argparse.ArgumentTypeError, match="'5' is no duration such as 15s"):
        flags.duration("5")


def test_certificate_and_key_go_together() -> None:
    assert flags.tls_files(None, None, "ca") is None
    with pytest.raises(ValueError, match="go together"):
        flags.tls_files("cert", None, None)
    made = flags.tls_files("cert", "key", "ca")
    assert made is not None
    assert made.client_ca == Path("ca")
