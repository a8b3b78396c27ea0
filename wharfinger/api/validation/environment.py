"""Environment variables of a container and where their values come from.

Rules: "Define Environment Variables for a Container" and "Expose Pod Information to Containers" in Kubernetes'
documentation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from wharfinger.api import quantity
from wharfinger.api.types import core
from wharfinger.api.validation import names
from wharfinger.api.validation.errors import Errors

FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
"""What a variable can take from its pod, besides single labels and annotations."""
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
"""What a file can take from its pod, besides single labels and annotations."""
_CONVERTIBLE = frozenset({*FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName"})
RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_CPU_DIVISORS = frozenset({"1m", "1"})
_BYTE_DIVISORS = frozenset({"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"})
_SUBSCRIPT = re.compile(r"([^\[\]]+)\['(.*)'\]", re.DOTALL)


def validate_variables(variables: Iterable[core.EnvVar], errors: Errors, path: str) -> None:
    """Judge ``env``."""
    for index, variable in enumerate(variables):
        name = variable.name
        if not name:
            errors.required(f"{path}[{index}].name")
        else:
            complaints = names.environment_name(name)
            if complaints:
                errors.complaints(f"{path}[{index}].name", name, complaints)
        if variable.HasField("valueFrom"):
            _validate_source(variable, errors, f"{path}[{index}].valueFrom")


def _validate_source(variable: core.EnvVar, errors: Errors, path: str) -> None:
    source = variable.valueFrom
    count = 0
    if source.HasField("fieldRef"):
        count += 1
        validate_field(source.fieldRef, errors, f"{path}.fieldRef", fields=FIELDS)
    if source.HasField("resourceFieldRef"):
        count += 1
        validate_resource_field(source.resourceFieldRef, errors, f"{path}.resourceFieldRef", volume=False)
    if source.HasField("configMapKeyRef"):
        count += 1
        _validate_key(source.configMapKeyRef, errors, f"{path}.configMapKeyRef")
    if source.HasField("secretKeyRef"):
        count += 1
        _validate_key(source.secretKeyRef, errors, f"{path}.secretKeyRef")
    if source.HasField("fileKeyRef"):
        count += 1
        _validate_file(source.fileKeyRef, errors, f"{path}.fileKeyRef")
    if not count:
        errors.invalid(
            path, "", "must specify one of: fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef or fileKeyRef"
        )
    elif variable.value:
        errors.invalid(path, "", "may not be specified when `value` is not empty")
    elif count > 1:
        errors.invalid(path, "", "may not have more than one field specified at a time")


def _validate_key(selector: core.ConfigMapKeySelector | core.SecretKeySelector, errors: Errors, path: str) -> None:
    name = selector.localObjectReference.name
    errors.complaints(f"{path}.name", name, names.dns1123_subdomain(name))
    if not selector.key:
        errors.required(f"{path}.key")
    else:
        errors.complaints(f"{path}.key", selector.key, names.config_key(selector.key))


def _validate_file(selector: core.FileKeySelector, errors: Errors, path: str) -> None:
    if not selector.key:
        errors.required(f"{path}.key")
    else:
        errors.complaints(f"{path}.key", selector.key, names.environment_name(selector.key))
    if not selector.volumeName:
        errors.required(f"{path}.volumeName")
    if not selector.path:
        errors.required(f"{path}.path")
    elif selector.path.startswith("/") or ".." in selector.path.split("/"):
        errors.invalid(f"{path}.path", selector.path, "must be a relative path without '..'")


def validate_field(selector: core.ObjectFieldSelector, errors: Errors, path: str, *, fields: Collection[str]) -> None:
    """Judge a reference to a field of the pod."""
    if not selector.apiVersion:
        errors.required(f"{path}.apiVersion")
        return
    field = selector.fieldPath
    if not field:
        errors.required(f"{path}.fieldPath")
        return
    subscripted = _SUBSCRIPT.fullmatch(field)
    if selector.apiVersion != "v1":
        errors.invalid(f"{path}.fieldPath", field, f"there is no pod version {selector.apiVersion!r}; use v1")
    elif subscripted is not None:
        base, key = subscripted[1], subscripted[2]
        if base == "metadata.annotations":
            errors.complaints(path, key, names.qualified_name(key.lower()))
        elif base == "metadata.labels":
            errors.complaints(path, key, names.qualified_name(key))
        else:
            errors.invalid(f"{path}.fieldPath", field, "only labels and annotations have a subscript")
    elif field not in _CONVERTIBLE:
        errors.invalid(f"{path}.fieldPath", field, "is no field of a pod that can be exposed")
    elif field not in fields:
        errors.not_supported(f"{path}.fieldPath", field, fields)


def validate_resource_field(selector: core.ResourceFieldSelector, errors: Errors, path: str, *, volume: bool) -> None:
    """Judge a reference to a request or limit of a container."""
    resource = selector.resource
    if volume and not selector.containerName:
        errors.required(f"{path}.containerName")
    elif not resource:
        errors.required(f"{path}.resource")
    elif resource not in RESOURCES and not resource.startswith(_HUGE_PAGES):
        errors.not_supported(f"{path}.resource", resource, RESOURCES)
    divisor = quantity.parse(selector.divisor.string or "0")
    if divisor.is_zero():
        return
    if resource in ("limits.cpu", "requests.cpu"):
        allowed = _CPU_DIVISORS
    elif resource in RESOURCES or resource.startswith(_HUGE_PAGES):
        allowed = _BYTE_DIVISORS
    else:
        return
    if str(divisor) not in allowed:
        errors.invalid(f"{path}.divisor", resource, f"must be one of {', '.join(sorted(allowed))}")


def validate_sources(sources: Iterable[core.EnvFromSource], errors: Errors, path: str) -> None:
    """Judge ``envFrom``."""
    for index, source in enumerate(sources):
        at = f"{path}[{index}]"
        if source.prefix:
            errors.complaints(f"{at}.prefix", source.prefix, names.environment_name(source.prefix))
        count = 0
        for field in ("configMapRef", "secretRef"):
            if source.HasField(field):
                count += 1
                name = getattr(source, field).localObjectReference.name
                if not name:
                    errors.required(f"{at}.{field}.name")
                else:
                    errors.complaints(f"{at}.{field}.name", name, names.generated(names.dns1123_subdomain, name))
        if not count:
            errors.invalid(path, "", "must specify one of: configMapRef or secretRef")
        elif count > 1:
            errors.invalid(path, "", "may not have more than one field specified at a time")
