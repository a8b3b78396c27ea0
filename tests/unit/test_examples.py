"""The manifests that newcomers try first are taken as they are, without a complaint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.rules import build
from wharfinger.api import validation

EXAMPLES = Path(__file__).parents[2] / "examples"
DOCUMENTS = [
    pytest.param(document, id=f"{path.stem}-{number}")
    for path in sorted(EXAMPLES.glob("*.yaml"))
    for number, document in enumerate(yaml.safe_load_all(path.read_text()))
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_an_example_has_no_unknown_field_and_is_valid(document: dict[str, Any]) -> None:
    obj = build(f"{document['apiVersion']} {document['kind']}", document)
    assert [str(cause) for cause in validation.validate_create(obj)] == []


def test_every_example_is_told_of() -> None:
    told = (EXAMPLES / "README.md").read_text()
    assert [path.name for path in EXAMPLES.glob("*.yaml") if path.name not in told] == []
