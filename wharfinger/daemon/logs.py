"""Structured logs on standard error: one line an entry, a message and named values.

``log.info("bound", extra={"pod": "default/web", "node": "n1"})`` becomes, as text,
``2026-11-30T12:00:00.123Z INFO scheduler bound pod=default/web node=n1``, and as JSON one object with these keys.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Literal

Format = Literal["text", "json"]
FORMATS: tuple[Format, ...] = ("text", "json")

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _values(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _time(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


class TextFormatter(logging.Formatter):
    """``time LEVEL logger message key=value …``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line (more lines with a traceback)."""
        parts = [_time(record), record.levelname, record.name, record.getMessage()]
        for key, value in _values(record).items():
            text = str(value)
            if not text or any(char in text for char in ' "=\n'):
                text = json.dumps(text, ensure_ascii=False)
            parts.append(f"{key}={text}")
        line = " ".join(parts)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JSONFormatter(logging.Formatter):
    """One JSON object a line: ``ts``, ``level``, ``logger``, ``msg`` and the values."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        entry = {
            "ts": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
            **_values(record),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str, ensure_ascii=False)


def setup_logging(level: str = "INFO", fmt: Format = "text") -> None:
    """Send all logs of this process to standard error. Raises ValueError for an unknown level."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter() if fmt == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # These libraries log each step at DEBUG and INFO.
    for name in ("asyncio", "grpc", "aiohttp.access"):
        logging.getLogger(name).setLevel(logging.WARNING)
