"""Tables and bare metadata: the shapes of an answer that are made from an object, not of it."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from controlplane.apiserver.httpfront.media import PARTIAL, TABLE
from wharfinger.api import codec
from wharfinger.api.errors import BadRequestError
from wharfinger.api.tables import table_for
from wharfinger.api.types import meta

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.apiserver.httpfront.media import Form
    from wharfinger.api.kinds import Kind

INCLUDES = ("", "None", "Metadata", "Object")


def check_include(include: str) -> None:
    """Check the query parameter ``includeObject``. Raises BadRequestError."""
    if include not in INCLUDES:
        raise BadRequestError(f"includeObject: {include!r} is none of None, Metadata and Object")


def partial(message: Any) -> meta.PartialObjectMetadata:
    """Return an object's metadata alone."""
    made = meta.PartialObjectMetadata()
    made.metadata.CopyFrom(message.metadata)
    return made


def metadata_of(message: Any) -> Any:
    """Return an object's metadata as plain values."""
    return codec.to_json(message.metadata)


def partial_json(metadata: Any, form: Form) -> dict[str, Any]:
    """Return a PartialObjectMetadata as plain values."""
    return {"kind": PARTIAL, "apiVersion": form.shape_api_version, "metadata": metadata}


@lru_cache(maxsize=256)
def columns(kind: Kind) -> list[dict[str, Any]]:
    """Return a kind's column definitions."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in table_for(kind).columns
    ]


class Rows:
    """Makes the rows of one table; each object comes as message, metadata in JSON and whole in JSON."""

    def __init__(self, kind: Kind, form: Form, include: str) -> None:
        self._kind = kind
        self._table = table_for(kind)
        self._form = form
        self._include = include
        self._now = time.time()

    def row(self, message: Any, metadata: bytes, whole: Callable[[], bytes]) -> dict[str, Any]:
        """Return one row as plain values."""
        row: dict[str, Any] = {"cells": list(self._table.row(message, self._now))}
        done = self._table.finished(message) if self._table.finished is not None else None
        if done is not None:
            row["conditions"] = [{"type": "Completed", "status": "True", "reason": done[0], "message": done[1]}]
        if self._include == "Object":
            row["object"] = orjson.Fragment(whole())
        elif self._include == "None":
            row["object"] = None
        else:
            row["object"] = partial_json(orjson.Fragment(metadata), self._form)
        return row

    def table(
        self, rows: list[dict[str, Any]], list_meta: dict[str, Any], *, with_columns: bool = True
    ) -> dict[str, Any]:
        """Return the Table as plain values."""
        # Kubernetes' default columns make no list of nothing.
        default = "Created At" in {column.name for column in self._table.columns}
        return {
            "kind": TABLE,
            "apiVersion": self._form.shape_api_version,
            "metadata": list_meta,
            "columnDefinitions": columns(self._kind) if with_columns else None,
            "rows": rows if rows or not default else None,
        }
