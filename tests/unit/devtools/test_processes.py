"""A daemon in the background is found again by who it is, and by nobody else's process of the same id."""

import json
import sys
import time
from pathlib import Path

import pytest

from wharfinger.devtools.processes import ProcessTable

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_found_again_and_stopped(tmp_path: Path) -> None:
    before = time.time()
    started = ProcessTable(tmp_path).start("sleeper", SLEEPER)
    try:
        table = ProcessTable(tmp_path)
        assert table.running("sleeper") == started
        assert before <= started.started <= time.time()
        assert table.start("sleeper", SLEEPER).pid == started.pid, "it runs already"
    finally:
        assert table.stop("sleeper")
    assert table.running("sleeper") is None
    assert not table.stop("sleeper")


@pytest.mark.parametrize("change", [{"ticks": 1}, {"pid": 2**22 + 1}], ids=["other process", "no process"])
def test_another_process_of_that_id_is_not_ours(tmp_path: Path, change: dict[str, int]) -> None:
    table = ProcessTable(tmp_path)
    table.start("sleeper", SLEEPER)
    record = tmp_path / "run" / "sleeper.json"
    true = record.read_text()
    try:
        record.write_text(json.dumps({**json.loads(true), **change}))
        assert table.running("sleeper") is None
        assert not table.kill("sleeper")
    finally:
        record.write_text(true)
        assert table.kill("sleeper")


def test_a_process_that_an_older_version_started_is_known_by_its_command(tmp_path: Path) -> None:
    table = ProcessTable(tmp_path)
    started = table.start("sleeper", SLEEPER)
    record = tmp_path / "run" / "sleeper.json"
    entry = json.loads(record.read_text())
    del entry["ticks"]
    entry["created"] = entry.pop("started")
    try:
        record.write_text(json.dumps({**entry, "command": ["other"]}))
        assert table.running("sleeper") is None
    finally:
        record.write_text(json.dumps(entry))
        assert table.running("sleeper") == started
        assert table.stop("sleeper")
