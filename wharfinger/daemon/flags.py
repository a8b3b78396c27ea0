"""Values of command line flags that all daemons take, for argparse: what is wrong with one is said in its message."""

from __future__ import annotations

import argparse
from pathlib import Path

from wharfinger.api.durations import parse
from wharfinger.daemon.tls import TLSFiles


def boolean(text: str) -> bool:
    """Read a truth value as Go's flags take it."""
    if text.lower() in ("true", "t", "1"):
        return True
    if text.lower() in ("false", "f", "0"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def duration(text: str) -> float:
    """Read a duration such as ``1m30s``; returns seconds."""
    try:
        return parse(text) / 1e9
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 15s or 1m30s: {error}") from error


def tls_files(
    certificate: Path | str | None, key: Path | str | None, authority: Path | str | None
) -> TLSFiles | None:  # fmt: skip
    """Return what to serve TLS with; None without a certificate. Raises ValueError when one goes without the other."""
    if bool(certificate) != bool(key):
        raise ValueError("--tls-cert-file and --tls-private-key-file go together")
    if not certificate or not key:
        return None
    return TLSFiles(Path(certificate), Path(key), Path(authority) if authority else None)
