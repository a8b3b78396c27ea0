"""``wharf explain``: what the fields of a kind mean.

Kinds of the schema are explained from the descriptors that wharf was built with, custom ones from their definition, as
the server has it. Both are made into OpenAPI first, as the server does for kubectl, so there is one way to walk.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from wharfinger.cli.failures import CommandError
from wharfinger.cli.session import Session, command
from wharfinger.cli.targets import find_kind

if TYPE_CHECKING:
    from wharfinger.api.kinds import Kind

_WIDTH = 80
_REFERENCE = "#/components/schemas/"
Schema = Mapping[str, Any]


@command()
@click.argument("path", metavar="TYPE[.FIELD…]")
@click.option("--recursive", is_flag=True, help="Also the fields of fields, without descriptions.")
@click.option("--api-version", default="", metavar="VERSION", help="Which version of the kind, such as autoscaling/v1.")
async def explain(session: Session, *, path: str, recursive: bool, api_version: str) -> None:
    """Explain a kind or a field of it.

    \b
      wharf explain pod
      wharf explain deployment.spec.strategy
      wharf explain cronjob.spec --recursive
    """
    name, *fields = path.split(".")
    kind = _kind(name, api_version)
    definitions, root = await _described(session, kind)
    sys.stdout.write("".join(render(kind, definitions, root, fields, recursive=recursive)))


def _kind(name: str, api_version: str) -> Kind:
    if not api_version:
        return find_kind(name)
    group, _, version = api_version.rpartition("/")
    kind = find_kind(f"{name}.{version}.{group}" if group else name)
    if kind.api_version != api_version:
        raise CommandError(f"couldn't find resource for {name} in version {api_version}")
    return kind


async def _described(session: Session, kind: Kind) -> tuple[dict[str, Schema], str]:
    """Return the definitions that a kind needs, and the name of its own."""
    from wharfinger.api.codec.schema import descriptor_of
    from wharfinger.api.openapi.customs import CustomModel
    from wharfinger.api.openapi.schemas import Schemas

    schemas = Schemas(v3=True)
    if kind.described:
        reference = schemas.reference(descriptor_of(kind.message))
    else:
        from wharfinger.api.custom import kind_of
        from wharfinger.api.types import apiextensions

        async with session.client() as client:
            definition = await client.resource(apiextensions.CustomResourceDefinition).get(kind.group_resource)
        version = next((one for one in definition.spec.versions if one.name == kind.version), None)
        if version is None:
            raise CommandError(f"the definition of {kind.group_resource} has no version {kind.version} any more")
        whole = kind_of(definition, version, names=definition.status.acceptedNames)
        reference = schemas.of_custom(CustomModel(whole))
    return schemas.definitions, reference["$ref"].removeprefix(_REFERENCE)


def render(
    kind: Kind, definitions: Mapping[str, Schema], root: str, fields: list[str], *, recursive: bool
) -> Iterator[str]:
    """Yield the text, as kubectl lays it out. Raises CommandError for a field that is not there."""
    schema, parent, name = definitions[root], None, ""
    for name in fields:
        parent = _object(schema, definitions)
        properties = parent.get("properties") or {}
        if name not in properties:
            raise CommandError(f'field "{name}" does not exist')
        schema = properties[name]
    if kind.group:
        yield f"GROUP:      {kind.group}\n"
    yield f"KIND:       {kind.kind}\nVERSION:    {kind.version}\n\n"
    if parent is not None:
        yield f"FIELD: {name} <{_type(schema, definitions)}>{_required(name, parent)}\n\n"
    yield from _enum(schema, "")
    yield "\nDESCRIPTION:\n" if parent is not None else "DESCRIPTION:\n"
    inner = _object(schema, definitions)
    yield _wrapped(_text(schema) or _text(inner) or "<empty>", 4)
    properties = inner.get("properties") or {}
    if properties:
        yield "FIELDS:\n"
        yield from _fields(inner, definitions, indent=2, recursive=recursive, seen=(root,))
    yield "\n"


def _fields(
    schema: Schema, definitions: Mapping[str, Schema], *, indent: int, recursive: bool, seen: tuple[str, ...]
) -> Iterator[str]:
    blank = " " * indent
    for name, field in sorted((schema.get("properties") or {}).items()):
        yield f"{blank}{name}\t<{_type(field, definitions)}>{_required(name, schema)}\n"
        if not recursive:
            yield from _enum(field, blank)
            yield _wrapped(_text(field) or _text(_object(field, definitions)) or "<no description>", indent + 2) + "\n"
            continue
        below = _name(field)
        if below not in seen:
            inner = _object(field, definitions)
            yield from _fields(inner, definitions, indent=indent + 2, recursive=True, seen=(*seen, below or "-"))


def _enum(schema: Schema, blank: str) -> Iterator[str]:
    if schema.get("enum"):
        yield f"{blank}ENUM:\n" + "".join(f"{blank}    {value}\n" for value in schema["enum"])


def _required(name: str, schema: Schema) -> str:
    return " -required-" if name in (schema.get("required") or ()) else ""


def _text(schema: Schema) -> str:
    return str(schema.get("description") or "")


def _wrapped(text: str, indent: int) -> str:
    blank = " " * indent
    lines = [textwrap.fill(line, _WIDTH, initial_indent=blank, subsequent_indent=blank) for line in text.splitlines()]
    return "\n".join(lines) + "\n"


def _name(schema: Schema) -> str:
    """Return the definition that a schema refers to, itself or in its elements; empty when it is none."""
    for part in (schema, *(schema.get("allOf") or ())):
        if "$ref" in part:
            return str(part["$ref"]).removeprefix(_REFERENCE)
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), Mapping):
            return _name(schema[word])
    return ""


def _object(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Return the object that a field is made of: what lists and maps hold, what references lead to."""
    name = _name(schema)
    if name:
        return _object(definitions[name], definitions) if name in definitions else {}
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), Mapping):
            return _object(schema[word], definitions)
    return schema


def _type(schema: Schema, definitions: Mapping[str, Schema]) -> str:
    for part in (schema, *(schema.get("allOf") or ())):
        if "$ref" in part:
            name = str(part["$ref"]).removeprefix(_REFERENCE)
            kind = definitions.get(name, {}).get("type")
            return name.rpartition(".")[2] if kind in ("object", None) else str(kind)
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        return "IntOrString"
    kind = schema.get("type")
    if kind == "array":
        return f"[]{_type(schema.get('items') or {}, definitions)}"
    if kind == "object":
        extra = schema.get("additionalProperties")
        return f"map[string]{_type(extra, definitions)}" if isinstance(extra, Mapping) else "Object"
    return str(kind or "Object")
