"""The pod's own cgroup, the parent of its containers', for cgroup v1 and v2.

It holds the pod as a whole to its limits (also what no container is charged with, such as files in memory) and counts
its processes. The agent makes it before the sandbox and removes it after; what cannot be written is left to the
containers' own limits, with a word in the log.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from nodeagent.runtime import Resources

log = logging.getLogger(__name__)

ROOT = Path("/sys/fs/cgroup")
_BEST_EFFORT = "besteffort"
_MIN_SHARES = 2


def is_unified(root: Path = ROOT) -> bool:
    """Whether this is cgroup v2."""
    return (root / "cgroup.controllers").exists()


def hierarchies(root: Path = ROOT) -> list[Path]:
    """Return the top of each mounted hierarchy: one of v2, or one a controller of v1."""
    if is_unified(root):
        return [root]
    try:
        return [path for path in root.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []


def weight(shares: int) -> int:
    """Return v2's cpu.weight for v1's cpu.shares, by the runtimes' own formula."""
    return 1 + (shares - 2) * 9999 // 262_142 if shares else 100


def make_pod_cgroup(cgroup: str, resources: Resources, *, pids: int = 0, root: Path = ROOT) -> None:
    """Make a pod's cgroup with its limits; does nothing for an empty name."""
    if not cgroup:
        return
    try:
        if is_unified(root):
            _make_unified(root, cgroup, resources, pids)
        else:
            _make_split(root, cgroup, resources, pids)
    except OSError as error:
        log.warning("the pod's cgroup could not be set up", extra={"cgroup": cgroup, "error": str(error)})


def _make_split(root: Path, cgroup: str, resources: Resources, pids: int) -> None:
    for controller in ("cpu", "memory", "pids"):
        if (root / controller).is_dir():
            Path(f"{root / controller}{cgroup}").mkdir(parents=True, exist_ok=True)
    cpu, memory, processes = (Path(f"{root / name}{cgroup}") for name in ("cpu", "memory", "pids"))
    if cpu.parent.name == _BEST_EFFORT:
        (cpu.parent / "cpu.shares").write_text(str(_MIN_SHARES))
    (cpu / "cpu.shares").write_text(str(resources.cpu_shares))
    if resources.cpu_quota:
        (cpu / "cpu.cfs_period_us").write_text(str(resources.cpu_period))
        (cpu / "cpu.cfs_quota_us").write_text(str(resources.cpu_quota))
    if resources.memory_limit:
        (memory / "memory.limit_in_bytes").write_text(str(resources.memory_limit))
    if pids and processes.is_dir():
        (processes / "pids.max").write_text(str(pids))


def _make_unified(root: Path, cgroup: str, resources: Resources, pids: int) -> None:
    group = root
    for part in cgroup.strip("/").split("/"):
        with contextlib.suppress(OSError):  # one that is there already, or must not be delegated
            (group / "cgroup.subtree_control").write_text("+cpu +memory +pids")
        group = group / part
        group.mkdir(exist_ok=True)
    with contextlib.suppress(OSError):
        (group / "cgroup.subtree_control").write_text("+cpu +memory +pids")
    if group.parent.name == _BEST_EFFORT:
        (group.parent / "cpu.weight").write_text("1")
    (group / "cpu.weight").write_text(str(weight(resources.cpu_shares)))
    if resources.cpu_quota:
        (group / "cpu.max").write_text(f"{resources.cpu_quota} {resources.cpu_period}")
    if resources.memory_limit:
        (group / "memory.max").write_text(str(resources.memory_limit))
    if pids:
        (group / "pids.max").write_text(str(pids))


def remove_pod_cgroup(cgroup: str, root: Path = ROOT) -> None:
    """Remove a pod's cgroup with what is left below it; groups above it stay. Busy ones are left."""
    if not cgroup:
        return
    for top in hierarchies(root):
        group = Path(f"{top}{cgroup}")
        if not group.is_dir():
            continue
        for child in sorted((path for path in group.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts)):
            with contextlib.suppress(OSError):
                child.rmdir()
        with contextlib.suppress(OSError):
            group.rmdir()
