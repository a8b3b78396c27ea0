"""Definitions of custom resources: names, versions, and schemas that are structural.

Rules: "Extend the Kubernetes API with CustomResourceDefinitions", section "Specifying a structural schema". What all
versions have in common is reported at ``spec.validation`` and its like, where the first version of this API had it;
the reference still does.
"""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.api import codec, patterns
from wharfinger.api.errors import InternalError
from wharfinger.api.types import apiextensions
from wharfinger.api.validation import metadata, names, structure, webhooks
from wharfinger.api.validation.common import one_of
from wharfinger.api.validation.equality import semantic_equal
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("binary", "byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_FORBIDDEN = ("id", "schema", "ref", "patternProperties", "definitions", "dependencies", "additionalItems")
_JSON_NAMES = {"schema": "$schema", "ref": "$ref"}
_VALUE_ONLY = ("description", "type", "default", "additionalProperties", "nullable", "xKubernetesListType", "title")
"""What belongs to the schema itself, not to its logical combinations."""
_MAX_SELECTABLE = 8
_APPROVAL = "api-approved.kubernetes.io"


def _create(definition: apiextensions.CustomResourceDefinition, errors: Errors) -> None:
    _validate_metadata(definition, errors)
    _validate_spec(definition.spec, errors)
    _validate_stored(definition, errors)


def _validate_metadata(definition: apiextensions.CustomResourceDefinition, errors: Errors) -> None:
    wanted = f"{definition.spec.names.plural}.{definition.spec.group}"

    def name(text: str) -> names.Complaints:
        complaints = names.dns1123_subdomain(text)
        return (*complaints, f"must be spec.names.plural+'.'+spec.group, {wanted}") if text != wanted else complaints

    metadata.validate(definition.metadata, errors, namespaced=False, name=name)
    _validate_approval(definition, errors)


def _validate_approval(definition: apiextensions.CustomResourceDefinition, errors: Errors) -> None:
    """Groups of the Kubernetes project need its word that they are what they say."""
    group = definition.spec.group
    if group not in ("k8s.io", "kubernetes.io") and not group.endswith((".k8s.io", ".kubernetes.io")):
        return
    field, text = f"metadata.annotations[{_APPROVAL}]", definition.metadata.annotations.get(_APPROVAL, "")
    if not text:
        errors.required(field, "protected groups must have approval annotation")
    elif not text.startswith(("unapproved", "https://", "http://")):
        errors.invalid(field, text, 'must be the address of an approval, or begin with "unapproved"')


def _validate_stored(definition: apiextensions.CustomResourceDefinition, errors: Errors) -> None:
    known = {version.name: version for version in definition.spec.versions}
    storage = [version.name for version in definition.spec.versions if version.storage]
    stored = list(definition.status.storedVersions) or storage
    path = "status.storedVersions"
    if not stored:
        errors.invalid(path, [], "must have at least one stored version")
        return
    for index, version in enumerate(stored):
        if version not in known:
            errors.invalid(f"{path}[{index}]", version, "missing from spec.versions; it must remain until migrated")
    for version in storage:
        if version not in stored:
            errors.invalid(path, stored, f"must have the storage version {version}")


def _validate_spec(spec: apiextensions.CustomResourceDefinitionSpec, errors: Errors) -> None:
    _validate_group(spec.group, errors)
    one_of(errors, "spec.scope", spec.scope, ("Cluster", "Namespaced"), required=True)
    if spec.preserveUnknownFields:
        errors.invalid("spec.preserveUnknownFields", True, "must be false in order to use defaults in the schema")
    versions = spec.versions
    seen: set[str] = set()
    for index, version in enumerate(versions):
        for complaint in names.dns1035_label(version.name)[:1]:
            errors.invalid(f"spec.versions[{index}].name", version.name, complaint)
        if version.HasField("deprecationWarning"):
            _validate_warning(version, errors, f"spec.versions[{index}].deprecationWarning")
        seen.add(version.name)
    if len(seen) != len(versions):
        errors.invalid("spec.versions", sorted(seen), "must contain unique version names")
    if sum(version.storage for version in versions) != 1:
        errors.invalid("spec.versions", len(versions), "must have exactly one version marked as storage version")
    if versions:
        for complaint in names.dns1035_label(versions[0].name)[:1]:
            errors.invalid("spec.version", versions[0].name, complaint)
    _validate_names(spec.names, errors, "spec.names")
    _validate_versions(versions, errors)
    _validate_conversion(spec, errors)


def _validate_group(group: str, errors: Errors) -> None:
    if not group:
        errors.required("spec.group")
        return
    complaints = names.dns1123_subdomain(group)
    if complaints:
        errors.invalid("spec.group", group, "; ".join(complaints))
    elif "." not in group:
        errors.invalid("spec.group", group, "should be a domain with at least one dot")


def _validate_warning(version: apiextensions.CustomResourceDefinitionVersion, errors: Errors, path: str) -> None:
    text = version.deprecationWarning
    if not version.deprecated:
        errors.invalid(path, text, "can only be set for deprecated versions")
    if not text:
        errors.invalid(path, text, "must not be an empty string")
    elif len(text) > 256:
        errors.invalid(path, text, "must be <= 256 characters long")
    elif not text.isprintable():
        errors.invalid(path, text, "must only contain printable characters")


def _validate_names(found: apiextensions.CustomResourceDefinitionNames, errors: Errors, path: str) -> None:
    for field in ("plural", "singular", "kind", "listKind"):
        text = getattr(found, field)
        if not text and field == "singular":
            continue
        lower = text if field in ("plural", "singular") else text.lower()
        if not text and field != "plural":
            errors.required(f"{path}.{field}")
            continue
        for complaint in names.dns1035_label(lower)[:1]:
            errors.invalid(f"{path}.{field}", text, complaint)
    for field in ("shortNames", "categories"):
        for index, text in enumerate(getattr(found, field)):
            for complaint in names.dns1035_label(text)[:1]:
                errors.invalid(f"{path}.{field}[{index}]", text, complaint)
    if found.kind and found.kind == found.listKind:
        errors.invalid(f"{path}.listKind", found.listKind, "kind and listKind may not be the same")


def _validate_versions(versions: Sequence[apiextensions.CustomResourceDefinitionVersion], errors: Errors) -> None:
    if not versions:
        return
    first = versions[0]
    shared = all(semantic_equal(version.schema, first.schema) for version in versions)
    if not first.schema.HasField("openAPIV3Schema") or not shared:
        for index, version in enumerate(versions):
            path = f"spec.versions[{index}].schema.openAPIV3Schema"
            if not version.schema.HasField("openAPIV3Schema"):
                errors.required(path, "schemas are required")
            else:
                _validate_root(version.schema.openAPIV3Schema, errors, path)
    else:
        _validate_root(first.schema.openAPIV3Schema, errors, "spec.validation.openAPIV3Schema")
    for index, version in enumerate(versions):
        path = "spec" if len(versions) == 1 else f"spec.versions[{index}]"
        _validate_columns(version.additionalPrinterColumns, errors, f"{path}.additionalPrinterColumns")
        if version.subresources.HasField("scale"):
            _validate_scale(version.subresources.scale, errors, f"{path}.subresources.scale")
        if len(version.selectableFields) > _MAX_SELECTABLE:
            errors.too_many(f"{path}.selectableFields", len(version.selectableFields), _MAX_SELECTABLE)
        for number, selectable in enumerate(version.selectableFields):
            _selectable(selectable.jsonPath, version.schema, errors, f"{path}.selectableFields[{number}].jsonPath")


def _selectable(text: str, validation: apiextensions.CustomResourceValidation, errors: Errors, path: str) -> None:
    """Judge a selectable field: it must be a single value that the schema knows."""
    before = len(errors)
    _json_path(text, errors, path)
    if len(errors) > before:
        return
    if text.startswith(".metadata."):
        errors.invalid(path, text, "must not point to fields in metadata")
        return
    at: apiextensions.JSONSchemaProps = validation.openAPIV3Schema
    for name in filter(None, text.split(".")):
        if name not in at.properties:
            errors.invalid(path, text, f"does not refer to a valid field: {name} is not in the schema")
            return
        at = at.properties[name]
    if at.type not in ("string", "integer", "boolean"):
        errors.invalid(path, text, f"must point to a field of type string, boolean or integer, not {at.type or 'any'}")


def _validate_columns(
    columns: Sequence[apiextensions.CustomResourceColumnDefinition], errors: Errors, path: str
) -> None:
    for index, column in enumerate(columns):
        at = f"{path}[{index}]"
        if not column.name:
            errors.required(f"{at}.name")
        one_of(errors, f"{at}.type", column.type, _COLUMN_TYPES, required=True)
        if column.format:
            one_of(errors, f"{at}.format", column.format, _COLUMN_FORMATS)
        _json_path(column.jsonPath, errors, f"{at}.JSONPath")


def _validate_scale(scale: apiextensions.CustomResourceSubresourceScale, errors: Errors, path: str) -> None:
    for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        text = getattr(scale, field)
        if not text:
            errors.required(f"{path}.{field}")
            continue
        _json_path(text, errors, f"{path}.{field}")
        if not text.startswith(root):
            errors.invalid(f"{path}.{field}", text, f"should be a json path under {root[:-1]}")
    if scale.labelSelectorPath:
        _json_path(scale.labelSelectorPath, errors, f"{path}.labelSelectorPath")
        if not scale.labelSelectorPath.startswith((".spec.", ".status.")):
            errors.invalid(
                f"{path}.labelSelectorPath", scale.labelSelectorPath, "should be a json path under .spec or .status"
            )


def _json_path(text: str, errors: Errors, path: str) -> None:
    if not text:
        errors.required(path)
    elif not text.startswith("."):
        errors.invalid(path, text, "must be a simple json path starting with .")


def _validate_root(schema: apiextensions.JSONSchemaProps, errors: Errors, path: str) -> None:
    if schema.nullable:
        errors.forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if not schema.type:
        if not schema.xKubernetesIntOrString:
            errors.required(f"{path}.type", "must not be empty at the root")
    elif schema.type != "object":
        errors.invalid(f"{path}.type", schema.type, "must be object at the root")
    _validate_schema(schema, errors, path)
    try:
        source = codec.to_json(schema)
    except InternalError as error:  # protobuf can hold what is no JSON in its defaults and enums
        errors.invalid(path, "", error.message)
        return
    structure.validate(source, errors, path)


def _validate_schema(schema: apiextensions.JSONSchemaProps, errors: Errors, path: str) -> None:
    """Judge one level of a structural schema and what is below it."""
    if schema.type and schema.type not in _TYPES:
        errors.not_supported(f"{path}.type", schema.type, _TYPES)
    if schema.uniqueItems:
        errors.forbidden(f"{path}.uniqueItems", "uniqueItems cannot be set to true since the runtime is quadratic")
    if (
        schema.properties
        and schema.HasField("additionalProperties")
        and (schema.additionalProperties.allows or schema.additionalProperties.HasField("schema"))
    ):
        errors.forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    for field in _FORBIDDEN:
        value = getattr(schema, field)
        repeated = schema.DESCRIPTOR.fields_by_name[field].is_repeated
        if len(value) if repeated or isinstance(value, str) else schema.HasField(field):
            name = _JSON_NAMES.get(field, field)
            errors.forbidden(f"{path}.{name}", f"{name} is not supported")
    if schema.pattern:
        try:
            patterns.compile_pattern(schema.pattern)
        except ValueError as error:
            errors.invalid(f"{path}.pattern", schema.pattern, f"must be a valid regular expression: {error}")
    _validate_extensions(schema, errors, path)
    if schema.type == "array" and not schema.HasField("items"):
        errors.required(f"{path}.items", "must be specified")
    if schema.HasField("items"):
        if schema.items.jSONSchemas:
            errors.forbidden(f"{path}.items", "items must be a schema object and not an array")
        else:
            _validate_part(schema.items.schema, errors, f"{path}.items", "array items")
    for name in sorted(schema.properties):
        _validate_part(schema.properties[name], errors, f"{path}.properties[{name}]", "object fields")
    if schema.additionalProperties.HasField("schema"):
        _validate_part(schema.additionalProperties.schema, errors, f"{path}.additionalProperties", "object fields")
    for field in ("allOf", "anyOf", "oneOf"):
        for index, value in enumerate(getattr(schema, field)):
            _validate_value_part(value, errors, f"{path}.{field}[{index}]", int_or_string=schema.xKubernetesIntOrString)
    if schema.HasField("not"):
        _validate_value_part(getattr(schema, "not"), errors, f"{path}.not", int_or_string=False)


def _validate_part(schema: apiextensions.JSONSchemaProps, errors: Errors, path: str, what: str) -> None:
    if not schema.type and not schema.xKubernetesIntOrString and not schema.xKubernetesPreserveUnknownFields:
        errors.required(f"{path}.type", f"must not be empty for specified {what}")
    _validate_schema(schema, errors, path)


def _validate_value_part(
    schema: apiextensions.JSONSchemaProps, errors: Errors, path: str, *, int_or_string: bool
) -> None:
    """Judge a part of a logical combination, which may only restrict values."""
    for field in _VALUE_ONLY:
        if field == "type" and int_or_string:
            continue
        value = getattr(schema, field)
        if schema.HasField(field) and (not isinstance(value, (str, bool)) or value):
            errors.forbidden(f"{path}.{field}", "must be empty to be structural")
    for field in ("allOf", "anyOf", "oneOf"):
        for index, value in enumerate(getattr(schema, field)):
            _validate_value_part(value, errors, f"{path}.{field}[{index}]", int_or_string=int_or_string)
    for name in sorted(schema.properties):
        _validate_value_part(schema.properties[name], errors, f"{path}.properties[{name}]", int_or_string=False)
    if schema.items.HasField("schema"):
        _validate_value_part(schema.items.schema, errors, f"{path}.items", int_or_string=False)


def _validate_extensions(schema: apiextensions.JSONSchemaProps, errors: Errors, path: str) -> None:
    if schema.HasField("xKubernetesPreserveUnknownFields") and not schema.xKubernetesPreserveUnknownFields:
        errors.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    if schema.xKubernetesIntOrString and schema.type:
        errors.forbidden(f"{path}.type", "must be empty if x-kubernetes-int-or-string is true")
    if schema.HasField("xKubernetesMapType"):
        if schema.type != "object":
            errors.invalid(f"{path}.type", schema.type, "must be object if x-kubernetes-map-type is specified")
        one_of(errors, f"{path}.x-kubernetes-map-type", schema.xKubernetesMapType, ("atomic", "granular"))
    if schema.HasField("xKubernetesListType"):
        if schema.type != "array":
            errors.invalid(f"{path}.type", schema.type, "must be array if x-kubernetes-list-type is specified")
        one_of(errors, f"{path}.x-kubernetes-list-type", schema.xKubernetesListType, ("atomic", "map", "set"))
    keys = schema.xKubernetesListMapKeys
    if schema.xKubernetesListType == "map":
        if not keys:
            errors.required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if the list type is map")
        item = schema.items.schema
        for index, key in enumerate(keys):
            if key not in item.properties:
                errors.invalid(f"{path}.x-kubernetes-list-map-keys[{index}]", key, "must be a property of the items")
    elif keys:
        errors.forbidden(f"{path}.x-kubernetes-list-map-keys", "must be empty if the list type is not map")


def _validate_conversion(spec: apiextensions.CustomResourceDefinitionSpec, errors: Errors) -> None:
    path = "spec.conversion"
    if not spec.HasField("conversion"):
        errors.required(path)
        return
    conversion = spec.conversion
    one_of(errors, f"{path}.strategy", conversion.strategy, ("None", "Webhook"), required=True)
    if conversion.strategy == "Webhook":
        if not conversion.webhook.HasField("clientConfig"):
            errors.required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
        else:
            webhooks.validate_client(conversion.webhook.clientConfig, errors, f"{path}.webhookClientConfig")
        versions = conversion.webhook.conversionReviewVersions
        webhooks.validate_review_versions(versions, errors, f"{path}.conversionReviewVersions")
    elif conversion.HasField("webhook"):
        errors.forbidden(f"{path}.webhookClientConfig", "should not be set when strategy is not set to Webhook")


def _update(
    definition: apiextensions.CustomResourceDefinition, old: apiextensions.CustomResourceDefinition, errors: Errors
) -> None:
    metadata.validate_update(definition.metadata, old.metadata, errors)
    _validate_spec(definition.spec, errors)
    spec, was = definition.spec, old.spec
    established = any(c.type == "Established" and c.status == "True" for c in old.status.conditions)
    for path, new, before in (
        ("spec.group", spec.group, was.group),
        ("spec.names.plural", spec.names.plural, was.names.plural),
    ):
        metadata.immutable(errors, path, new, before)
    if established:
        metadata.immutable(errors, "spec.scope", spec.scope, was.scope)
        metadata.immutable(errors, "spec.names.kind", spec.names.kind, was.names.kind)
    _validate_stored(definition, errors)


def _update_status(
    definition: apiextensions.CustomResourceDefinition, old: apiextensions.CustomResourceDefinition, errors: Errors
) -> None:
    metadata.validate_update(definition.metadata, old.metadata, errors)
    _validate_stored(definition, errors)


RULES = {
    apiextensions.CustomResourceDefinition: Rules(
        create=_create, update=_update, subresources={"status": _update_status}
    )
}
