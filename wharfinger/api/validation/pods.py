"""Pods: new ones, what may change later, their status, and the bindings that place them.

Rules: the API reference of ``Pod``, and "Pod update and replacement" in Kubernetes' documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.api.pods import qos_class
from wharfinger.api.types import core
from wharfinger.api.validation import containers, metadata, names, pod_annotations, scheduling
from wharfinger.api.validation.common import MAX_INT32, is_dual_stack, is_ip, one_of
from wharfinger.api.validation.equality import semantic_equal
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.pod_spec import validate_pod_spec, validate_template
from wharfinger.api.validation.registry import Rules

_UPDATABLE = (
    "pod updates may not change fields other than spec.containers[*].image, spec.initContainers[*].image, "
    "spec.activeDeadlineSeconds, spec.tolerations (only additions to existing tolerations), "
    "spec.terminationGracePeriodSeconds (allow it to be set to 1 if it was previously negative)"
)
_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})


def _validate(pod: core.Pod, errors: Errors) -> None:
    spec, own = pod.spec, pod.metadata
    metadata.validate_kind(own, errors, namespaced=True, name=names.dns1123_subdomain)
    marks = own.annotations
    if marks:
        pod_annotations.validate(marks, spec, errors, "metadata.annotations")
    validate_pod_spec(spec, errors, "spec", pod_name=own.name, is_pod=True)
    if not spec.serviceAccountName:
        for index, volume in enumerate(spec.volumes):
            for number, source in enumerate(volume.volumeSource.projected.sources):
                if source.HasField("serviceAccountToken"):
                    errors.forbidden(
                        f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken",
                        "must not be specified when serviceAccountName is not set",
                    )
    for index, container in enumerate(spec.containers):
        containers.validate_image_padding(container, errors, f"spec.containers[{index}]")
    for index, container in enumerate(spec.initContainers):
        containers.validate_image_padding(container, errors, f"spec.initContainers[{index}]")


def _create(pod: core.Pod, errors: Errors) -> None:
    _validate(pod, errors)
    spec = pod.spec
    if spec.ephemeralContainers:
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.nodeName and spec.schedulingGates:
        errors.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    pod_annotations.validate_profiles(pod.metadata.annotations, spec, errors, "spec")


def _update(pod: core.Pod, old: core.Pod, errors: Errors) -> None:
    metadata.validate_kind_update(pod.metadata, old.metadata, errors)
    _validate(pod, errors)
    pod_annotations.validate_update(
        pod.metadata.annotations, old.metadata.annotations, pod.spec, errors, "metadata.annotations"
    )
    spec, was = pod.spec, old.spec
    for field in ("containers", "initContainers"):
        if not _validate_images(getattr(spec, field), getattr(was, field), errors, f"spec.{field}"):
            return
    if not _validate_deadline(spec, was, errors):
        return
    _validate_tolerations(spec.tolerations, was.tolerations, errors, "spec.tolerations")
    _validate_gates(spec.schedulingGates, was.schedulingGates, errors, "spec.schedulingGates")
    if spec == was:
        return
    allowed = core.PodSpec()
    allowed.CopyFrom(spec)
    _undo_allowed_changes(allowed, was, errors)
    if not semantic_equal(allowed, was):
        errors.forbidden("spec", _UPDATABLE)


def _validate_images(new: Sequence[core.Container], old: Sequence[core.Container], errors: Errors, path: str) -> bool:
    if len(new) != len(old):
        errors.forbidden(path, "pod updates may not add or remove containers")
        return False
    for index, container in enumerate(new):
        if not container.image:
            errors.required(f"{path}[{index}].image")
        containers.validate_image_padding(container, errors, f"{path}[{index}]")
    return True


def _validate_deadline(spec: core.PodSpec, was: core.PodSpec, errors: Errors) -> bool:
    path, before = "spec.activeDeadlineSeconds", was.activeDeadlineSeconds
    if spec.HasField("activeDeadlineSeconds"):
        seconds = spec.activeDeadlineSeconds
        if not 0 <= seconds <= MAX_INT32:
            errors.invalid(path, seconds, f"must be between 0 and {MAX_INT32}, inclusive")
            return False
        if was.HasField("activeDeadlineSeconds") and before < seconds:
            errors.invalid(path, seconds, "must be less than or equal to previous value")
            return False
    elif was.HasField("activeDeadlineSeconds"):
        errors.invalid(path, None, "must not update from a positive integer to nil value")
    return True


def _validate_tolerations(
    new: Sequence[core.Toleration], old: Sequence[core.Toleration], errors: Errors, path: str
) -> None:
    def identity(toleration: core.Toleration) -> tuple[str, str, str, str]:
        return toleration.key, toleration.operator, toleration.value, toleration.effect

    present = {identity(toleration) for toleration in new}
    if any(identity(toleration) not in present for toleration in old):
        errors.forbidden(path, "existing toleration can not be modified except its tolerationSeconds")
        return
    scheduling.validate_tolerations(new, errors, path)


def _validate_gates(
    new: Sequence[core.PodSchedulingGate], old: Sequence[core.PodSchedulingGate], errors: Errors, path: str
) -> None:
    known = {gate.name for gate in old}
    for index, gate in enumerate(new):
        if gate.name not in known:
            errors.forbidden(f"{path}[{index}].name", f"only deletion is allowed, but found new gate {gate.name!r}")


def _undo_allowed_changes(spec: core.PodSpec, was: core.PodSpec, errors: Errors) -> None:
    """Set back in `spec` what may change; what differs afterwards may not."""
    for field in ("containers", "initContainers"):
        for container, before in zip(getattr(spec, field), getattr(was, field), strict=True):
            container.image = before.image
    _restore(spec, was, "activeDeadlineSeconds")
    for field in ("schedulingGates", "tolerations"):
        spec.ClearField(field)
        getattr(spec, field).extend(getattr(was, field))
    if was.terminationGracePeriodSeconds < 0 and spec.terminationGracePeriodSeconds == 1:
        _restore(spec, was, "terminationGracePeriodSeconds")
    if not was.schedulingGates:
        return
    if spec.nodeSelector != was.nodeSelector:
        if any(spec.nodeSelector.get(key) != value for key, value in was.nodeSelector.items()):
            errors.invalid(
                "spec.nodeSelector", dict(spec.nodeSelector), "only additions are allowed (no mutations or deletions)"
            )
        spec.nodeSelector.clear()
        spec.nodeSelector.update(was.nodeSelector)
    new, old = spec.affinity.nodeAffinity, was.affinity.nodeAffinity
    if semantic_equal(new, old) and spec.affinity.HasField("nodeAffinity") == was.affinity.HasField("nodeAffinity"):
        return
    _validate_node_affinity(new, old, errors, "spec.affinity.nodeAffinity")
    if was.affinity.HasField("nodeAffinity"):
        spec.affinity.nodeAffinity.CopyFrom(old)
    else:
        spec.affinity.ClearField("nodeAffinity")
        if not was.HasField("affinity") and not spec.affinity.ByteSize():
            spec.ClearField("affinity")


def _restore(spec: core.PodSpec, was: core.PodSpec, field: str) -> None:
    if was.HasField(field):
        setattr(spec, field, getattr(was, field))
    else:
        spec.ClearField(field)


def _validate_node_affinity(new: core.NodeAffinity, old: core.NodeAffinity, errors: Errors, path: str) -> None:
    """Judge the node affinity of a gated pod: it may only become stricter."""
    if not old.HasField("requiredDuringSchedulingIgnoredDuringExecution"):
        return
    at = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    before = old.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms
    after = new.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms
    if before and len(before) != len(after):
        errors.invalid(at, len(after), "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for index, term in enumerate(before):
        if not _only_adds(after[index], term):
            errors.invalid(f"{at}[{index}]", index, "only additions are allowed (no mutations or deletions)")


def _only_adds(new: core.NodeSelectorTerm, old: core.NodeSelectorTerm) -> bool:
    if not old.matchExpressions and not old.matchFields:
        return not new.matchExpressions and not new.matchFields
    for field in ("matchExpressions", "matchFields"):
        before, after = getattr(old, field), getattr(new, field)
        if len(after) < len(before):
            return False
        if any(not semantic_equal(a, b) for a, b in zip(after, before, strict=False)):
            return False
    return True


def _update_status(pod: core.Pod, old: core.Pod, errors: Errors) -> None:
    metadata.validate_kind_update(pod.metadata, old.metadata, errors)
    pod_annotations.validate_update(
        pod.metadata.annotations, old.metadata.annotations, pod.spec, errors, "metadata.annotations"
    )
    status, was = pod.status, old.status
    for index, condition in enumerate(status.conditions):
        if condition.type not in _SYSTEM_CONDITIONS:
            # "metadata" is where the reference reports it.
            errors.complaints(
                f"metadata.conditions[{index}].Type", condition.type, names.qualified_name(condition.type)
            )
    if pod.spec.nodeName != old.spec.nodeName:
        errors.forbidden("status.nodeName", "may not be changed directly")
    if status.nominatedNodeName and status.nominatedNodeName != was.nominatedNodeName:
        errors.complaints(
            "status.nominatedNodeName", status.nominatedNodeName, names.dns1123_subdomain(status.nominatedNodeName)
        )
    if status.qosClass != was.qosClass:
        errors.invalid("status.qosClass", status.qosClass, metadata.IMMUTABLE)
    _validate_transitions(pod, old, errors)
    _validate_claim_statuses(pod, errors)
    _validate_addresses([ip.ip for ip in status.podIPs], errors, "status.podIPs")
    host_ips = [ip.ip for ip in status.hostIPs]
    if host_ips and status.hostIP != host_ips[0]:
        errors.invalid("status.hostIPs[0].ip", host_ips[0], "must be equal to `hostIP`")
    _validate_addresses(host_ips, errors, "status.hostIPs")
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        _validate_users(getattr(status, field), pod.spec.os.name or "linux", errors, f"status.{field}")


def _validate_transitions(pod: core.Pod, old: core.Pod, errors: Errors) -> None:
    policy = old.spec.restartPolicy
    regular = {container.name: container for container in old.spec.containers}
    sidecars = {container.name for container in old.spec.initContainers if container.restartPolicy == "Always"}
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        restart = "Never" if field == "ephemeralContainerStatuses" else policy
        if restart == "Always":
            continue
        running = {status.name for status in getattr(pod.status, field) if not status.state.HasField("terminated")}
        for index, status in enumerate(getattr(old.status, field)):
            if not status.state.HasField("terminated") or status.name not in running:
                continue
            if status.state.terminated.exitCode and restart == "OnFailure":
                continue
            container = regular.get(status.name) if field == "containerStatuses" else None
            restarts_itself = container is not None and (
                container.restartPolicy in ("Always", "OnFailure") or len(container.restartPolicyRules) > 0
            )
            if restarts_itself or (field == "initContainerStatuses" and status.name in sidecars):
                continue
            errors.forbidden(f"status.{field}[{index}].state", "may not be transitioned to non-terminated state")


def _validate_claim_statuses(pod: core.Pod, errors: Errors) -> None:
    claims = {claim.name for claim in pod.spec.resourceClaims}
    seen: set[str] = set()
    for index, status in enumerate(pod.status.resourceClaimStatuses):
        path = f"status.resourceClaimStatuses[{index}].name"
        if status.name not in claims:
            errors.invalid(path, status.name, "must match the name of an entry in `spec.resourceClaims`")
        if status.name in seen:
            errors.duplicate(path, status.name)
        seen.add(status.name)
        if status.HasField("resourceClaimName"):
            errors.complaints(path, status.resourceClaimName, names.dns1123_subdomain(status.resourceClaimName))


def _validate_addresses(addresses: list[str], errors: Errors, path: str) -> None:
    for index, address in enumerate(addresses):
        is_ip(errors, f"{path}[{index}]", address)
    if len(addresses) < 2:
        return
    if len(addresses) > 2 or not is_dual_stack(addresses):
        errors.invalid(path, addresses, "may specify no more than one IP for each IP family")
    for index, address in enumerate(addresses):
        if address in addresses[:index]:
            errors.duplicate(f"{path}[{index}]", address)


def _validate_users(statuses: Sequence[core.ContainerStatus], os: str, errors: Errors, path: str) -> None:
    for index, status in enumerate(statuses):
        if not status.HasField("user") or not status.user.HasField("linux"):
            continue
        at, user = f"{path}[{index}].linux", status.user.linux
        if os == "windows":
            errors.forbidden(at, "cannot be set for a windows pod")
            continue
        errors.complaints(f"{at}.uid", user.uid, names.user_id(user.uid))
        errors.complaints(f"{at}.gid", user.gid, names.user_id(user.gid))
        for number, group in enumerate(user.supplementalGroups):
            errors.complaints(f"{at}.supplementalGroups[{number}]", group, names.user_id(group))


def _update_ephemeral(pod: core.Pod, old: core.Pod, errors: Errors) -> None:
    metadata.validate_kind_update(pod.metadata, old.metadata, errors)
    _validate(pod, errors)
    pod_annotations.validate_update(
        pod.metadata.annotations, old.metadata.annotations, pod.spec, errors, "metadata.annotations"
    )
    if pod_annotations.MIRROR in old.metadata.annotations:
        errors.clear()
        errors.forbidden("", "static pods do not support ephemeral containers")
        return
    present = {container.ephemeralContainerCommon.name: container for container in pod.spec.ephemeralContainers}
    for container in old.spec.ephemeralContainers:
        name = container.ephemeralContainerCommon.name
        if name not in present:
            errors.forbidden("spec.ephemeralContainers", f"existing ephemeral container {name!r} may not be removed")
        elif not semantic_equal(container, present[name]):
            errors.forbidden("spec.ephemeralContainers", f"existing ephemeral container {name!r} may not be changed")


def _update_resize(pod: core.Pod, old: core.Pod, errors: Errors) -> None:
    metadata.validate_kind_update(pod.metadata, old.metadata, errors)
    _validate(pod, errors)
    for unsupported, why in (
        (pod_annotations.MIRROR in old.metadata.annotations, "static pods cannot be resized"),
        (old.spec.os.name == "windows", "windows pods cannot be resized"),
    ):
        if unsupported:
            errors.clear()
            errors.forbidden("", why)
            return
    if (old.status.qosClass or qos_class(old)) != qos_class(pod):
        errors.invalid("spec", old.status.qosClass, "Pod QOS Class may not change as a result of resizing")
    spec, was = core.PodSpec(), old.spec
    spec.CopyFrom(pod.spec)
    if len(spec.containers) != len(was.containers) or len(spec.initContainers) != len(was.initContainers):
        errors.forbidden("spec", "only cpu and memory resources are mutable")
        return
    for field in ("initContainers", "containers"):
        for index, (container, before) in enumerate(zip(getattr(spec, field), getattr(was, field), strict=True)):
            if field == "initContainers" and before.restartPolicy != "Always":
                if not semantic_equal(container, before):
                    errors.forbidden("spec", "resources for non-sidecar init containers are immutable")
                continue
            _validate_resize(container, before, errors, f"spec.{field}[{index}].resources")
            _restore_compute(container, before)
            if not semantic_equal(container, before):
                errors.forbidden("spec", "only cpu and memory resources are mutable")
    if not errors and not semantic_equal(spec, was):
        errors.forbidden("spec", "only cpu and memory resources are mutable")


def _validate_resize(container: core.Container, before: core.Container, errors: Errors, path: str) -> None:
    new, old = container.resources, before.resources
    for field in ("requests", "limits"):
        if any(name not in getattr(new, field) for name in getattr(old, field)):
            errors.forbidden(f"{path}.{field}", f"resource {field} cannot be removed")


def _restore_compute(container: core.Container, before: core.Container) -> None:
    for field in ("requests", "limits"):
        new, old = getattr(container.resources, field), getattr(before.resources, field)
        for name in ("cpu", "memory"):
            if name in old:
                new[name].CopyFrom(old[name])
            elif name in new:
                del new[name]


def _create_template(template: core.PodTemplate, errors: Errors) -> None:
    metadata.validate_kind(template.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    validate_template(template.template, errors, "template")


def _update_template(template: core.PodTemplate, old: core.PodTemplate, errors: Errors) -> None:
    metadata.validate_kind_update(template.metadata, old.metadata, errors)
    validate_template(template.template, errors, "template")


def _create_binding(binding: core.Binding, errors: Errors) -> None:
    target = binding.target
    if target.kind:
        one_of(errors, "target.kind", target.kind, ("Node", "<empty>"))
    if not target.name:
        errors.required("target.name")


def _update_binding(binding: core.Binding, old: core.Binding, errors: Errors) -> None:
    _create_binding(binding, errors)


RULES = {
    core.Pod: Rules(
        create=_create,
        update=_update,
        subresources={
            "status": _update_status,
            "ephemeralcontainers": _update_ephemeral,
            "resize": _update_resize,
        },
    ),
    core.PodTemplate: Rules(create=_create_template, update=_update_template),
    core.Binding: Rules(create=_create_binding, update=_update_binding),
}
