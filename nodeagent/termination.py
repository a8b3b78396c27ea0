"""The message that a container leaves behind when it ends.

Its file (``terminationMessagePath``) is a file of the node mounted into the container; the path of the node's file
stands in the container's annotations, so a restarted agent finds it, too. With the policy
FallbackToLogsOnError a container that failed without a message leaves the end of its log.
https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
"""

from __future__ import annotations

import os
from pathlib import Path

from nodeagent.runtime import TERMINATION_FILE_ANNOTATION, TERMINATION_POLICY_ANNOTATION, ContainerRecord

MAX_MESSAGE = 4096
"""Bytes."""
MAX_LOG_LINES = 80
MAX_LOG_BYTES = 2048


def termination_message(record: ContainerRecord) -> str:
    """Return the message of an ended container; the runtime's own when it left none."""
    message = _read_file(record.annotations.get(TERMINATION_FILE_ANNOTATION, ""))
    fallback = record.annotations.get(TERMINATION_POLICY_ANNOTATION) == "FallbackToLogsOnError"
    if not message and fallback and record.exit_code != 0 and record.log_path:
        message = _log_end(record.log_path)
    return message or record.message


def _read_file(path: str) -> str:
    if not path:
        return ""
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_MESSAGE).decode(errors="replace")
    except OSError:
        return ""  # no file, no message


def _log_end(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 4 * MAX_LOG_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return ""
    texts: list[bytes] = []
    for line in lines[-MAX_LOG_LINES:]:
        parts = line.split(b" ", 3)  # CRI: time, stream, tags, text
        if len(parts) == 4:
            texts.append(parts[3] + (b"\n" if parts[2] == b"F" else b""))
    return b"".join(texts)[-MAX_LOG_BYTES:].decode(errors="replace")
