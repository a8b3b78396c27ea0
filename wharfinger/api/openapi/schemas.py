"""Messages as OpenAPI schemas: one definition a message, named as Kubernetes names it.

The two versions of OpenAPI differ in where definitions live and in how a reference may carry a description.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wharfinger.api import kinds
from wharfinger.api.codec import schema
from wharfinger.api.codec.schema import FieldInfo, form_of, info_of
from wharfinger.api.openapi import customs, descriptions
from wharfinger.api.openapi.customs import CustomModel
from wharfinger.api.types import meta

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

_SCALARS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "uint32": {"type": "integer", "format": "int64"},
    "uint64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
}
_FORMS: dict[int, dict[str, Any]] = {
    schema.TIME: {"type": "string", "format": "date-time"},
    schema.MICRO_TIME: {"type": "string", "format": "date-time"},
    schema.DURATION: {"type": "string"},
    schema.QUANTITY: {"type": "string"},
    schema.INT_OR_STRING: {"type": "string", "format": "int-or-string"},
    schema.RAW_JSON: {"type": "object"},
    schema.SCHEMA_OR_ARRAY: {},
    schema.SCHEMA_OR_BOOL: {},
    schema.SCHEMA_OR_STRING_ARRAY: {},
}
_FORMS_V3: dict[int, dict[str, Any]] = {
    schema.QUANTITY: {"oneOf": [{"type": "string"}, {"type": "number"}]},
    schema.INT_OR_STRING: {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
}


def name_of(descriptor: Descriptor) -> str:
    """Return a message's name in OpenAPI: ``io.k8s.api.core.v1.Pod``."""
    return descriptor.full_name.replace("k8s.io.", "io.k8s.", 1)


def _kind_marks() -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for kind in kinds.KINDS:
        for message in (kind.message, kind.list_message):
            if message is not None:
                mark = {"group": kind.group, "kind": message.DESCRIPTOR.name, "version": kind.version}
                found.setdefault(message.DESCRIPTOR.full_name, []).append(mark)
    return found


_MARKS = _kind_marks()


def _is_null_when_empty(info: FieldInfo) -> bool:
    """Whether a field that is always written is written as null when there is nothing in it, as Go does."""
    return info.repeated or (info.message is not None and form_of(info.message) in (schema.TIME, schema.MICRO_TIME))


@dataclass
class Schemas:
    """Collects the definitions that are referred to."""

    v3: bool = True
    definitions: dict[str, Any] = field(default_factory=dict)

    def reference(self, descriptor: Descriptor) -> dict[str, Any]:
        """Return a reference to a message's definition, which is added when it is not there."""
        name = name_of(descriptor)
        if name not in self.definitions:
            self.definitions[name] = {}  # for messages that contain themselves
            self.definitions[name] = self._define(descriptor)
        return {"$ref": f"#/components/schemas/{name}" if self.v3 else f"#/definitions/{name}"}

    def of_custom(self, model: CustomModel) -> dict[str, Any]:
        """Return a reference to the definition of a custom kind."""
        name = model.name
        if name not in self.definitions:
            about = meta.ListMeta if model.whole_list else meta.ObjectMeta
            metadata = self.reference(schema.descriptor_of(about))
            item = self.of_custom(CustomModel(model.kind)) if model.whole_list else {}
            self.definitions[name] = customs.define(model, v3=self.v3, metadata=metadata, item=item)
        return {"$ref": f"#/components/schemas/{name}" if self.v3 else f"#/definitions/{name}"}

    def _define(self, descriptor: Descriptor) -> dict[str, Any]:
        form = form_of(descriptor)
        made: dict[str, Any] = {}
        if text := descriptions.of_message(descriptor.full_name):
            made["description"] = text
        if form == schema.LIST:
            made |= {"type": "array", "items": self._value(info_of(descriptor).fields[0])}
        elif form != schema.OBJECT:
            made |= (_FORMS_V3.get(form) if self.v3 else None) or _FORMS[form]
        else:
            made["type"] = "object"
            self._fill(made, descriptor)
        if marks := _MARKS.get(descriptor.full_name):
            made["x-kubernetes-group-version-kind"] = marks
        return made

    def _fill(self, made: dict[str, Any], descriptor: Descriptor) -> None:
        properties: dict[str, Any] = {}
        required = []
        if descriptor.full_name in _MARKS:
            properties["apiVersion"] = {"type": "string", "description": "Group and version of the kind, as apps/v1."}
            properties["kind"] = {"type": "string", "description": "What the object is, as Deployment."}
        for name, chain in info_of(descriptor).json_fields.items():
            last = chain[-1]
            properties[name] = self._property(last)
            if self.v3 and not (last.omitempty or last.omitzero or last.pointer) and _is_null_when_empty(last):
                properties[name]["nullable"] = True
            if len(chain) == 1 and not (last.omitempty or last.omitzero or last.pointer):
                required.append(name)
        made["properties"] = dict(sorted(properties.items()))
        if required:
            made["required"] = sorted(required)

    def _property(self, info: FieldInfo) -> dict[str, Any]:
        text = descriptions.of_field(info.owner.full_name, info.name) if info.owner is not None else ""
        options = info.options
        value = self._value(info)
        if info.is_map:
            made: dict[str, Any] = {"type": "object", "additionalProperties": value}
        elif info.repeated:
            made = {"type": "array", "items": value}
        elif "$ref" in value and self.v3 and text:
            made = {"allOf": [value]}  # beside a bare reference nothing else counts
        else:
            made = dict(value)
        if text:
            made["description"] = text
        if options.default:
            made["default"] = json.loads(options.default)
        if options.enum and "type" in made and made["type"] == "string":
            made["enum"] = list(options.enum)
        self._mark(made, options)
        return made

    @staticmethod
    def _mark(made: dict[str, Any], options: Any) -> None:
        if options.list_type:
            made["x-kubernetes-list-type"] = options.list_type
        if options.list_map_keys:
            made["x-kubernetes-list-map-keys"] = list(options.list_map_keys)
        if options.map_type:
            made["x-kubernetes-map-type"] = options.map_type
        if options.merge_key:
            made["x-kubernetes-patch-merge-key"] = options.merge_key
        if options.patch_strategy:
            made["x-kubernetes-patch-strategy"] = ",".join(options.patch_strategy)

    def _value(self, info: FieldInfo) -> dict[str, Any]:
        """Return the schema of a field's value (of each element, of each value of a map)."""
        if info.message is None:
            return dict(_SCALARS[info.scalar])
        return self.reference(info.message)
