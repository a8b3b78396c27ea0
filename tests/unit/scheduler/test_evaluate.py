"""The recorded decisions of the real kube-scheduler, as far as the plugins that decide them are built."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controlplane.scheduler.evaluate import compare, needs, read_cases

SHARED = Path(os.environ.get("WHARFINGER_SHARED", Path(__file__).parents[4] / "shared"))
FILES = sorted((SHARED / "golden" / "scheduler").glob("*.jsonl.gz"))
COMPLETE = {"resources", "taints", "nodeaffinity", "ports", "nodename", "imagelocality"}

pytestmark = pytest.mark.skipif(not FILES, reason=f"no recorded decisions below {SHARED}")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_recorded_decisions(path: Path) -> None:
    passed = 0
    problems: list[str] = []
    for case in read_cases(path):
        if needs(case):
            assert path.name.split(".")[0] not in COMPLETE, f"{case['name']} needs {needs(case)}"
            continue
        found = compare(case)
        problems += [f"{case['name']}: {problem}" for problem in found]
        passed += not found
    assert not problems
    assert passed or path.name.split(".")[0] not in COMPLETE
