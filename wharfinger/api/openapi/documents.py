"""Whole OpenAPI documents, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wharfinger.api.openapi.paths import Paths
from wharfinger.api.openapi.schemas import Schemas

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wharfinger.api.kinds import Kind

_TITLE = "Kubernetes"


def v3_document(kinds: Iterable[Kind], *, version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.0 document of the kinds of one group version."""
    schemas = Schemas(v3=True)
    paths = Paths(schemas)
    found: dict[str, Any] = {}
    for kind in kinds:
        found.update(paths.of_kind(kind))
    return {
        "openapi": "3.0.0",
        "info": {"title": _TITLE, "version": version},
        "paths": found,
        "components": {
            "schemas": dict(sorted(schemas.definitions.items())),
            "securitySchemes": {
                "BearerToken": {
                    "type": "apiKey",
                    "name": "authorization",
                    "in": "header",
                    "description": "Bearer token",
                }
            },
        },
    }


def v2_document(kinds: Iterable[Kind], *, version: str) -> dict[str, Any]:
    """Return the OpenAPI 2.0 (Swagger) document of all kinds."""
    schemas = Schemas(v3=False)
    paths = Paths(schemas)
    found: dict[str, Any] = {}
    for kind in kinds:
        found.update(paths.of_kind(kind))
    return {
        "swagger": "2.0",
        "info": {"title": _TITLE, "version": version},
        "paths": found,
        "definitions": dict(sorted(schemas.definitions.items())),
    }
