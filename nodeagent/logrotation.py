"""Keeps containers' logs small: renames a full one, lets the runtime open a new one, drops the oldest."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from nodeagent.logs import files_of
from nodeagent.runtime import ContainerState, Runtime, RuntimeFailure

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0


class LogRotation:
    """Looks at the logs of all running containers every ten seconds, as kubelet does."""

    def __init__(self, runtime: Runtime, *, max_size: int, max_files: int, look_seconds: float = LOOK_SECONDS) -> None:
        """`max_size` in bytes; `max_files` counts the one that is written."""
        self._runtime = runtime
        self._max_size = max_size
        self._max_files = max_files
        self._look_seconds = look_seconds
        self._paths: dict[str, Path] = {}

    async def run(self) -> None:
        """Rotate until cancelled."""
        while True:
            await asyncio.sleep(self._look_seconds)
            try:
                await self.look()
            except RuntimeFailure as error:
                log.debug("logs not looked at", extra={"error": str(error)})
            except Exception:  # without this task logs would grow until the disk is full
                log.exception("logs not looked at, on a fault of ours")

    async def look(self) -> None:
        """Rotate what is full. Raises RuntimeFailure when the runtime cannot say what runs."""
        running: set[str] = set()
        for uid, pod in (await self._runtime.list_pods()).items():
            listed = {record.id for record in pod.containers if record.state is ContainerState.RUNNING}
            running |= listed
            if listed - self._paths.keys():
                for record in (await self._runtime.inspect(uid)).containers:
                    if record.id in listed and record.log_path:
                        self._paths[record.id] = Path(record.log_path)
        for gone in self._paths.keys() - running:
            del self._paths[gone]
        for ident, path in list(self._paths.items()):
            if _size(path) >= self._max_size:
                try:
                    await self._rotate(ident, path)
                except (RuntimeFailure, OSError) as error:  # that of the others can be rotated all the same
                    log.warning("a log was not rotated", extra={"file": str(path), "error": str(error)})

    async def _rotate(self, ident: str, path: Path) -> None:
        _drop_oldest(path, keep=self._max_files - 2)
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        renamed = _rename(path, f"{path.name}.{stamp}")
        try:
            await self._runtime.reopen_log(ident)
        except RuntimeFailure:
            _rename(renamed, path.name)  # else the container would write into a file that nobody looks for
            raise


def _rename(path: Path, name: str) -> Path:
    return path.rename(path.with_name(name))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _drop_oldest(path: Path, *, keep: int) -> None:
    old = files_of(path)[:-1]
    for file in old[: max(0, len(old) - keep)]:
        file.unlink(missing_ok=True)
