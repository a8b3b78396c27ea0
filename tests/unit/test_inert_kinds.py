"""docs/kubernetes.md tells of every kind whether something acts on it, and agrees with the schema."""

from __future__ import annotations

from pathlib import Path

from wharfinger.api import kinds

PAGE = (Path(__file__).parents[2] / "docs" / "kubernetes.md").read_text()


def _rows(title: str) -> dict[str, str]:
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    found: dict[str, str] = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] not in ("", "kinds", "---"):
            found.update(dict.fromkeys(cells[0].split(", "), cells[1]))
    return found


def test_what_is_only_stored() -> None:
    assert _rows("What is only stored") == {kind.kind: kind.inert for kind in kinds.KINDS if kind.inert}


def test_every_kind_that_is_served_is_told_of() -> None:
    acting = _rows("What acts")
    served = {kind.kind for kind in kinds.KINDS if kind.resource and not kind.inert and kind.kind != "ComponentStatus"}
    assert served - set(acting) == set()
    assert set(acting) & set(_rows("What is only stored")) == set()
