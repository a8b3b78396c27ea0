"""Durations on the command line, in Go's notation."""

from __future__ import annotations

from wharfinger.api import durations
from wharfinger.cli.failures import CommandError


def parse_duration(text: str, *, flag: str) -> float:
    """Read a duration; returns seconds. CommandError that names the flag."""
    try:
        return durations.parse(text) / 1e9
    except ValueError as error:
        raise CommandError(f'invalid argument "{text}" for "{flag}" flag: {error}') from error
