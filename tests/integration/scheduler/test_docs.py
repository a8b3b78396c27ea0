"""docs/scheduling.md: its commands are typed in order, and print what the page says.

On the page, ``…`` stands for anything within a line. Lines of the output that the page leaves out do not matter.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import started
from wharfinger.devtools.cluster import HOLLOW, Cluster, Settings

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "scheduling.md"
_CHANGING = ("create", "delete", "label")
SECONDS = 40.0
FLAGS = {HOLLOW: ["--node-status-report-frequency", "1s"]}
"""As on the page: agents learn new labels of their nodes when they look at their state."""


def steps(text: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a page and the lines that they print."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.strip():
                found[-1][1].append(line)
    return found


def missing(expected: list[str], printed: str) -> str:
    """Return the first line of the page that the output lacks, in order; empty when there is none."""
    rest = iter(" ".join(line.split()) for line in printed.splitlines())
    for line in expected:
        pattern = ".*?".join(re.escape(part) for part in " ".join(line.split()).split("…"))
        if not any(re.fullmatch(pattern, candidate) for candidate in rest):
            return line
    return ""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """What the page starts with."""
    with started(Settings(nodes=0, hollow=3, flags=FLAGS)) as made:
        yield made


def typed(cluster: Cluster, command: str) -> str:
    program, *arguments = shlex.split(command)
    assert program == "wharf"
    done = subprocess.run(
        [str(Path(sys.executable).parent / "wharf"), *arguments],
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}, cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 1), done.stderr  # 1: simulate says that a pod would fit nowhere
    assert done.returncode == 0 or arguments[0] not in _CHANGING, done.stderr
    return done.stdout


async def test_every_number_on_the_page(cluster: Cluster) -> None:
    found = steps(PAGE.read_text())
    assert len(found) > 15
    for command, expected in found:
        printed = await asyncio.to_thread(typed, cluster, command)
        if shlex.split(command)[1] in _CHANGING:
            continue
        deadline = asyncio.get_running_loop().time() + SECONDS
        while (lacking := missing(expected, printed)) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.2)  # what was changed before takes a moment to have its effect
            printed = await asyncio.to_thread(typed, cluster, command)
        assert not lacking, f"$ {command}\nprinted:\n{printed}\nand lacks:\n{lacking}"
