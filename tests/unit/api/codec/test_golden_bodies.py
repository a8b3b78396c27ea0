"""The bodies of recorded requests: which could a real kube-apiserver decode, and which fields did it not know?"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from wharfinger.api import codec, kinds
from wharfinger.api.errors import BadRequestError

SHARED = Path(os.environ.get("WHARFINGER_SHARED", Path(__file__).parents[5] / "shared"))
CASES = SHARED / "golden" / "api" / "cases"
AREAS = ("validation", "fieldvalidation", "defaults")


def _kind(path: str) -> kinds.Kind | None:
    _, root, *parts = path.split("/")
    group, version, rest = ("", parts[0], parts[1:]) if root == "api" else (parts[0], parts[1], parts[2:])
    rest = rest[2:] if rest[0] == "namespaces" and len(rest) > 2 else rest
    return kinds.by_resource(group, version, rest[0]) if len(rest) == 1 else None


def _steps() -> Iterator[Any]:
    for area in AREAS:
        for file in sorted((CASES / area).glob("*.yaml")):
            for step in yaml.load(file.read_text(), Loader=yaml.CSafeLoader)["steps"]:
                request = step["request"]
                kind = _kind(request["path"])
                body = request.get("body")
                if request["method"] == "POST" and kind is not None and body is not None and "from" not in request:
                    yield pytest.param(kind, request, step["expect"], id=f"{area}-{file.stem}-{step['id']}")


@pytest.mark.skipif(not CASES.is_dir(), reason="the golden conversations are not beside this checkout")
@pytest.mark.parametrize(("kind", "request_", "expect"), list(_steps()) if CASES.is_dir() else [])
def test_recorded_body(kind: kinds.Kind, request_: dict[str, Any], expect: dict[str, Any]) -> None:
    body = request_["body"]
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    validation = (request_.get("query") or {}).get("fieldValidation", "Warn")
    if expect["status"] == 400:
        with pytest.raises(BadRequestError):
            codec.from_json(data, kind.message, validation=validation)
        return
    decoded = codec.from_json(data, kind.message, validation=validation)
    # the server warns of more than fields: deprecations, names, fractions of bytes
    assert len(decoded.issues) <= len(expect.get("headers", {}).get("warning", []))
    again = codec.from_yaml(codec.to_yaml(codec.to_json(decoded.message)), kind.message, validation="Strict")
    assert codec.canonical_bytes(again.message) == codec.canonical_bytes(decoded.message)
