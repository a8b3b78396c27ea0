"""Objects for tests of defaulting and validation: written as YAML, filled in as the server fills them in."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import yaml

from wharfinger.api import codec, defaults, kinds, times, validation

_POD = """
metadata: {name: p}
spec:
  containers: [{name: c, image: nginx}]
"""


def build(kind: str, text: str | dict[str, Any], *, defaulted: bool = True) -> Any:
    """Return an object as a server has it just before validation; `kind` is ``apps/v1 Deployment`` or ``v1 Pod``."""
    found = next(known for known in kinds.KINDS if f"{known.api_version} {known.kind}" == kind)
    body = yaml.safe_load(text) if isinstance(text, str) else copy.deepcopy(text)
    obj: Any = codec.from_json(json.dumps(body).encode(), found.message, validation="Strict").message
    if defaulted:
        defaults.apply(obj)
    metadata = obj.metadata
    if found.namespaced:
        metadata.namespace = metadata.namespace or "default"
    metadata.uid = metadata.uid or "0c1f9a4e-0000-4000-8000-000000000001"
    metadata.creationTimestamp.CopyFrom(times.now())
    return obj


def pod(**spec: Any) -> Any:
    """Return a small valid pod with some fields of its spec set."""
    body = yaml.safe_load(_POD)
    body["spec"].update({"serviceAccountName": "default", **spec})
    return build("v1 Pod", body)


def creating(obj: Any) -> list[str]:
    """Return the causes against a new object, as ``field reason`` without the reasons' common beginning."""
    return [f"{cause.field} {cause.reason.removeprefix('FieldValue')}" for cause in validation.validate_create(obj)]


def updating(old: Any, change: Callable[[Any], Any], subresource: str = "") -> list[str]:
    """Return the causes against a change to an object, each once."""
    new = type(old)()
    new.CopyFrom(old)
    change(new)
    causes = validation.validate_update(new, old, subresource=subresource)
    return list(dict.fromkeys(f"{cause.field} {cause.reason.removeprefix('FieldValue')}" for cause in causes))
