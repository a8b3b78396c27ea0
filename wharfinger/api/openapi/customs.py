"""The schemas of custom kinds in OpenAPI: as their definitions wrote them, with what every object has besides.

OpenAPI v2 knows neither null nor logical combinations, and old clients refuse what they do not know there. So v2 shows
less: such places say nothing. Source: "Publishing Validation Schema in OpenAPI" in Kubernetes' documentation of
CustomResourceDefinitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wharfinger.api.custom import CustomKind

_V3_ONLY = ("allOf", "anyOf", "oneOf", "not", "default", "nullable", "x-kubernetes-validations")
_SHAPE = ("type", "items", "properties", "additionalProperties", "required")


@dataclass(frozen=True)
class CustomModel:
    """What travels: an object of a custom kind, or a list of them."""

    kind: CustomKind
    whole_list: bool = False

    @property
    def name(self) -> str:
        """The name of the definition: the group from behind, ``com.example.v1.Lamp``."""
        group = ".".join(reversed(self.kind.group.split(".")))
        return f"{group}.{self.kind.version}.{self.kind.list_kind if self.whole_list else self.kind.kind}"

    def mark(self) -> list[dict[str, str]]:
        """Return the mark by which clients find the definition of a kind."""
        kind = self.kind.list_kind if self.whole_list else self.kind.kind
        return [{"group": self.kind.group, "kind": kind, "version": self.kind.version}]


_TYPE_META = {
    "apiVersion": {"type": "string", "description": "Group and version of the kind, as apps/v1."},
    "kind": {"type": "string", "description": "What the object is, as Deployment."},
}


def define(model: CustomModel, *, v3: bool, metadata: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of a model; `metadata` and `item` refer to the metadata's and the item's definition."""
    if model.whole_list:
        return {
            "type": "object",
            "description": f"{model.kind.list_kind} is a list of {model.kind.kind}",
            "required": ["items"],
            "properties": {
                **_TYPE_META,
                "items": {"type": "array", "items": dict(item)},
                "metadata": dict(metadata),
            },
            "x-kubernetes-group-version-kind": model.mark(),
        }
    made = dict(model.kind.source) if v3 else _for_v2(model.kind.source, root=True)
    made.setdefault("type", "object")
    made["properties"] = {
        **_TYPE_META,
        **{name: value for name, value in (made.get("properties") or {}).items() if name not in _TYPE_META},
        "metadata": dict(metadata),
    }
    made["x-kubernetes-group-version-kind"] = model.mark()
    return made


def _for_v2(source: Mapping[str, Any], *, root: bool = False) -> dict[str, Any]:
    open_ended = source.get("nullable") or source.get("x-kubernetes-preserve-unknown-fields")
    hidden = set(_V3_ONLY)
    if source.get("x-kubernetes-int-or-string"):
        hidden.add("type")
    if open_ended and not root:
        hidden.update(_SHAPE)
    made = {name: value for name, value in source.items() if name not in hidden}
    if isinstance(made.get("items"), dict):
        made["items"] = _for_v2(made["items"])
    if isinstance(made.get("additionalProperties"), dict):
        made["additionalProperties"] = _for_v2(made["additionalProperties"])
    if "properties" in made:
        made["properties"] = {name: _for_v2(item) for name, item in made["properties"].items()}
    return made
