"""``-o custom-columns=NAME:.metadata.name,…`` and its file form (a line of headers, a line of paths)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wharfinger.api.jsonpath import JSONPathError, Template, go_number, relaxed
from wharfinger.cli.columns import ColumnWriter
from wharfinger.cli.failures import CommandError


class CustomColumns:
    """Columns that the user chose."""

    def __init__(self, spec: str, *, headers: bool = True) -> None:
        pairs = _from_file(spec) if "\n" in spec.strip() else _from_argument(spec)
        self.headers = [header for header, _ in pairs]
        try:
            self._templates = [Template(relaxed(path)) for _, path in pairs]
        except JSONPathError as error:
            raise CommandError(f"custom-columns {spec!r}: {error}") from error
        self._writer = ColumnWriter()
        self._header_due = headers

    def print(self, documents: Sequence[dict[str, Any]]) -> None:
        """Print rows, below the headers if these have not been printed yet."""
        rows = [self.headers] if self._header_due else []
        self._header_due = False
        self._writer.write([*rows, *(self._row(document) for document in documents)])

    def _row(self, document: dict[str, Any]) -> list[str]:
        cells = []
        for template in self._templates:
            try:
                values = template.values(document)
            except JSONPathError:
                # An index that this one object does not have is an empty cell, not the end of the table.
                values = []
            cells.append(",".join(_go_text(value) for value in values) or "<none>")
        return cells


def _from_argument(spec: str) -> list[tuple[str, str]]:
    pairs = []
    for part in spec.strip().split(","):
        header, colon, path = part.partition(":")
        if not colon or not path:
            raise CommandError(f"unexpected custom-columns spec: {part}, expected <header>:<json-path-expr>")
        pairs.append((header.strip(), path.strip()))
    return pairs


def _from_file(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        raise CommandError("a custom-columns file has two lines: the headers and the paths")
    headers, paths = lines[0].split(), lines[1].split()
    if len(headers) != len(paths):
        raise CommandError(f"number of headers ({len(headers)}) and field specifications ({len(paths)}) don't match")
    return list(zip(headers, paths, strict=True))


def _go_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_go_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(_go_text(item) for item in value) + "]"
    return go_number(value)
