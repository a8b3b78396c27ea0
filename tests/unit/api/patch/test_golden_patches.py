"""The recorded PATCH conversations of a real kube-apiserver, replayed on its recorded objects without any server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from wharfinger.api import codec, patch
from wharfinger.api.errors import StatusError
from wharfinger.api.patch import PATCH_TYPES

SHARED = Path(os.environ.get("WHARFINGER_SHARED", Path(__file__).parents[5] / "shared"))
AREAS = ("patch", "fieldvalidation")
# decided after the patch, by code that knows more than one object
LATER = {400: "the name must not change", 404: "who is nobody", 409: "another version", 415: "no such type here"}


def _steps() -> Iterator[Any]:
    for area in AREAS:
        for file in sorted((SHARED / "golden" / "api" / "cases" / area).glob("*.yaml")):
            if file.stem == "custom-resources":
                continue
            objects: dict[str, Any] = {}
            for step in yaml.load(file.read_text(), Loader=yaml.CSafeLoader)["steps"]:
                request, expect = step["request"], step["expect"]
                path = request["path"].removesuffix("/status").removesuffix("/scale")
                body = expect.get("body")
                if request["method"] == "PATCH" and path in objects and not request["path"].endswith("/scale"):
                    media_type = request["headers"]["Content-Type"]
                    if media_type in PATCH_TYPES:
                        yield pytest.param(objects[path], step, id=f"{file.stem}-{step['id']}")
                dry_run = "dryRun" in (request.get("query") or {})
                if isinstance(body, dict) and body.get("kind") != "Status" and "metadata" in body and not dry_run:
                    name = body["metadata"].get("name", "")
                    objects[path if request["method"] != "POST" else f"{path}/{name}"] = body


def _real(value: Any) -> Any:
    """Put a value in place of each placeholder that would not be understood."""
    if isinstance(value, dict):
        return {name: _real(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_real(item) for item in value]
    return "2026-01-02T03:04:05Z" if value in ("<time>", "<microtime>") else value


def _beyond(got: Any, expected: Any, path: str = "") -> Iterator[str]:
    """Yield what a patched object has that the recorded one has not; the latter may have more, by defaulting."""
    if isinstance(got, dict) and isinstance(expected, dict):
        for name, item in got.items():
            if name in expected:
                yield from _beyond(item, expected[name], f"{path}.{name}")
            elif item not in (None, {}, []):
                yield f"{path}.{name}: {item!r} is not in the recorded object"
    elif isinstance(got, list) and isinstance(expected, list) and len(got) == len(expected):
        for index, (one, other) in enumerate(zip(got, expected, strict=True)):
            yield from _beyond(one, other, f"{path}[{index}]")
    elif got != expected and expected != "<text>":
        yield f"{path}: {got!r} instead of {expected!r}"


def _refusal(current: Any, data: bytes, media_type: str, validation: Any) -> StatusError | None:
    try:
        patch.apply(current, data, media_type, validation=validation)
    except StatusError as error:
        return error
    return None


@pytest.mark.skipif(not SHARED.is_dir(), reason="the golden conversations are not beside this checkout")
@pytest.mark.parametrize(("before", "step"), list(_steps()) if SHARED.is_dir() else [])
def test_recorded_patch(before: dict[str, Any], step: dict[str, Any]) -> None:
    request, expect = step["request"], step["expect"]
    current = codec.read_object(_real(before), validation="Strict").message
    body = request["body"]
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    validation = (request.get("query") or {}).get("fieldValidation", "Warn")
    media_type = request["headers"]["Content-Type"]
    if expect["status"] >= 400:
        status = expect["body"]
        refused = _refusal(current, data, media_type, validation)
        if refused is None:
            assert status["code"] in LATER or status["details"]["causes"][0]["field"] != "patch"
            return
        got = refused.to_status()
        assert (got.code, got.reason) == (status["code"], status.get("reason", "")), refused
        assert got.HasField("details") == ("details" in status)
        causes = [(cause.field, cause.reason) for cause in got.details.causes]
        assert causes == [(c["field"], c["reason"]) for c in status.get("details", {}).get("causes", [])]
        return
    decoded = patch.apply(current, data, media_type, validation=validation)
    assert len(decoded.issues) == len(expect.get("headers", {}).get("warning", []))
    got_json, expected = codec.to_json(decoded.message), _real(expect["body"])
    parts = ["status"] if request["path"].endswith("/status") else [part for part in got_json if part != "status"]
    for part in parts:
        if part == "metadata":
            for field in ("resourceVersion", "generation", "creationTimestamp"):  # the server's own
                got_json[part].pop(field, None)
        assert list(_beyond(got_json.get(part), expected.get(part), part)) == []
