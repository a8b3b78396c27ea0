"""Definitions of custom resources for tests that need one, and do not care which."""

from __future__ import annotations

from wharfinger.api import codec
from wharfinger.api.types import apiextensions


def definition(group: str) -> apiextensions.CustomResourceDefinition:
    """Return the definition of lamps, which may hold anything."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    document = {
        "metadata": {"name": f"lamps.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "lamps", "singular": "lamp", "kind": "Lamp", "listKind": "LampList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    return codec.from_json(document, apiextensions.CustomResourceDefinition).message
