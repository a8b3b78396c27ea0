"""The recorded decisions of the real kube-scheduler: verdicts, scores, winners, victims."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controlplane.scheduler.evaluate import compare, main, read_cases

SHARED = Path(os.environ.get("WHARFINGER_SHARED", Path(__file__).parents[4] / "shared"))
FILES = sorted((SHARED / "golden" / "scheduler").glob("*.jsonl.gz"))

pytestmark = pytest.mark.skipif(not FILES, reason=f"no recorded decisions below {SHARED}")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_recorded_decisions(path: Path) -> None:
    cases = list(read_cases(path))
    assert cases
    problems = [f"{case['name']}: {problem}" for case in cases for problem in compare(case)]
    assert not problems


def test_differences_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    path = next(path for path in FILES if path.name.startswith("preemption"))
    case = next(case for case in read_cases(path) if case["name"] == "preemption-077")
    assert not compare(case)
    case["expect"]["preemption"]["bestNodes"] = ["x"]
    case["expect"]["preemption"]["candidates"][0]["numPDBViolations"] = 3
    assert len(compare(case)) == 2
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().out.endswith(" passed, 0 failed\n")
