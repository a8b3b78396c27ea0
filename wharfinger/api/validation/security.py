"""Security contexts of pods and containers: users, groups, profiles, sysctls, and what Windows pods may not set.

Rules: "Configure a Security Context for a Pod or Container" in Kubernetes' documentation. Privileged containers are
allowed, as with the reference's ``--allow-privileged``; whether a user may start one is a matter of admission.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wharfinger.api.types import core
from wharfinger.api.validation import names, paths
from wharfinger.api.validation.common import one_of
from wharfinger.api.validation.errors import Errors

PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
WINDOWS = "cannot be set for a windows pod"

_SYSCTL = re.compile(r"(?:[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?")
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "fs.mqueue.")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NET_BIOS = re.compile(r"[^\\/:*?\"<>|.][^\\/:*?\"<>|]{0,14}")
_WINDOWS_DOMAIN = re.compile(
    r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*"
)
_WINDOWS_USER = re.compile(r"[\"/\\:;|=,+*?<>@\[\]]")
_DOTS = re.compile(r"[. ]+")
_LONGEST_PATH = 4095


def each_container(spec: core.PodSpec, path: str) -> Iterator[tuple[core.Container, str]]:
    """Yield all containers of a pod with their paths: init, regular, ephemeral."""
    for index, container in enumerate(spec.initContainers):
        yield container, f"{path}.initContainers[{index}]"
    for index, container in enumerate(spec.containers):
        yield container, f"{path}.containers[{index}]"
    for index, ephemeral in enumerate(spec.ephemeralContainers):
        yield ephemeral.ephemeralContainerCommon, f"{path}.ephemeralContainers[{index}]"  # type: ignore[misc]


def validate_container(context: core.SecurityContext, errors: Errors, path: str, *, host_users: bool) -> None:
    """Judge the security context of a container; `host_users`: the pod runs in the node's user namespace."""
    for field in ("runAsUser", "runAsGroup"):
        if context.HasField(field):
            value = getattr(context, field)
            errors.complaints(f"{path}.{field}", value, names.user_id(value))
    if context.HasField("procMount"):
        one_of(errors, f"{path}.procMount", context.procMount, ("Default", "Unmasked"))
        if host_users and context.procMount == "Unmasked":
            errors.invalid(f"{path}.procMount", context.procMount, "`hostUsers` must be false to use `Unmasked`")
    if context.HasField("seccompProfile"):
        _validate_seccomp(context.seccompProfile, errors, f"{path}.seccompProfile")
    if context.HasField("allowPrivilegeEscalation") and not context.allowPrivilegeEscalation:
        if context.privileged:
            errors.invalid(path, "privileged", "cannot set allowPrivilegeEscalation to false and privileged to true")
        if context.HasField("capabilities") and "CAP_SYS_ADMIN" in context.capabilities.add:
            errors.invalid(path, "CAP_SYS_ADMIN", "cannot set allowPrivilegeEscalation to false and add CAP_SYS_ADMIN")
    if context.HasField("windowsOptions"):
        _validate_windows_options(context.windowsOptions, errors, f"{path}.windowsOptions")
    if context.HasField("appArmorProfile"):
        _validate_app_armor(context.appArmorProfile, errors, f"{path}.appArmorProfile")


def validate_pod(context: core.PodSecurityContext, spec: core.PodSpec, errors: Errors, path: str) -> None:
    """Judge the security context of a pod or pod template."""
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        if context.HasField(field):
            value = getattr(context, field)
            errors.complaints(f"{path}.{field}", value, names.user_id(value))
    for index, group in enumerate(context.supplementalGroups):
        errors.complaints(f"{path}.supplementalGroups[{index}]", group, names.user_id(group))
    if spec.shareProcessNamespace and spec.hostPID:
        errors.invalid(f"{path}.shareProcessNamespace", True, "may not be set together with hostPID")
    _validate_sysctls(context, spec, errors, f"{path}.sysctls")
    if context.HasField("fsGroupChangePolicy"):
        one_of(errors, f"{path}.fsGroupChangePolicy", context.fsGroupChangePolicy, ("Always", "OnRootMismatch"))
    if context.HasField("seccompProfile"):
        _validate_seccomp(context.seccompProfile, errors, f"{path}.seccompProfile")
    if context.HasField("windowsOptions"):
        _validate_windows_options(context.windowsOptions, errors, f"{path}.windowsOptions")
    if context.HasField("appArmorProfile"):
        _validate_app_armor(context.appArmorProfile, errors, f"{path}.appArmorProfile")
    if context.HasField("supplementalGroupsPolicy"):
        one_of(errors, f"{path}.supplementalGroupsPolicy", context.supplementalGroupsPolicy, ("Merge", "Strict"))
    if context.HasField("seLinuxChangePolicy"):
        one_of(errors, f"{path}.seLinuxChangePolicy", context.seLinuxChangePolicy, ("MountOption", "Recursive"))


def _validate_sysctls(context: core.PodSecurityContext, spec: core.PodSpec, errors: Errors, path: str) -> None:
    seen = set()
    for index, sysctl in enumerate(context.sysctls):
        at, name = f"{path}[{index}].name", sysctl.name
        if not name:
            errors.required(at)
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            errors.invalid(at, name, "must be at most 253 characters of lower case segments joined by '.' or '/'")
        elif name in seen:
            errors.duplicate(at, name)
        dotted = name.replace("/", ".")
        if spec.hostNetwork and dotted.startswith("net."):
            errors.invalid(at, name, "may not be specified when 'hostNetwork' is true")
        elif spec.hostIPC and (dotted.startswith(_IPC_SYSCTLS) or dotted == "kernel.sem"):
            errors.invalid(at, name, "may not be specified when 'hostIPC' is true")
        seen.add(name)


def _validate_seccomp(profile: core.SeccompProfile, errors: Errors, path: str) -> None:
    one_of(errors, f"{path}.type", profile.type, PROFILE_TYPES, required=True)
    if profile.type == "Localhost":
        if not profile.HasField("localhostProfile"):
            errors.required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
        else:
            paths.descending(profile.localhostProfile, errors, f"{path}.localhostProfile")
    elif profile.HasField("localhostProfile"):
        errors.invalid(
            f"{path}.localhostProfile", profile.localhostProfile, "can only be set when seccomp type is Localhost"
        )


def _validate_app_armor(profile: core.AppArmorProfile, errors: Errors, path: str) -> None:
    at = f"{path}.localhostProfile"
    if profile.type == "Localhost":
        if not profile.HasField("localhostProfile"):
            errors.required(at, "must be set when AppArmor type is Localhost")
        else:
            name = profile.localhostProfile
            if name != name.strip():
                errors.invalid(at, name, "must not be padded with whitespace")
            elif not name:
                errors.required(at, "must be set when AppArmor type is Localhost")
            if len(name) > _LONGEST_PATH:
                errors.too_long(at, _LONGEST_PATH)
    elif profile.type in PROFILE_TYPES:
        if profile.HasField("localhostProfile"):
            errors.invalid(at, profile.localhostProfile, "can only be set when AppArmor type is Localhost")
    else:
        one_of(errors, f"{path}.type", profile.type, PROFILE_TYPES, required=True)


def _validate_windows_options(options: core.WindowsSecurityContextOptions, errors: Errors, path: str) -> None:
    if options.HasField("gmsaCredentialSpecName"):
        name = options.gmsaCredentialSpecName
        errors.complaints(f"{path}.gmsaCredentialSpecName", name, names.dns1123_subdomain(name))
    if options.HasField("gmsaCredentialSpec"):
        size = len(options.gmsaCredentialSpec)
        if not size or size > 64 * 1024:
            errors.invalid(f"{path}.gmsaCredentialSpec", f"{size} bytes", "must not be empty and be under 64 KiB")
    if options.HasField("runAsUserName"):
        for complaint in _windows_user(options.runAsUserName):
            errors.invalid(f"{path}.runAsUserName", options.runAsUserName, complaint)


def _windows_user(name: str) -> list[str]:
    if not name:
        return ["must not be empty"]
    if _CONTROL.search(name):
        return ["must not contain control characters"]
    parts = name.split("\\")
    if len(parts) > 2:
        return ["must not contain more than one backslash"]
    domain, user = (parts[0], parts[1]) if len(parts) == 2 else ("", parts[0])
    complaints = []
    if len(domain) >= 256:
        complaints.append("the domain must be under 256 characters")
    if len(parts) == 2 and not (_NET_BIOS.fullmatch(domain) or _WINDOWS_DOMAIN.fullmatch(domain)):
        complaints.append("the domain must be a NetBIOS or DNS name")
    if not user:
        complaints.append("the user must not be empty")
    elif len(user) > 104:
        complaints.append("the user must not be longer than 104 characters")
    if _DOTS.fullmatch(user):
        complaints.append("the user must not consist of dots and spaces")
    if _WINDOWS_USER.search(user):
        complaints.append('the user must not contain any of "/\\:;|=,+*?<>@[]')
    return complaints


def validate_host_process(spec: core.PodSpec, errors: Errors, path: str) -> None:
    """Judge Windows' hostProcess containers: all or none, and in the node's network."""
    pod = spec.securityContext.windowsOptions if spec.securityContext.HasField("windowsOptions") else None
    pod_wish = pod.hostProcess if pod is not None and pod.HasField("hostProcess") else None
    total = chosen = 0
    for container, at in each_container(spec, path):
        total += 1
        wish = pod_wish
        if container.HasField("securityContext") and container.securityContext.HasField("windowsOptions"):
            options = container.securityContext.windowsOptions
            if options.HasField("hostProcess"):
                wish = options.hostProcess
                if pod_wish is not None and wish != pod_wish:
                    errors.invalid(
                        f"{at}.securityContext.windowsOptions.hostProcess", wish, f"must be {pod_wish} as for the pod"
                    )
        chosen += bool(wish)
    if chosen and chosen != total:
        errors.invalid(path, "", "if any container is a hostProcess container, all must be")
    if chosen and not spec.hostNetwork:
        errors.invalid(f"{path}.hostNetwork", False, "must be true if any container is a hostProcess container")


def validate_linux(spec: core.PodSpec, errors: Errors, path: str) -> None:
    """Note Windows' options in a pod that says it is for Linux."""
    if spec.securityContext.HasField("windowsOptions"):
        errors.forbidden(f"{path}.securityContext.windowsOptions", "windows options cannot be set for a linux pod")
    for container, at in each_container(spec, path):
        if container.HasField("securityContext") and container.securityContext.HasField("windowsOptions"):
            errors.forbidden(f"{at}.securityContext.windowsOptions", "windows options cannot be set for a linux pod")


_LINUX_CONTAINER = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip


def validate_windows(spec: core.PodSpec, errors: Errors, path: str) -> None:
    """Note Linux' options in a pod that says it is for Windows."""
    context = spec.securityContext
    at = f"{path}.securityContext"

    def forbid(present: bool, field: str) -> None:
        if present:
            errors.forbidden(field, WINDOWS)

    forbid(context.HasField("appArmorProfile"), f"{at}.appArmorProfile")
    forbid(context.HasField("seLinuxOptions"), f"{at}.seLinuxOptions")
    forbid(spec.HasField("hostUsers"), f"{path}.hostUsers")
    forbid(spec.hostPID, f"{path}.hostPID")
    forbid(spec.hostIPC, f"{path}.hostIPC")
    forbid(context.HasField("seccompProfile"), f"{at}.seccompProfile")
    forbid(context.HasField("fsGroup"), f"{at}.fsGroup")
    forbid(context.HasField("fsGroupChangePolicy"), f"{at}.fsGroupChangePolicy")
    forbid(len(context.sysctls) > 0, f"{at}.sysctls")
    forbid(spec.HasField("shareProcessNamespace"), f"{path}.shareProcessNamespace")
    forbid(context.HasField("runAsUser"), f"{at}.runAsUser")
    forbid(context.HasField("runAsGroup"), f"{at}.runAsGroup")
    forbid(len(context.supplementalGroups) > 0, f"{at}.supplementalGroups")
    forbid(context.HasField("supplementalGroupsPolicy"), f"{at}.supplementalGroupsPolicy")
    forbid(context.HasField("seLinuxChangePolicy"), f"{at}.seLinuxChangePolicy")
    for container, where in each_container(spec, path):
        if not container.HasField("securityContext"):
            continue
        own = container.securityContext
        for field in _LINUX_CONTAINER:
            forbid(own.HasField(field), f"{where}.securityContext.{field}")
