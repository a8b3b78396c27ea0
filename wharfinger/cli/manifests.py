"""Objects from files, folders and stdin, as the user wrote them.

A document keeps its JSON text: the server is the one that says which fields it does not know, so nothing is dropped
or corrected on the way. Lists (``kind: List``, ``PodList``) become their items. A document that cannot be used is
reported with its file, and the ones after it still go on.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from wharfinger.api import kinds
from wharfinger.api.kinds import Kind
from wharfinger.cli import customkinds
from wharfinger.cli.failures import CommandError

SUFFIXES = (".json", ".yaml", ".yml")
MAX_BYTES = 32 << 20
"""The largest file that is read; single objects are limited by the server to far less."""


@dataclass
class Manifest:
    """One object of a file."""

    document: dict[str, Any]
    source: str
    """The file's name, or ``STDIN``."""
    text: bytes | None = None
    """The very JSON text of the file, when it is JSON and has one object; keeps duplicate fields for the server."""

    @property
    def api_version(self) -> str:
        """Its apiVersion."""
        return str(self.document.get("apiVersion", ""))

    @property
    def kind_name(self) -> str:
        """Its kind, as written."""
        return str(self.document.get("kind", ""))

    @property
    def metadata(self) -> dict[str, Any]:
        """Its metadata; an empty dict when there are none."""
        value = self.document.get("metadata")
        return value if isinstance(value, dict) else {}

    @property
    def name(self) -> str:
        """Its name; empty with generateName."""
        return str(self.metadata.get("name") or "")

    @property
    def kind(self) -> Kind:
        """Its kind. CommandError, as kubectl says it, when the schema has no such kind."""
        found = kinds.by_kind(self.api_version, self.kind_name)
        if found is None and "." in self.api_version:
            found = customkinds.by_kind(self.api_version, self.kind_name)
        if found is None or not found.resource:
            raise CommandError(
                f'resource mapping not found for name: "{self.name}" namespace: "{self.metadata.get("namespace", "")}" '
                f'from "{self.source}": no matches for kind "{self.kind_name}" in version "{self.api_version}"\n'
                "ensure CRDs are installed first"
            )
        return found

    def namespace(self, default: str, *, explicit: str = "") -> str:
        """Return the namespace that the object goes to: its own, else `default`; empty for cluster-wide kinds.

        `explicit` is the namespace of the flag: an object that names another one is a mistake.
        """
        if not self.kind.namespaced:
            return ""
        own = str(self.metadata.get("namespace") or "")
        if explicit and own and own != explicit:
            raise CommandError(
                f'the namespace from the provided object "{own}" does not match the namespace "{explicit}". '
                f"You must pass '--namespace={own}' to perform this operation."
            )
        return own or explicit or default

    def json(self) -> bytes:
        """Return it as JSON text."""
        return self.text if self.text is not None else orjson.dumps(self.document)


@dataclass
class Broken:
    """A file or document that cannot be used, and why."""

    source: str
    reason: str


def read_all(files: Sequence[str], *, recursive: bool = False, verb: str = "") -> Iterator[Manifest | Broken]:
    """Yield the objects of files, folders and ``-``, in order; what cannot be used comes as Broken.

    With a `verb` it is a mistake when there are none, as in ``no objects passed to create``.
    """
    if not files:
        raise CommandError("must specify one of -f and -k")
    found = False
    for one in _read_files(files, recursive=recursive):
        found = True
        yield one
    if verb and not found:
        raise CommandError(f"no objects passed to {verb}")


def _read_files(files: Sequence[str], *, recursive: bool) -> Iterator[Manifest | Broken]:
    for name in files:
        if name == "-":
            yield from _parse(sys.stdin.buffer.read(MAX_BYTES + 1), "STDIN")
        elif name.startswith(("http://", "https://")):
            raise CommandError(
                f"{name}: wharf reads no manifests from the network; download it first, then use -f FILE"
            )
        else:
            for path in _files(name, recursive=recursive):
                try:
                    content = path.read_bytes()
                except OSError as error:
                    yield Broken(str(path), f'the path "{path}" cannot be read: {error.strerror}')
                    continue
                yield from _parse(content, str(path))


def _files(name: str, *, recursive: bool) -> list[Path]:
    path = Path(name)
    if not path.exists():
        raise CommandError(f'the path "{name}" does not exist')
    if not path.is_dir():
        return [path]
    found: list[Path] = []
    for folder, folders, names in os.walk(path):
        folders.sort()
        if not recursive:
            folders.clear()
        found += [Path(folder) / one for one in sorted(names) if one.endswith(SUFFIXES)]
    if not found:
        raise CommandError(f"error reading [{name}]: recognized file extensions are [.json .yaml .yml]")
    return found


def _parse(content: bytes, source: str) -> Iterator[Manifest | Broken]:
    if len(content) > MAX_BYTES:
        yield Broken(source, f"{source} is larger than the {MAX_BYTES >> 20} MiB that are read")
        return
    if content.lstrip()[:1] == b"{":
        try:
            yield from _objects(orjson.loads(content), source, content)
            return
        except orjson.JSONDecodeError:
            # Several JSON objects one after the other, or YAML's flow style: read below.
            pass
    # Split first, as kubectl does: a mistake in one document does not hide the ones after it.
    parts = _SEPARATOR.split(content)
    for number, part in enumerate(parts, start=1):
        yield from _parse_part(part, source, f"{source} (document {number})" if len(parts) > 1 else source)


_SEPARATOR = re.compile(rb"^---(?:[ \t]*(?:#.*)?)?$\n?", re.MULTILINE)


def _parse_part(content: bytes, source: str, shown: str) -> Iterator[Manifest | Broken]:
    from wharfinger.api.codec.manifests import load_manifests
    from wharfinger.api.errors import StatusError

    try:
        documents = load_manifests(content)
    except (StatusError, ValueError) as error:
        yield Broken(source, f"error parsing {shown}: {error}")
        return
    for document in documents:
        yield from _objects(document, source, None)


def _objects(document: Any, source: str, text: bytes | None) -> Iterator[Manifest | Broken]:
    if document is None:
        return
    if not isinstance(document, dict):
        yield Broken(source, f"unable to decode {_shown(source)}: an object is expected, not {_type(document)}")
        return
    for field in ("kind", "apiVersion"):
        if not isinstance(document.get(field), str) or not document[field]:
            yield Broken(
                source, f"error validating {_shown(source)}: error validating data: {field} not set"
            )  # fmt: skip
            return
    items = document.get("items")
    if document["kind"].endswith("List") and isinstance(items, list):
        for item in items:
            if isinstance(item, dict) and document["kind"] != "List":
                # The items of a typed list may leave out what the list says for them.
                item = {"apiVersion": document["apiVersion"], "kind": document["kind"][: -len("List")], **item}
            yield from _objects(item, source, None)
        return
    yield Manifest(document, source, text)


def _shown(source: str) -> str:
    return f'"{source}"'


def _type(value: Any) -> str:
    return {str: "a string", list: "a list", bool: "a boolean", int: "a number", float: "a number"}.get(
        type(value), type(value).__name__
    )
