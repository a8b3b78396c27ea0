"""The pod's own cgroup, the parent of its containers', for cgroup v1 and v2.

The runtime makes it when it makes the first container; nobody but the agent removes it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def hierarchies(root: Path = ROOT) -> list[Path]:
    """Return the top of each mounted hierarchy: one of v2, or one a controller of v1."""
    if (root / "cgroup.controllers").exists():
        return [root]
    try:
        return [path for path in root.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []


def remove_pod_cgroup(cgroup: str, root: Path = ROOT) -> None:
    """Remove a pod's cgroup with what is left below it; empty groups above it stay. Busy ones are left."""
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
