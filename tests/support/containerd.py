"""A real containerd for tests: started in a temporary folder, gone without a trace afterwards."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.devtools.containerd import NodeRuntime, Switch

if TYPE_CHECKING:
    from collections.abc import Iterator


def why_not() -> str:
    """Return why this machine cannot run containers for tests; empty when it can."""
    if os.geteuid() != 0:
        return "needs root"
    for program in ("containerd", "ctr", "runc", "ip", "nsenter"):
        if shutil.which(program) is None:
            return f"needs {program}"
    return ""


@contextlib.contextmanager
def node_runtimes(count: int = 1) -> Iterator[list[NodeRuntime]]:
    """Start `count` containerds, each in a network namespace of its own on a switch of their own."""
    mark = secrets.token_hex(2)
    second = 64 + secrets.randbelow(128)
    third = secrets.randbelow(256)
    switch = Switch(name=f"wt{mark}", network=f"10.{second}.{third}.0/24")
    folder = Path(tempfile.mkdtemp(prefix="wharf-node-"))
    nodes: list[NodeRuntime] = []
    try:
        for index in range(1, count + 1):
            pod_cidr = f"10.{second}.{(third + index) % 256}.0/24"
            node = NodeRuntime.prepare(
                folder / f"n{index}", name=f"{mark}-{index}", index=index, pod_cidr=pod_cidr, switch=switch
            )
            nodes.append(node)
            node.start()
        yield nodes
    finally:
        for node in nodes:
            node.purge()
        switch.down()
        shutil.rmtree(folder, ignore_errors=True)
