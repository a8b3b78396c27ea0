"""Annotations of a pod that mean something: mirror pods, deletion cost, the old places of security profiles."""

from __future__ import annotations

from collections.abc import Mapping

from wharfinger.api.types import core
from wharfinger.api.validation import paths
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.security import each_container

MIRROR = "kubernetes.io/config.mirror"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_PROFILES = (_SECCOMP_CONTAINER, _APP_ARMOR)


def validate(annotations: Mapping[str, str], spec: core.PodSpec, errors: Errors, path: str) -> None:
    """Judge the annotations that have a meaning."""
    if not annotations:
        return
    if MIRROR in annotations and not spec.nodeName:
        errors.invalid(f"{path}[{MIRROR}]", annotations[MIRROR], "must set spec.nodeName for a mirror pod")
    cost = annotations.get(DELETION_COST)
    if cost is not None and not _is_int32(cost):
        errors.invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer")
    if _SECCOMP_POD in annotations:
        _validate_seccomp(annotations[_SECCOMP_POD], errors, f"{path}.{_SECCOMP_POD}")
    for key, value in annotations.items():
        if key.startswith(_SECCOMP_CONTAINER):
            _validate_seccomp(value, errors, f"{path}.{key}")
    for key, value in annotations.items():
        if key.startswith(_APP_ARMOR):
            name = key.removeprefix(_APP_ARMOR)
            if all(container.name != name for container, _ in each_container(spec, "")):
                errors.invalid(f"{path}[{key}]", name, "container not found")
            if value not in ("", "runtime/default", "unconfined") and not value.startswith("localhost/"):
                errors.invalid(f"{path}[{key}]", value, "must be runtime/default, unconfined or localhost/<profile>")


def _is_int32(text: str) -> bool:
    if not text:
        return True
    digits = text.removeprefix("-").removeprefix("+") if text[:1] in "+-" else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 12):
        return False
    # A leading zero or plus sign is refused: such a number has another notation, and clients compare texts.
    if text.startswith("+") or (len(digits) > 1 and digits.startswith("0")):
        return False
    return -(2**31) <= int(text) < 2**31


def _validate_seccomp(profile: str, errors: Errors, path: str) -> None:
    if profile in ("runtime/default", "docker/default", "unconfined"):
        return
    if profile.startswith("localhost/"):
        paths.descending(profile.removeprefix("localhost/"), errors, path)
    else:
        errors.invalid(path, profile, "must be a valid seccomp profile")


def validate_update(
    annotations: Mapping[str, str], old: Mapping[str, str], spec: core.PodSpec, errors: Errors, path: str
) -> None:
    """Judge changed annotations: some may not change."""
    for key, value in old.items():
        if annotations.get(key) != value:
            _forbid(key, errors, path, "remove or update")
    for key in annotations:
        if key not in old:
            _forbid(key, errors, path, "add")
    validate(annotations, spec, errors, path)


def _forbid(key: str, errors: Errors, path: str, what: str) -> None:
    if key.startswith(_APP_ARMOR):
        errors.forbidden(f"{path}[{key}]", f"may not {what} AppArmor annotations")
    elif key == MIRROR:
        errors.forbidden(f"{path}[{key}]", f"may not {what} mirror pod annotation")


def validate_profiles(annotations: Mapping[str, str], spec: core.PodSpec, errors: Errors, path: str) -> None:
    """Judge security profiles given both as annotation and as field: they must agree."""
    if not annotations or not any(key.startswith(_PROFILES) or key == _SECCOMP_POD for key in annotations):
        return
    pod = spec.securityContext
    if pod.HasField("seccompProfile") and _SECCOMP_POD in annotations:
        _compare(annotations[_SECCOMP_POD], pod.seccompProfile, errors, f"{path}.securityContext.seccompProfile")
    for container, at in each_container(spec, path):
        own = container.securityContext
        annotation = annotations.get(_SECCOMP_CONTAINER + container.name)
        if annotation is not None and own.HasField("seccompProfile"):
            _compare(annotation, own.seccompProfile, errors, f"{at}.securityContext.seccompProfile")
    if spec.os.name == "windows":
        return
    for container, at in each_container(spec, path):
        own = container.securityContext
        annotation = annotations.get(_APP_ARMOR + container.name)
        profile = own.appArmorProfile if own.HasField("appArmorProfile") else pod.appArmorProfile
        if annotation is not None and (own.HasField("appArmorProfile") or pod.HasField("appArmorProfile")):
            _compare(annotation, profile, errors, f"{at}.securityContext.appArmorProfile")


def _compare(annotation: str, profile: core.SeccompProfile | core.AppArmorProfile, errors: Errors, path: str) -> None:
    kind = profile.type
    if (
        (kind == "Unconfined" and annotation != "unconfined")
        or (kind == "RuntimeDefault" and annotation not in ("runtime/default", "docker/default"))
        or (kind == "Localhost" and not annotation.startswith("localhost/"))
    ):
        errors.forbidden(f"{path}.type", "the profile's type in annotation and field must match")
    elif kind == "Localhost" and annotation.removeprefix("localhost/") != profile.localhostProfile:
        errors.forbidden(f"{path}.localhostProfile", "the profile in annotation and field must match")
