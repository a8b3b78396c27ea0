"""The specification of a pod, on its own and in the templates of workloads.

Rules: the API reference of ``PodSpec``. Causes come in the order in which the reference reports them.

A specification that proved valid is remembered by its bytes: controllers and benchmarks create thousands of pods that
differ only in name, and judging one costs more than everything else the server does with it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from wharfinger.api import quantity
from wharfinger.api.types import core, meta
from wharfinger.api.validation import containers, names, pod_annotations, resources, scheduling, security
from wharfinger.api.validation.common import MAX_INT32, is_ip, one_of, required_name
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.metadata import validate_annotations, validate_labels
from wharfinger.api.validation.pod_resources import container_requests
from wharfinger.api.validation.volumes import validate_volumes

RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_MAX_NAMESERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_CHARACTERS = 2048
_MAX_HOSTNAME = 64

_REMEMBERED = 2048
_LARGEST_REMEMBERED = 8192


class _Known:
    """Bytes of specifications that are valid in one setting, the least recently met forgotten first."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def __contains__(self, key: bytes) -> bool:
        if key not in self._known:
            return False
        self._known.move_to_end(key)
        return True

    def add(self, key: bytes) -> None:
        if len(key) <= _LARGEST_REMEMBERED:
            self._known[key] = None
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)


_VALID_PODS = _Known()
_VALID_TEMPLATES = _Known()


def validate_pod_spec(
    spec: core.PodSpec, errors: Errors, path: str, *, pod_name: str = "", is_pod: bool = False
) -> None:
    """Judge a specification; `pod_name` and `is_pod` are set for pods, not for templates."""
    known = _VALID_PODS if is_pod else _VALID_TEMPLATES
    key = spec.SerializeToString()
    if key in known:
        return
    before = len(errors)
    depends_on_name = _validate(spec, errors, path, pod_name=pod_name, is_pod=is_pod)
    if len(errors) == before and not depends_on_name:
        known.add(key)


def _validate(spec: core.PodSpec, errors: Errors, path: str, *, pod_name: str, is_pod: bool) -> bool:
    """Judge everything; return whether the answer depends on the pod's name."""
    has_grace = spec.HasField("terminationGracePeriodSeconds")
    if not has_grace:
        errors.required(f"{path}.terminationGracePeriodSeconds")
    volumes = validate_volumes(spec.volumes, errors, f"{path}.volumes", pod_name=pod_name, is_pod=is_pod)
    context = containers.PodContext(
        volumes=volumes,
        claims=_validate_claims(spec.resourceClaims, errors, f"{path}.resourceClaims"),
        grace_period=spec.terminationGracePeriodSeconds if has_grace else None,
        restart_policy=spec.restartPolicy,
        host_users=not spec.HasField("hostUsers") or spec.hostUsers,
        os=spec.os.name,
    )
    containers.validate_containers(spec.containers, context, errors, f"{path}.containers")
    if spec.initContainers:
        containers.validate_init_containers(
            spec.initContainers, spec.containers, context, errors, f"{path}.initContainers"
        )
    if spec.ephemeralContainers:
        containers.validate_ephemeral_containers(spec, context, errors, f"{path}.ephemeralContainers")
    if spec.HasField("resources"):
        _validate_resources(spec, errors, f"{path}.resources")
    if spec.hostNetwork:
        _validate_host_network(spec, errors, path, is_pod=is_pod)
    one_of(errors, f"{path}.restartPolicy", spec.restartPolicy, RESTART_POLICIES, required=True)
    one_of(errors, f"{path}.dnsPolicy", spec.dnsPolicy, DNS_POLICIES, required=True)
    validate_labels(spec.nodeSelector, errors, f"{path}.nodeSelector")
    if spec.HasField("securityContext"):
        security.validate_pod(spec.securityContext, spec, errors, f"{path}.securityContext")
    if spec.HasField("affinity"):
        scheduling.validate_affinity(spec.affinity, errors, f"{path}.affinity")
    _validate_dns(spec, errors, f"{path}.dnsConfig")
    for index, readiness in enumerate(spec.readinessGates):
        errors.complaints(
            f"{path}.readinessGates[{index}].conditionType",
            readiness.conditionType,
            names.qualified_name(readiness.conditionType),
        )
    _validate_gates(spec.schedulingGates, errors, f"{path}.schedulingGates")
    if spec.HasField("schedulingGroup"):
        group = spec.schedulingGroup.podGroupName
        required_name(errors, f"{path}.schedulingGroup.podGroupName", group, names.dns1123_subdomain)
    scheduling.validate_topology_spread(spec.topologySpreadConstraints, errors, f"{path}.topologySpreadConstraints")
    security.validate_host_process(spec, errors, path)
    if not context.host_users:
        for field, name in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if getattr(spec, field):
                errors.forbidden(f"{path}.{name}", "when `hostUsers` is false")
    _validate_names(spec, errors, path)
    if spec.HasField("os"):
        _validate_os(spec, errors, path)
    return any(volume.volumeSource.HasField("ephemeral") for volume in spec.volumes)


def _validate_names(spec: core.PodSpec, errors: Errors, path: str) -> None:
    for field in ("serviceAccountName", "nodeName"):
        value = getattr(spec, field)
        if value:
            errors.complaints(f"{path}.{field}", value, names.dns1123_subdomain(value))
    if spec.HasField("activeDeadlineSeconds") and not 1 <= spec.activeDeadlineSeconds <= MAX_INT32:
        errors.invalid(
            f"{path}.activeDeadlineSeconds",
            spec.activeDeadlineSeconds,
            f"must be between 1 and {MAX_INT32}, inclusive",
        )
    for field in ("hostname", "subdomain"):
        value = getattr(spec, field)
        if value:
            errors.complaints(f"{path}.{field}", value, names.dns1123_label(value))
    scheduling.validate_tolerations(spec.tolerations, errors, f"{path}.tolerations")
    for index, alias in enumerate(spec.hostAliases):
        is_ip(errors, f"{path}.hostAliases[{index}].ip", alias.ip)
        for number, hostname in enumerate(alias.hostnames):
            errors.complaints(
                f"{path}.hostAliases[{index}].hostnames[{number}]", hostname, names.dns1123_subdomain(hostname)
            )
    if spec.priorityClassName:
        errors.complaints(
            f"{path}.priorityClassName", spec.priorityClassName, names.dns1123_subdomain(spec.priorityClassName)
        )
    if spec.HasField("runtimeClassName"):
        errors.complaints(
            f"{path}.runtimeClassName", spec.runtimeClassName, names.dns1123_subdomain(spec.runtimeClassName)
        )
    if spec.HasField("preemptionPolicy"):
        one_of(errors, f"{path}.preemptionPolicy", spec.preemptionPolicy, PREEMPTION_POLICIES, required=True)
    if spec.overhead:
        resources.validate_list(spec.overhead, errors, f"{path}.overhead.limits", resources.container_resource_name)
    if spec.HasField("hostnameOverride"):
        _validate_hostname_override(spec, errors, path)


def _validate_hostname_override(spec: core.PodSpec, errors: Errors, path: str) -> None:
    name = spec.hostnameOverride
    if spec.setHostnameAsFQDN:
        errors.forbidden(f"{path}.hostnameOverride", "must not be set when `setHostnameAsFQDN` is true")
    if spec.hostNetwork:
        errors.forbidden(f"{path}.hostnameOverride", "must not be set when `hostNetwork` is true")
    errors.complaints(f"{path}.hostnameOverride", name, names.dns1123_subdomain(name))
    if len(name) > _MAX_HOSTNAME:
        errors.too_long(f"{path}.hostnameOverride", _MAX_HOSTNAME)


def _validate_claims(claims: Sequence[core.PodResourceClaim], errors: Errors, path: str) -> frozenset[str]:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        at, name = f"{path}[{index}]", claim.name
        if not name:
            errors.required(f"{at}.name")
        elif name in seen:
            errors.duplicate(f"{at}.name", name)
        else:
            errors.complaints(f"{at}.name", name, names.dns1123_label(name))
            seen.add(name)
        by_name, by_template = claim.HasField("resourceClaimName"), claim.HasField("resourceClaimTemplateName")
        if by_name and by_template:
            errors.invalid(at, name, "at most one of resourceClaimName and resourceClaimTemplateName may be specified")
        if not by_name and not by_template:
            errors.invalid(at, name, "must specify one of: resourceClaimName, resourceClaimTemplateName")
        for field in ("resourceClaimName", "resourceClaimTemplateName"):
            if claim.HasField(field):
                value = getattr(claim, field)
                errors.complaints(f"{at}.{field}", value, names.dns1123_subdomain(value))
    return frozenset(seen)


def _validate_resources(spec: core.PodSpec, errors: Errors, path: str) -> None:
    if spec.resources.claims:
        errors.forbidden(f"{path}.claims", "claims cannot be set for Resources at pod-level")
    resources.validate_requirements(spec.resources, errors, path, pod_level=True)
    zero = quantity.Quantity.of(0)
    for name, asked in container_requests(spec).items():
        if name not in resources.POD_LEVEL and not resources.is_huge_page(name):
            continue
        whole = spec.resources.requests[name].string if name in spec.resources.requests else ""
        if asked > (quantity.parse(whole) if whole else zero):
            errors.invalid(f"{path}.requests[{name}]", whole, f"must be at least what the containers ask for, {asked}")
    for index, container in enumerate(spec.containers):
        for name, limit in container.resources.limits.items():
            if name in spec.resources.limits:
                allowed = spec.resources.limits[name].string
                if quantity.parse(limit.string or "0") > quantity.parse(allowed or "0"):
                    errors.invalid(
                        f"{path}.containers[{index}][{name}].limits",
                        limit.string,
                        f"must be less than or equal to pod limits of {allowed}",
                    )


def _validate_host_network(spec: core.PodSpec, errors: Errors, path: str, *, is_pod: bool) -> None:
    for index, container in enumerate(spec.containers):
        for number, port in enumerate(container.ports):
            if (is_pod or port.hostPort) and port.hostPort != port.containerPort:
                errors.invalid(
                    f"{path}.containers[{index}].ports[{number}].hostPort",
                    port.hostPort,
                    "must match `containerPort` when `hostNetwork` is true",
                )


def _validate_dns(spec: core.PodSpec, errors: Errors, path: str) -> None:
    present = spec.HasField("dnsConfig")
    config = spec.dnsConfig
    if spec.dnsPolicy == "None":
        if not present:
            errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.nameservers:
            errors.required(f"{path}.nameservers", "must provide at least one nameserver when `dnsPolicy` is None")
            return
    if not present:
        return
    if len(config.nameservers) > _MAX_NAMESERVERS:
        errors.invalid(
            f"{path}.nameservers", list(config.nameservers), f"must not have more than {_MAX_NAMESERVERS} nameservers"
        )
    for index, server in enumerate(config.nameservers):
        is_ip(errors, f"{path}.nameservers[{index}]", server)
    if len(config.searches) > _MAX_SEARCHES:
        errors.invalid(
            f"{path}.searches", len(config.searches), f"must not have more than {_MAX_SEARCHES} search paths"
        )
    if len(" ".join(config.searches)) > _MAX_SEARCH_CHARACTERS:
        errors.invalid(
            f"{path}.searches", len(config.searches), f"must not have more than {_MAX_SEARCH_CHARACTERS} characters"
        )
    for index, search in enumerate(config.searches):
        if search != ".":
            bare = search.removesuffix(".")
            errors.complaints(f"{path}.searches[{index}]", bare, names.dns1123_subdomain_with_underscore(bare))
    for index, option in enumerate(config.options):
        if not option.name:
            errors.required(f"{path}.options[{index}]", "must not be empty")


def _validate_gates(gates: Sequence[core.PodSchedulingGate], errors: Errors, path: str) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        errors.complaints(f"{path}[{index}]", gate.name, names.qualified_name(gate.name))
        if gate.name in seen:
            errors.duplicate(f"{path}[{index}]", gate.name)
        seen.add(gate.name)


def _validate_os(spec: core.PodSpec, errors: Errors, path: str) -> None:
    name = spec.os.name
    if not name:
        errors.required(f"{path}.os.name", "cannot be empty")
    elif name == "linux":
        security.validate_linux(spec, errors, path)
    elif name == "windows":
        security.validate_windows(spec, errors, path)
    else:
        errors.not_supported(f"{path}.os", name, ("linux", "windows"))


def validate_template(template: core.PodTemplateSpec, errors: Errors, path: str) -> None:
    """Judge the template of a workload's pods."""
    metadata: meta.ObjectMeta = template.metadata
    validate_labels(metadata.labels, errors, f"{path}.labels")
    validate_annotations(metadata.annotations, errors, f"{path}.annotations")
    pod_annotations.validate(metadata.annotations, template.spec, errors, f"{path}.annotations")
    validate_pod_spec(template.spec, errors, f"{path}.spec")
    pod_annotations.validate_profiles(metadata.annotations, template.spec, errors, f"{path}.spec")
    if template.spec.ephemeralContainers:
        errors.forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")
