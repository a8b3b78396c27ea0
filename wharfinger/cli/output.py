"""``-o``: how objects are printed when not as a table.

Everything here works on plain JSON values, the form in which templates and columns address fields.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from wharfinger.cli.failures import CommandError

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from wharfinger.client.raw import RawObject

FORMATS = (
    "custom-columns", "custom-columns-file", "json", "jsonpath", "jsonpath-as-json", "jsonpath-file", "name", "wide",
    "yaml",
)  # fmt: skip
_WITH_TEMPLATE = {"custom-columns", "custom-columns-file", "jsonpath", "jsonpath-as-json", "jsonpath-file"}


@dataclass(frozen=True)
class Output:
    """A parsed ``-o``."""

    format: str = ""
    """Empty: the command's usual words (a table, ``pod/web created``)."""
    template: str = ""

    @property
    def table(self) -> bool:
        """Whether objects are shown as a table."""
        return self.format in ("", "wide")

    @property
    def wide(self) -> bool:
        """Whether the table has all its columns."""
        return self.format == "wide"


def parse_output(text: str | None, *, allowed: Sequence[str] = FORMATS) -> Output:
    """Read the value of ``-o``. CommandError for a format that does not exist, or lacks its template."""
    if not text:
        return Output()
    name, _, template = text.partition("=")
    if name not in allowed:
        raise CommandError(
            f'unable to match a printer suitable for the output format "{name}", '
            f"allowed formats are: {','.join(allowed)}"
        )
    if name in _WITH_TEMPLATE and not template:
        raise CommandError(f"template format specified but no template given (-o {name}=…)")
    if name.endswith("-file"):
        try:
            template = Path(template).read_text()
        except OSError as error:
            raise CommandError(f"error reading {name} {template}: {error.strerror}") from error
        return Output(name.removesuffix("-file"), template)
    return Output(name, template)


def document_of(obj: Message, *, managed_fields: bool = False) -> dict[str, Any]:
    """Return an object as JSON values."""
    from wharfinger.api.codec import to_json

    document: dict[str, Any] = to_json(obj)
    if not managed_fields:
        document.get("metadata", {}).pop("managedFields", None)
    return document


def document_of_raw(raw: RawObject) -> dict[str, Any]:
    """Return what the server answered as JSON values, whatever its encoding."""
    if raw.content_type == "application/json":
        document: dict[str, Any] = orjson.loads(raw.data)
    else:
        from wharfinger.api import kinds

        kind = kinds.by_kind(raw.api_version, raw.kind)
        if kind is None:
            raise CommandError(f"the server answered with an unknown kind {raw.kind} of {raw.api_version}")
        document = document_of(kind.message.FromString(raw.data), managed_fields=True)
    document.get("metadata", {}).pop("managedFields", None)
    return document


def name_of(document: dict[str, Any]) -> str:
    """Return ``pod/web`` or ``deployment.apps/web``, as ``-o name`` prints it."""
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    kind = str(document.get("kind", "")).lower()
    return f"{kind}{'.' + group if group else ''}/{document.get('metadata', {}).get('name', '')}"


class DocumentPrinter:
    """Prints documents in one of the formats that are no table."""

    def __init__(self, output: Output, *, headers: bool = True) -> None:
        self.output = output
        self.headers = headers
        self._printed = 0
        if output.format in ("jsonpath", "jsonpath-as-json"):
            from wharfinger.api.jsonpath import JSONPathError, Template

            try:
                self._template = Template(output.template)
            except JSONPathError as error:
                raise CommandError(f"error parsing jsonpath {output.template}, {error}") from error
        elif output.format == "custom-columns":
            from wharfinger.cli.customcolumns import CustomColumns

            self._columns = CustomColumns(output.template, headers=headers)

    def print_list(self, documents: Sequence[dict[str, Any]]) -> None:
        """Print several objects as one answer: as a List, or one after the other where that is the format's way."""
        if self.output.format == "name":
            for document in documents:
                self.print(document)
        elif self.output.format == "custom-columns":
            self._columns.print(documents)
        else:
            items = list(documents)
            self.print({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})

    def print(self, document: dict[str, Any]) -> None:
        """Print one object."""
        write = sys.stdout.write
        kind = self.output.format
        if kind == "name":
            write(name_of(document) + "\n")
        elif kind == "json":
            write(dump_json(document))
        elif kind == "yaml":
            write(("---\n" if self._printed else "") + dump_yaml(document))
        elif kind == "custom-columns":
            self._columns.print([document])
        else:
            self._print_template(document)
        self._printed += 1

    def _print_template(self, document: dict[str, Any]) -> None:
        from wharfinger.api.jsonpath import JSONPathError

        try:
            if self.output.format == "jsonpath":
                sys.stdout.write(self._template.render(document))
            else:
                sys.stdout.write(dump_json(self._template.values(document)))
        except JSONPathError as error:
            raise CommandError(f"error executing jsonpath {self.output.template!r}: {error}") from error


def dump_json(value: Any) -> str:
    """Write JSON as kubectl does: indented by four, keys sorted."""
    import json

    return json.dumps(value, indent=4, sort_keys=True, ensure_ascii=False) + "\n"


def dump_yaml(value: Any) -> str:
    """Write YAML as kubectl does: keys sorted, lists not indented, what YAML 1.1 would misread in quotes."""
    from wharfinger.api.codec.manifests import dump

    return dump(value)
