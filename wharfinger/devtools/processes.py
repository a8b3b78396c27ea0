"""Daemons in the background: started, remembered in a file, found again by another process, stopped by their id.

A process id alone may belong to somebody else by the time it is used, so the kernel's start time is kept beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wharfinger.devtools.containerd import DevtoolsError

POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Running:
    """A process that was started and is alive."""

    pid: int
    command: Sequence[str]
    started: float
    """Seconds since the epoch."""


class ProcessTable:
    """The background processes of one folder: ``run/NAME.json`` and ``logs/NAME.log`` below it."""

    def __init__(self, directory: Path) -> None:
        self._run = directory / "run"
        self._logs = directory / "logs"

    def log_file(self, name: str) -> Path:
        """Where a daemon's output goes; appended to over restarts."""
        return self._logs / f"{name}.log"

    def names(self) -> list[str]:
        """Return every daemon that was ever started here and not forgotten."""
        return sorted(path.stem for path in self._run.glob("*.json"))

    def running(self, name: str) -> Running | None:
        """Return the live process of a daemon, or None."""
        try:
            entry: dict[str, Any] = json.loads((self._run / f"{name}.json").read_text())
            status, ticks = _state(entry["pid"])
        except (FileNotFoundError, ProcessLookupError):
            return None
        ours = ticks == entry["ticks"] if "ticks" in entry else _runs(entry["pid"], entry["command"])
        alive = ours and status != "Z"
        started = entry["started"] if "started" in entry else entry.get("created", 0.0)
        return Running(entry["pid"], entry["command"], started) if alive else None

    def start(self, name: str, command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> Running:
        """Start a daemon that outlives the caller; returns the running one when it runs already."""
        if (running := self.running(name)) is not None:
            return running
        self._run.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        started = time.time()
        with self.log_file(name).open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        entry = {"pid": process.pid, "ticks": _state(process.pid)[1], "started": started, "command": list(command)}
        (self._run / f"{name}.json").write_text(json.dumps(entry))
        return Running(process.pid, list(command), started)

    def signal(self, name: str, number: signal.Signals) -> bool:
        """Send a signal; return whether there was a process to send it to."""
        running = self.running(name)
        if running is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(running.pid, number)
        return True

    def stop(self, name: str, *, timeout: float = 15.0) -> bool:
        """End a daemon with SIGTERM, after `timeout` seconds with SIGKILL; return whether it ran."""
        if not self.signal(name, signal.SIGTERM):
            return False
        if not self._gone(name, timeout):
            self.kill(name)
        return True

    def kill(self, name: str) -> bool:
        """End a daemon with SIGKILL and wait until it is gone; return whether it ran."""
        if not self.signal(name, signal.SIGKILL):
            return False
        if not self._gone(name, 10.0):
            raise DevtoolsError(f"{name} did not end after SIGKILL")
        return True

    def forget(self, name: str) -> None:
        """Drop what is remembered of a daemon that has ended."""
        (self._run / f"{name}.json").unlink(missing_ok=True)

    def _gone(self, name: str, timeout: float) -> bool:
        try:
            return wait_until(lambda: self._reaped(name), timeout)
        except TimeoutError:
            return False

    def _reaped(self, name: str) -> bool:
        running = self.running(name)
        if running is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(running.pid, os.WNOHANG)
        return self.running(name) is None

    def wait_ready(self, name: str, probe: Callable[[], bool], *, timeout: float) -> None:
        """Wait until `probe` is content. Raises DevtoolsError with the end of the log when the daemon ends first."""

        def ready() -> bool:
            if self._reaped(name):
                raise DevtoolsError(f"{name} ended while starting; the end of its log:\n{self.tail(name)}")
            return probe()

        try:
            wait_until(ready, timeout)
        except TimeoutError:
            raise DevtoolsError(
                f"{name} was not ready after {timeout:g} s; the end of its log:\n{self.tail(name)}"
            ) from None

    def tail(self, name: str, size: int = 3000) -> str:
        """Return the end of a daemon's log."""
        path = self.log_file(name)
        return path.read_bytes()[-size:].decode(errors="replace") if path.exists() else "(no log)"


def _state(pid: int) -> tuple[str, int]:
    """Return a process's state letter and when it was started, in clock ticks since boot (see proc(5)).

    Ticks, with the id, name a process for good; a time of day would not, for the machine's clock may be set.
    Raises FileNotFoundError or ProcessLookupError when there is none.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[19])


def _runs(pid: int, command: Sequence[str]) -> bool:
    """Whether a process runs this command: how one is known that an older version of this file started."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return words[-len(command) :] == list(command)


def wait_until(condition: Callable[[], bool], timeout: float) -> bool:
    """Poll until `condition` holds. Raises TimeoutError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"a condition did not hold within {timeout:g} s")
        time.sleep(POLL_SECONDS)
    return True
