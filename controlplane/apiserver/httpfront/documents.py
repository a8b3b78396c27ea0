"""``/openapi``: documents that are made when somebody first asks, in another thread, and kept.

The index of v3 names each document with a hash of its bytes, so that clients know when to ask again.
"""

from __future__ import annotations

import asyncio
from hashlib import sha512
from typing import TYPE_CHECKING

import orjson

from controlplane.apiserver import version
from controlplane.apiserver.httpfront import media
from controlplane.apiserver.httpfront.calls import Reply
from controlplane.apiserver.request import JSON
from wharfinger.api import openapi

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.apiserver.httpfront.discovery import Discovery


class Documents:
    """Makes and keeps the documents."""

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery
        self._made: dict[str, bytes] = {}
        self._lock = asyncio.Lock()

    def follow(self, discovery: Discovery) -> None:
        """Describe what is served now; documents of groups that have not changed are kept."""
        before, self._discovery = self._discovery, discovery
        kept = {}
        for path, pair in self._paths().items():
            if path in self._made and before.kinds(*pair) == discovery.kinds(*pair):
                kept[path] = self._made[path]
        self._made = kept

    async def serve(self, rest: Sequence[str], accept: str) -> Reply | None:
        """Return the answer for a path below /openapi; None when there is none. Raises NotAcceptableError."""
        if not rest or rest[0] not in ("v2", "v3"):
            return None
        wanted = {clause.media for clause in media.clauses(accept)}
        if list(rest) == ["v2"] and wanted & openapi.BINARY_ACCEPTED:
            return Reply(200, await self._document("v2 binary"), openapi.BINARY)
        if wanted and not wanted & {JSON, "*/*", "application/*"}:
            raise media.not_acceptable()
        if list(rest) == ["v2"]:
            return Reply(200, await self._document("v2"), JSON)
        if rest[0] == "v2":
            return None
        if len(rest) == 1:
            return Reply(200, await self._index(), JSON)
        path = "/".join(rest[1:])
        if path not in self._paths():
            return None
        return Reply(200, await self._document(path), JSON)

    def _paths(self) -> dict[str, tuple[str, str]]:
        return _paths(self._discovery)

    async def _index(self) -> bytes:
        async with self._lock:
            made = self._made
            if "" not in made:
                made[""] = await asyncio.to_thread(self._make_index, made)
        return made[""]

    def _make_index(self, made: dict[str, bytes]) -> bytes:
        paths = {}
        discovery = self._discovery
        for path in _paths(discovery):
            document = made.get(path) or made.setdefault(path, self._make(path, discovery))
            mark = sha512(document).hexdigest().upper()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={mark}"}
        return orjson.dumps({"paths": paths})

    async def _document(self, path: str) -> bytes:
        async with self._lock:
            made = self._made  # replaced when what is served changes meanwhile
            if path not in made:
                made[path] = await asyncio.to_thread(self._make, path, self._discovery)
        return made[path]

    def _make(self, path: str, discovery: Discovery) -> bytes:
        if path.startswith("v2"):
            every = [kind for pair in discovery.group_versions() for kind in discovery.kinds(*pair)]
            document = openapi.v2_document(every, version=version.GIT_VERSION)
            return openapi.encode_binary(document) if path.endswith("binary") else orjson.dumps(document)
        top, _, rest = path.partition("/")
        group, _, group_version = rest.rpartition("/") if top == "apis" else ("", "", rest)
        served = discovery.kinds(group, group_version)
        return orjson.dumps(openapi.v3_document(served, version=version.GIT_VERSION))


def _paths(discovery: Discovery) -> dict[str, tuple[str, str]]:
    """Return the path of each group version's document."""
    return {
        f"apis/{group}/{name}" if group else f"api/{name}": (group, name) for group, name in discovery.group_versions()
    }
