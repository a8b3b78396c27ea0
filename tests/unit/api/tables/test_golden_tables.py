"""Tables agree with those that a real kube-apiserver answered for the same objects."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from wharfinger.api import kinds
from wharfinger.api.codec import from_json
from wharfinger.api.tables import table_for

SHARED = Path(os.environ.get("WHARFINGER_SHARED", Path(__file__).parents[5] / "shared"))
CASES = SHARED / "golden" / "api" / "cases" / "tables"
NOW = 1_700_000_000.0
TIME = "2023-11-14T22:13:17Z"

if not CASES.is_dir():
    pytest.skip(f"the recorded tables are not at {CASES}", allow_module_level=True)


def _filled(value: Any) -> Any:
    """Replace the recording's placeholders by values that decode."""
    if isinstance(value, dict):
        return {key: _filled(item) for key, item in value.items() if not key.startswith("<")}
    if isinstance(value, list):
        return [_filled(item) for item in value]
    if value == "<time>":
        return TIME
    if value == "<microtime>":
        return TIME.replace("Z", ".000000Z")
    if isinstance(value, str) and re.fullmatch(r"<ip#\d+>", value):
        return "10.0.0.9"
    return value


def _cases() -> list[Any]:
    params = []
    for path in sorted(CASES.glob("*.yaml")):
        case = yaml.safe_load(path.read_text())
        known: dict[tuple[str, str], dict[str, Any]] = {}
        for step in case["steps"]:
            body = step.get("expect", {}).get("body")
            if not isinstance(body, dict):
                continue
            if body.get("columnDefinitions") and body.get("rows"):
                params.append(pytest.param(body, known, id=f"{path.stem}-{step['id']}"))
            elif "metadata" in body and "name" in body["metadata"] and body.get("kind"):
                known[(body["kind"], body["metadata"]["name"])] = body
            if step["request"]["method"] == "POST" and isinstance(step["request"].get("body"), dict):
                sent = step["request"]["body"]
                if "kind" in sent and body.get("kind") == "Table":
                    stamped = sent | {"metadata": sent["metadata"] | {"creationTimestamp": TIME}}
                    known[(sent["kind"], sent["metadata"]["name"])] = stamped
    return params


@pytest.mark.parametrize(("expected", "objects"), _cases())
def test_rows_are_those_of_kubernetes(expected: dict[str, Any], objects: dict[tuple[str, str], dict[str, Any]]) -> None:
    by_name = {name: body for (_, name), body in objects.items() if name}
    for row in expected["rows"]:
        partial = row.get("object") or {}
        name = (partial.get("metadata") or {}).get("name") or row["cells"][0]
        document = partial if "spec" in partial else by_name[name]
        kind = kinds.by_kind(document["apiVersion"], document["kind"])
        assert kind is not None
        table = table_for(kind)
        assert [(c.name, c.format, c.priority) for c in table.columns] == [
            (c["name"], c["format"], c["priority"]) for c in expected["columnDefinitions"]
        ]
        message = from_json(_filled(document), kind.message).message
        cells = table.row(message, NOW)
        assert len(cells) == len(row["cells"])
        for column, mine, theirs in zip(table.columns, cells, row["cells"], strict=True):
            if theirs in ("<age>", "<time>"):
                # A requested life is recorded as an age as well.
                assert mine == TIME or re.fullmatch(r"(\d+[smhdy])+", str(mine)), (column.name, mine)
            elif mine != "<text>":  # prose is not recorded in objects
                assert mine == theirs, column.name


def test_every_entry_of_the_table_loads() -> None:
    for kind in kinds.KINDS:
        if kind.resource:
            table = table_for(kind)
            assert len(table.row(kind.message(), NOW)) == len(table.columns), kind
