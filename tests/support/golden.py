"""Recorded conversations with a real kube-apiserver, as far as they can be held over the native API.

The recordings lie beside the checkout (``../shared/golden``, or where WHARFINGER_SHARED says); their README has the
format.
Here a step's HTTP request becomes a call of the raw client: JSON text in, so that decoding is judged, too.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from wharfinger.api import codec, errors, kinds
from wharfinger.client import Client, RawObject

_VARIABLE = re.compile(r"\$\{([^}]+)\}")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def shared() -> Path:
    """The folder of recordings; skips the test when there is none."""
    folder = Path(os.environ.get("WHARFINGER_SHARED") or Path(__file__).parents[3] / "shared")
    if not (folder / "golden").is_dir():
        pytest.skip(f"no recordings in {folder}: set WHARFINGER_SHARED")
    return folder


@dataclass
class Outcome:
    """What one step led to."""

    step: str
    expected: dict[str, Any]
    """As recorded: ``status`` and ``body``."""
    code: int
    body: dict[str, Any]


def causes(body: dict[str, Any]) -> list[tuple[str, str]]:
    """The fields and reasons of a Status' causes, in order."""
    found = (body.get("details") or {}).get("causes") or []
    return [(cause.get("field", ""), cause.get("reason", "")) for cause in found]


class Conversation:
    """One recorded case, replayed step by step."""

    def __init__(self, path: Path, client: Client) -> None:
        self._document = yaml.load(path.read_text(), _LOADER)
        self._client = client
        self.namespace = "g" + uuid.uuid4().hex[:9]
        self._values: dict[str, Any] = {"ns": self.namespace}

    async def run(self) -> list[Outcome]:
        """Hold the conversation; returns what came of each step that this front can express."""
        if self._document.get("namespace", True):
            await self._send("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        outcomes = []
        for step in self._document["steps"]:
            request = self._resolve(step["request"])
            body = request.get("body")
            if "from" in request:
                body = _merge(self._look_up(request["from"]), body or {})
            code, answer = await self._send(
                request["method"], request["path"], body, request.get("headers", {}).get("Content-Type", "")
            )
            self._values[step["id"]] = answer
            outcomes.append(Outcome(step["id"], step["expect"], code, answer))
        return outcomes

    async def _send(self, method: str, path: str, body: Any, content_type: str = "") -> tuple[int, dict[str, Any]]:
        group, version, resource, namespace, name, subresource = _address(path)
        kind = kinds.by_resource(group, version, resource)
        assert kind is not None, path
        raw = self._client.raw(kind)
        data = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        where = {"namespace": namespace, "name": name, "subresource": subresource}
        try:
            if method == "POST":
                return 201, _json(await raw.create(data, **where))
            if method == "PUT":
                return 200, _json(await raw.update(data, **where))
            if method == "PATCH":
                kind_of_patch = {"json-patch": "json", "merge-patch": "merge"}.get(
                    content_type.removeprefix("application/").removesuffix("+json"), "strategic"
                )
                return 200, _json(
                    await raw.patch(
                        name, patch=data, patch_type=kind_of_patch, namespace=namespace, subresource=subresource
                    )
                )
            return 200, _json(await raw.get(name, namespace=namespace, subresource=subresource))
        except errors.StatusError as error:
            return error.status_code, codec.to_json(error.to_status())

    def _resolve(self, node: Any) -> Any:
        if isinstance(node, dict):
            return {self._resolve(key): self._resolve(value) for key, value in node.items()}
        if isinstance(node, list):
            return [self._resolve(item) for item in node]
        if not isinstance(node, str):
            return node
        whole = _VARIABLE.fullmatch(node)
        return self._look_up(whole[1]) if whole else _VARIABLE.sub(lambda m: str(self._look_up(m[1])), node)

    def _look_up(self, path: str) -> Any:
        value: Any = self._values
        for part in path.split("."):
            value = value[int(part)] if isinstance(value, list) else value[part]
        return value


def _json(answer: RawObject) -> dict[str, Any]:
    kind = kinds.by_kind(answer.api_version, answer.kind)
    assert kind is not None
    shown: dict[str, Any] = codec.to_json(kind.message.FromString(answer.data))
    return shown


def _merge(base: Any, patch: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(patch, dict):
        return patch
    merged = {**base, **{key: _merge(base.get(key), value) for key, value in patch.items()}}
    return {key: value for key, value in merged.items() if value is not None}


def _address(path: str) -> tuple[str, str, str, str, str, str]:
    parts = path.strip("/").split("/")
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    return (group, version, *_padded(rest[:1], namespace, rest[1:]))


def _padded(resource: list[str], namespace: str, rest: list[str]) -> Iterator[str]:
    yield resource[0]
    yield namespace
    yield rest[0] if rest else ""
    yield "/".join(rest[1:])
