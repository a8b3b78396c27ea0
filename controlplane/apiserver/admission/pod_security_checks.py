"""The Pod Security Standards: what a pod may ask for at the levels *baseline* and *restricted*, version by version.

A check is a function from a pod to what it objects to, or nothing. The table at the end says which checks a level has
and since which minor version; restricted has all of baseline's, some of them in a stricter form. Contents and words
follow "Pod Security Standards" in Kubernetes' documentation and what its own admission says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wharfinger.api.types import core

Level = Literal["privileged", "baseline", "restricted"]
LATEST = 1 << 30
"""The version that stands for whatever is newest."""


@dataclass(frozen=True, slots=True)
class Violation:
    """What a check objects to."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


def _containers(pod: core.Pod) -> Iterator[Any]:
    """Init containers, containers, ephemeral ones; the latter have the same fields where it matters here."""
    yield from pod.spec.initContainers
    yield from pod.spec.containers
    for ephemeral in pod.spec.ephemeralContainers:
        yield ephemeral.ephemeralContainerCommon


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _named(names: Sequence[str], word: str = "container") -> str:
    """Return ``container "a"`` or ``containers "a", "b"``."""
    return f"{word if len(names) == 1 else word + 's'} {_quoted(names)}"


def _is_windows(pod: core.Pod) -> bool:
    return pod.spec.os.name == "windows"


# --- baseline


def _host_namespaces(pod: core.Pod) -> Violation | None:
    shared = [name for name in ("hostNetwork", "hostPID", "hostIPC") if getattr(pod.spec, name)]
    return Violation("host namespaces", ", ".join(f"{name}=true" for name in shared)) if shared else None


def _privileged(pod: core.Pod) -> Violation | None:
    bad = [item.name for item in _containers(pod) if item.securityContext.privileged]
    return Violation("privileged", f"{_named(bad)} must not set securityContext.privileged=true") if bad else None


_DEFAULT_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip


def _added(pod: core.Pod, allowed: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return the containers that add other capabilities, and which."""
    bad: list[str] = []
    added: set[str] = set()
    for item in _containers(pod):
        more = set(item.securityContext.capabilities.add) - allowed
        if more:
            bad.append(item.name)
            added |= more
    return bad, sorted(added)


def _capabilities_baseline(pod: core.Pod) -> Violation | None:
    bad, added = _added(pod, _DEFAULT_CAPABILITIES)
    if not bad:
        return None
    text = f"{_named(bad)} must not include {_quoted(added)} in securityContext.capabilities.add"
    return Violation("non-default capabilities", text)


def _host_path(pod: core.Pod) -> Violation | None:
    bad = [volume.name for volume in pod.spec.volumes if volume.volumeSource.HasField("hostPath")]
    return Violation("hostPath volumes", _named(bad, "volume")) if bad else None


def _host_ports(pod: core.Pod) -> Violation | None:
    bad: list[str] = []
    ports: list[str] = []
    for item in _containers(pod):
        found = [str(port.hostPort) for port in item.ports if port.hostPort]
        if found:
            bad.append(item.name)
            ports += [port for port in found if port not in ports]
    if not bad:
        return None
    word = "hostPort" if len(ports) == 1 else "hostPorts"
    return Violation("hostPort", f"{_named(bad)} {'uses' if len(bad) == 1 else 'use'} {word} {', '.join(ports)}")


_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def _app_armor(pod: core.Pod) -> Violation | None:
    bad: list[str] = []
    if _forbidden_profile(pod.spec.securityContext.appArmorProfile.type):
        bad.append(f'pod must not set AppArmor profile type to "{pod.spec.securityContext.appArmorProfile.type}"')
    containers: list[str] = []
    types: set[str] = set()
    for item in _containers(pod):
        profile = item.securityContext.appArmorProfile.type
        if _forbidden_profile(profile):
            containers.append(item.name)
            types.add(profile)
    if containers:
        bad.append(f"{_named(containers)} must not set AppArmor profile type to {_quoted(sorted(types))}")
    annotations = sorted(
        f'{name}="{value}"'
        for name, value in pod.metadata.annotations.items()
        if name.startswith(_APPARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    if annotations:
        bad.append(f"{'annotation' if len(annotations) == 1 else 'annotations'} {', '.join(annotations)}")
    if not bad:
        return None
    count = len(containers) + len(annotations) + (len(bad) - bool(containers) - bool(annotations))
    return Violation(f"forbidden AppArmor profile{'' if count == 1 else 's'}", "; ".join(bad))


def _forbidden_profile(profile: str) -> bool:
    return profile not in ("", "RuntimeDefault", "Localhost")


def _selinux(types: frozenset[str]) -> Callable[[core.Pod], Violation | None]:
    def check(pod: core.Pod) -> Violation | None:
        setters: list[str] = []
        wrong: set[str] = set()
        user = role = False

        def look(options: Any) -> bool:
            nonlocal user, role
            bad = bool(options.type and options.type not in types)
            if bad:
                wrong.add(options.type)
            user, role = user or bool(options.user), role or bool(options.role)
            return bad or bool(options.user) or bool(options.role)

        if look(pod.spec.securityContext.seLinuxOptions):
            setters.append("pod")
        bad = [item.name for item in _containers(pod) if look(item.securityContext.seLinuxOptions)]
        if bad:
            setters.append(_named(bad))
        if not setters:
            return None
        parts = [f"type{'' if len(wrong) == 1 else 's'} {_quoted(sorted(wrong))}"] if wrong else []
        parts += ["user may not be set"] if user else []
        parts += ["role may not be set"] if role else []
        text = f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(parts)}"
        return Violation("seLinuxOptions", text)

    return check


_SELINUX_TYPES = frozenset({"container_t", "container_init_t", "container_kvm_t"})


def _proc_mount(pod: core.Pod) -> Violation | None:
    bad: list[str] = []
    types: set[str] = set()
    for item in _containers(pod):
        mount = item.securityContext.procMount
        if mount not in ("", "Default"):
            bad.append(item.name)
            types.add(mount)
    if not bad:
        return None
    return Violation("procMount", f"{_named(bad)} must not set securityContext.procMount to {_quoted(sorted(types))}")


_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"


def _seccomp_annotations(pod: core.Pod) -> Violation | None:
    """Before fields there were annotations."""
    bad = [
        f'{name}="{value}"'
        for name, value in sorted(pod.metadata.annotations.items())
        if (name == _SECCOMP_POD or name.startswith(_SECCOMP_CONTAINER))
        and value not in ("runtime/default", "docker/default")
        and not value.startswith("localhost/")
    ]
    if not bad:
        return None
    word = "annotation" if len(bad) == 1 else "annotations"
    return Violation("seccompProfile", f"forbidden {word} {', '.join(bad)}")


def _seccomp_baseline(pod: core.Pod) -> Violation | None:
    parts: list[str] = []
    if pod.spec.securityContext.seccompProfile.type == "Unconfined":
        parts.append("pod")
    bad = [item.name for item in _containers(pod) if item.securityContext.seccompProfile.type == "Unconfined"]
    if bad:
        parts.append(_named(bad))
    if not parts:
        return None
    text = f'{" and ".join(parts)} must not set securityContext.seccompProfile.type to "Unconfined"'
    return Violation("seccompProfile", text)


def _sysctls(allowed: frozenset[str]) -> Callable[[core.Pod], Violation | None]:
    def check(pod: core.Pod) -> Violation | None:
        bad = [item.name for item in pod.spec.securityContext.sysctls if item.name not in allowed]
        return Violation("forbidden sysctls", ", ".join(bad)) if bad else None

    return check


_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start",
    }
)  # fmt: skip
_SYSCTLS_27 = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}  # fmt: skip
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


def _host_process(pod: core.Pod) -> Violation | None:
    parts: list[str] = []
    if pod.spec.securityContext.windowsOptions.hostProcess:
        parts.append("pod")
    bad = [item.name for item in _containers(pod) if item.securityContext.windowsOptions.hostProcess]
    if bad:
        parts.append(_named(bad))
    if not parts:
        return None
    return Violation(
        "hostProcess", f"{' and '.join(parts)} must not set securityContext.windowsOptions.hostProcess=true"
    )


def _host_probes(pod: core.Pod) -> Violation | None:
    bad: list[str] = []
    hosts: set[str] = set()
    for item in _containers(pod):
        handlers = [getattr(item, name).handler for name in ("livenessProbe", "readinessProbe", "startupProbe")]
        handlers += [item.lifecycle.postStart, item.lifecycle.preStop]
        found = {host for one in handlers for host in (one.httpGet.host, one.tcpSocket.host) if host}
        if found:
            bad.append(item.name)
            hosts |= found
    if not bad:
        return None
    use = "uses" if len(bad) == 1 else "use"
    return Violation("probe or lifecycle host", f"{_named(bad)} {use} probe or lifecycle host {_quoted(sorted(hosts))}")


# --- restricted

_VOLUMES = frozenset(
    {
        "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected",
        "secret",
    }
)  # fmt: skip


def _restricted_volumes(pod: core.Pod) -> Violation | None:
    bad: list[str] = []
    types: set[str] = set()
    for volume in pod.spec.volumes:
        sources = [field.name for field, _ in volume.volumeSource.ListFields()]
        if any(source not in _VOLUMES for source in sources):
            bad.append(volume.name)
            types.update(source for source in sources if source not in _VOLUMES)
    if not bad:
        return None
    word = "type" if len(types) == 1 else "types"
    use = "uses" if len(bad) == 1 else "use"
    return Violation(
        "restricted volume types", f"{_named(bad, 'volume')} {use} restricted volume {word} {_quoted(sorted(types))}"
    )


def _privilege_escalation(pod: core.Pod) -> Violation | None:
    bad = [
        item.name
        for item in _containers(pod)
        if not item.securityContext.HasField("allowPrivilegeEscalation")
        or item.securityContext.allowPrivilegeEscalation
    ]
    if not bad:
        return None
    text = f"{_named(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", text)


def _run_as_non_root(pod: core.Pod) -> Violation | None:
    whole = pod.spec.securityContext
    explicit = [
        item.name
        for item in _containers(pod)
        if item.securityContext.HasField("runAsNonRoot") and not item.securityContext.runAsNonRoot
    ]
    implicit = [item.name for item in _containers(pod) if not item.securityContext.HasField("runAsNonRoot")]
    parts: list[str] = []
    if whole.HasField("runAsNonRoot") and not whole.runAsNonRoot:
        parts.append("pod must not set securityContext.runAsNonRoot=false")
    if explicit:
        parts.append(f"{_named(explicit)} must not set securityContext.runAsNonRoot=false")
    if not parts and implicit and not whole.runAsNonRoot:
        parts.append(f"pod or {_named(implicit)} must set securityContext.runAsNonRoot=true")
    return Violation("runAsNonRoot != true", "; ".join(parts)) if parts else None


def _run_as_user(pod: core.Pod) -> Violation | None:
    def is_root(context: Any) -> bool:
        return bool(context.HasField("runAsUser") and context.runAsUser == 0)

    parts: list[str] = []
    if is_root(pod.spec.securityContext):
        parts.append("pod")
    bad = [item.name for item in _containers(pod) if is_root(item.securityContext)]
    if bad:
        parts.append(_named(bad))
    return Violation("runAsUser=0", f"{' and '.join(parts)} must not set runAsUser=0") if parts else None


def _seccomp_restricted(pod: core.Pod) -> Violation | None:
    unconfined = _seccomp_baseline(pod)
    if unconfined is not None:
        return unconfined
    if pod.spec.securityContext.seccompProfile.type:
        return None
    bad = [item.name for item in _containers(pod) if not item.securityContext.seccompProfile.type]
    if not bad:
        return None
    text = f'pod or {_named(bad)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", text)


def _capabilities_restricted(pod: core.Pod) -> Violation | None:
    parts: list[str] = []
    keeps = [item.name for item in _containers(pod) if "ALL" not in item.securityContext.capabilities.drop]
    if keeps:
        parts.append(f'{_named(keeps)} must set securityContext.capabilities.drop=["ALL"]')
    bad, added = _added(pod, frozenset({"NET_BIND_SERVICE"}))
    if bad:
        parts.append(f"{_named(bad)} must not include {_quoted(added)} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(parts)) if parts else None


def _not_on_windows(check: Callable[[core.Pod], Violation | None]) -> Callable[[core.Pod], Violation | None]:
    return lambda pod: None if _is_windows(pod) else check(pod)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A check of a level, as it is since some minor version of 1."""

    versions: tuple[tuple[int, Callable[[core.Pod], Violation | None]], ...]
    replaces: str = ""
    """The check of baseline that this one of restricted contains."""

    def at(self, minor: int) -> Callable[[core.Pod], Violation | None] | None:
        """Return the check as it was in a version; None when it was not there yet."""
        return next((check for since, check in reversed(self.versions) if since <= minor), None)


# By name in alphabetical order: that of Kubernetes' messages.
BASELINE: dict[str, _Entry] = {
    "appArmorProfile": _Entry(((0, _app_armor),)),
    "capabilities_baseline": _Entry(((0, _capabilities_baseline),)),
    "hostNamespaces": _Entry(((0, _host_namespaces),)),
    "hostPathVolumes": _Entry(((0, _host_path),)),
    "hostPorts": _Entry(((0, _host_ports),)),
    "hostProbesAndHostLifecycle": _Entry(((34, _host_probes),)),
    "privileged": _Entry(((0, _privileged),)),
    "procMount": _Entry(((0, _proc_mount),)),
    "seLinuxOptions": _Entry(
        ((0, _selinux(_SELINUX_TYPES)), (31, _selinux(_SELINUX_TYPES | {"container_engine_t"})))
    ),
    "seccompProfile_baseline": _Entry(((0, _seccomp_annotations), (19, _seccomp_baseline))),
    "sysctls": _Entry(
        (
            (0, _sysctls(_SYSCTLS)), (27, _sysctls(_SYSCTLS_27)), (29, _sysctls(_SYSCTLS_29)),
            (32, _sysctls(_SYSCTLS_32)),
        )
    ),
    "windowsHostProcess": _Entry(((0, _host_process),)),
}  # fmt: skip
RESTRICTED: dict[str, _Entry] = {
    "allowPrivilegeEscalation": _Entry(((8, _privilege_escalation), (25, _not_on_windows(_privilege_escalation)))),
    "capabilities_restricted": _Entry(
        ((22, _capabilities_restricted), (25, _not_on_windows(_capabilities_restricted))), "capabilities_baseline"
    ),
    "restrictedVolumes": _Entry(((0, _restricted_volumes),), "hostPathVolumes"),
    "runAsNonRoot": _Entry(((0, _run_as_non_root),)),
    "runAsUser": _Entry(((23, _run_as_user),)),
    "seccompProfile_restricted": _Entry(
        ((19, _seccomp_restricted), (25, _not_on_windows(_seccomp_restricted))), "seccompProfile_baseline"
    ),
}


def violations(pod: core.Pod, level: Level, minor: int) -> list[Violation]:
    """Return what a level objects to in a pod, as of version 1.`minor`."""
    if level == "privileged":
        return []
    checks = {name: check for name, entry in BASELINE.items() if (check := entry.at(minor)) is not None}
    if level == "restricted":
        for name, entry in RESTRICTED.items():
            check = entry.at(minor)
            if check is not None:
                checks.pop(entry.replaces, None)
                checks[name] = check
    return [found for check in checks.values() if (found := check(pod)) is not None]
