"""``/healthz``, ``/livez`` and ``/readyz``: one check or all, named or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wharfinger.daemon import Check

PATHS = ("healthz", "livez", "readyz")
NOT_FOUND = "404 page not found\n"


def answer(
    parts: Sequence[str], checks: Sequence[Check], *, verbose: bool, exclude: Sequence[str] = ()
) -> tuple[int, str]:
    """Return code and text for a path, `parts` being its segments."""
    name = parts[0]
    chosen: dict[str, Check | None] = {"ping": None}
    chosen.update({check.name: check for check in checks if name == "readyz" or check.liveness})
    if len(parts) > 1 and parts[1:] != [""]:
        wanted = "/".join(parts[1:])
        if wanted not in chosen:
            return 404, NOT_FOUND
        chosen = {wanted: chosen[wanted]}
    lines, failed = [], False
    for label, check in chosen.items():
        if label in exclude:
            lines.append(f"[+]{label} excluded: ok")
            continue
        trouble = check.probe() if check is not None else None
        failed = failed or trouble is not None
        lines.append(f"[+]{label} ok" if trouble is None else f"[-]{label} failed: {trouble}")
    if failed:
        return 503, "\n".join([*lines, f"{name} check failed", ""])
    return 200, "\n".join([*lines, f"{name} check passed", ""]) if verbose else "ok"
