"""Log lines: a message and named values, each on one line whatever they hold."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from wharfinger.daemon.logs import JSONFormatter, TextFormatter


def record(**extra: object) -> logging.LogRecord:
    made = logging.LogRecord("scheduler", logging.INFO, __file__, 1, "bound %d", (2,), None)
    made.__dict__.update(extra)
    return made


def test_text() -> None:
    line = TextFormatter().format(record(pod="default/web", error='two "words"\nand a line', empty=""))
    assert line.endswith('INFO scheduler bound 2 pod=default/web error="two \\"words\\"\\nand a line" empty=""')
    assert "\n" not in line


def test_json() -> None:
    entry = json.loads(JSONFormatter().format(record(pod="default/web", seconds=1.5)))
    assert entry.pop("ts").endswith("Z")
    assert entry == {"level": "info", "logger": "scheduler", "msg": "bound 2", "pod": "default/web", "seconds": 1.5}


@pytest.mark.parametrize("formatter", [TextFormatter(), JSONFormatter()])
def test_tracebacks_are_kept(formatter: logging.Formatter) -> None:
    made = record()
    try:
        raise ValueError("a fault")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert "ValueError: a fault" in formatter.format(made)
