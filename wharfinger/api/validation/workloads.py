"""Workloads that keep pods running: replica sets, deployments, stateful and daemon sets, replication controllers.

Rules: the API references of these kinds. What a selector selects and the labels of the template have to agree, or the
controller would never find the pods it makes.
"""

from __future__ import annotations

from collections.abc import Mapping

from wharfinger.api.types import apps, autoscaling_v1, core, meta
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.common import (
    at_most_100_percent,
    count_or_percent,
    label_selector,
    nonnegative,
    one_of,
    positive_int_or_percent,
    selector_is_empty,
    selector_matches,
)
from wharfinger.api.validation.equality import semantic_equal
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.pod_spec import validate_template
from wharfinger.api.validation.registry import Rules

_NO_MATCH = "`selector` does not match template `labels`"
_EMPTY = "empty selector is invalid"
_STATEFUL_SET_UPDATES = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _validate_selection(
    spec: apps.ReplicaSetSpec | apps.DeploymentSpec | apps.StatefulSetSpec, kind: str, errors: Errors
) -> None:
    """Judge the selector of a workload, which must be there and select less than everything, and the template.

    Without a usable selector the template is not looked at.
    """
    if not spec.HasField("selector"):
        errors.required("spec.selector")
        _validate_template(spec.template, None, errors, "spec.template")
    elif not label_selector(spec.selector, errors, "spec.selector"):
        errors.invalid("spec.selector", "", "invalid label selector")
    else:
        if selector_is_empty(spec.selector):
            errors.invalid("spec.selector", "{}", f"{_EMPTY} for {kind}")
        _validate_template(spec.template, spec.selector, errors, "spec.template")


def _validate_template(
    template: core.PodTemplateSpec,
    selector: meta.LabelSelector | None,
    errors: Errors,
    path: str,
    *,
    matching: bool = True,
) -> None:
    """Judge a template of pods that run for ever; None selects nothing, which only matters with `matching`."""
    if matching and (selector is None or not selector_matches(selector, template.metadata.labels)):
        errors.invalid(f"{path}.metadata.labels", dict(template.metadata.labels), _NO_MATCH)
    validate_template(template, errors, path)
    _validate_runs_for_ever(template, errors, path)


def _validate_runs_for_ever(template: core.PodTemplateSpec, errors: Errors, path: str) -> None:
    if template.spec.restartPolicy != "Always":
        errors.not_supported(f"{path}.spec.restartPolicy", template.spec.restartPolicy, ("Always",))
    if template.spec.HasField("activeDeadlineSeconds"):
        errors.forbidden(f"{path}.spec.activeDeadlineSeconds", "may not be set for pods that run for ever")


# --- replica sets -----------------------------------------------------------------------------------------------------


def _replica_set_spec(spec: apps.ReplicaSetSpec, errors: Errors) -> None:
    nonnegative(errors, "spec.replicas", spec.replicas)
    nonnegative(errors, "spec.minReadySeconds", spec.minReadySeconds)
    _validate_selection(spec, "replicaset", errors)


def _create_replica_set(workload: apps.ReplicaSet, errors: Errors) -> None:
    metadata.validate_kind(workload.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    _replica_set_spec(workload.spec, errors)


def _immutable_selector(new: meta.LabelSelector, old: meta.LabelSelector, errors: Errors) -> None:
    if not semantic_equal(new, old):
        errors.invalid("spec.selector", "changed", metadata.IMMUTABLE)


def _update_replica_set(workload: apps.ReplicaSet, old: apps.ReplicaSet, errors: Errors) -> None:
    metadata.validate_kind_update(workload.metadata, old.metadata, errors)
    _replica_set_spec(workload.spec, errors)
    _immutable_selector(workload.spec.selector, old.spec.selector, errors)


_COUNTS = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")


def _replica_status(status: apps.ReplicaSetStatus | core.ReplicationControllerStatus, errors: Errors) -> None:
    for field in _COUNTS:
        nonnegative(errors, f"status.{field}", getattr(status, field))
    for field in ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"):
        value = getattr(status, field)
        if value > status.replicas:
            errors.invalid(f"status.{field}", value, "cannot be greater than status.replicas")
    if status.availableReplicas > status.readyReplicas:
        errors.invalid("status.availableReplicas", status.availableReplicas, "cannot be greater than readyReplicas")


def _update_replica_set_status(workload: apps.ReplicaSet, old: apps.ReplicaSet, errors: Errors) -> None:
    metadata.validate_kind_update(workload.metadata, old.metadata, errors)
    _replica_status(workload.status, errors)


# --- replication controllers ------------------------------------------------------------------------------------------


def _controller_spec(spec: core.ReplicationControllerSpec, errors: Errors) -> None:
    nonnegative(errors, "spec.minReadySeconds", spec.minReadySeconds)
    selector: Mapping[str, str] = spec.selector
    if not selector:
        errors.required("spec.selector")
    nonnegative(errors, "spec.replicas", spec.replicas)
    if not spec.HasField("template"):
        errors.required("spec.template")
        return
    labels = spec.template.metadata.labels
    if any(labels.get(key) != value for key, value in selector.items()):
        errors.invalid("spec.template.metadata.labels", dict(labels), _NO_MATCH)
    validate_template(spec.template, errors, "spec.template")
    _validate_runs_for_ever(spec.template, errors, "spec.template")


def _create_controller(workload: core.ReplicationController, errors: Errors) -> None:
    metadata.validate_kind(workload.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    _controller_spec(workload.spec, errors)


def _update_controller(workload: core.ReplicationController, old: core.ReplicationController, errors: Errors) -> None:
    metadata.validate_kind_update(workload.metadata, old.metadata, errors)
    _controller_spec(workload.spec, errors)


def _update_controller_status(
    workload: core.ReplicationController, old: core.ReplicationController, errors: Errors
) -> None:
    metadata.validate_kind_update(workload.metadata, old.metadata, errors)
    _replica_status(workload.status, errors)


# --- deployments ------------------------------------------------------------------------------------------------------


def _deployment_spec(spec: apps.DeploymentSpec, errors: Errors) -> None:
    nonnegative(errors, "spec.replicas", spec.replicas)
    _validate_selection(spec, "deployment", errors)
    _deployment_strategy(spec.strategy, errors, "spec.strategy")
    nonnegative(errors, "spec.minReadySeconds", spec.minReadySeconds)
    if spec.HasField("revisionHistoryLimit"):
        nonnegative(errors, "spec.revisionHistoryLimit", spec.revisionHistoryLimit)
    if spec.HasField("progressDeadlineSeconds"):
        nonnegative(errors, "spec.progressDeadlineSeconds", spec.progressDeadlineSeconds)
        if spec.progressDeadlineSeconds <= spec.minReadySeconds:
            errors.invalid(
                "spec.progressDeadlineSeconds", spec.progressDeadlineSeconds, "must be greater than minReadySeconds"
            )


def _deployment_strategy(strategy: apps.DeploymentStrategy, errors: Errors, path: str) -> None:
    if strategy.type == "Recreate":
        if strategy.HasField("rollingUpdate"):
            errors.forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif strategy.type == "RollingUpdate":
        if not strategy.HasField("rollingUpdate"):
            errors.required(f"{path}.rollingUpdate", "this should be defaulted and never be nil")
            return
        rolling = strategy.rollingUpdate
        at = f"{path}.rollingUpdate"
        positive_int_or_percent(rolling.maxUnavailable, errors, f"{at}.maxUnavailable")
        positive_int_or_percent(rolling.maxSurge, errors, f"{at}.maxSurge")
        if not count_or_percent(rolling.maxUnavailable) and not count_or_percent(rolling.maxSurge):
            errors.invalid(f"{at}.maxUnavailable", 0, "may not be 0 when `maxSurge` is 0")
        at_most_100_percent(rolling.maxUnavailable, errors, f"{at}.maxUnavailable")
    else:
        one_of(errors, f"{path}.type", strategy.type, ("Recreate", "RollingUpdate"))


def _create_deployment(workload: apps.Deployment, errors: Errors) -> None:
    metadata.validate_kind(workload.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    _deployment_spec(workload.spec, errors)


def _update_deployment(workload: apps.Deployment, old: apps.Deployment, errors: Errors) -> None:
    metadata.validate_kind_update(workload.metadata, old.metadata, errors)
    _deployment_spec(workload.spec, errors)
    _immutable_selector(workload.spec.selector, old.spec.selector, errors)


def _update_deployment_status(workload: apps.Deployment, old: apps.Deployment, errors: Errors) -> None:
    metadata.validate_kind_update(workload.metadata, old.metadata, errors)
    status = workload.status
    for field in (
        "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
        "unavailableReplicas",
    ):  # fmt: skip
        nonnegative(errors, f"status.{field}", getattr(status, field))
    if status.HasField("collisionCount"):
        nonnegative(errors, "status.collisionCount", status.collisionCount)
    for field in ("updatedReplicas", "readyReplicas", "availableReplicas"):
        value = getattr(status, field)
        if value > status.replicas:
            errors.invalid(f"status.{field}", value, "cannot be greater than status.replicas")
    if status.availableReplicas > status.readyReplicas:
        errors.invalid("status.availableReplicas", status.availableReplicas, "cannot be greater than readyReplicas")
    if old.status.HasField("collisionCount") and status.collisionCount < old.status.collisionCount:
        errors.invalid("status.collisionCount", status.collisionCount, "cannot be decremented")


# --- stateful sets ----------------------------------------------------------------------------------------------------


def _stateful_set_spec(spec: apps.StatefulSetSpec, errors: Errors) -> None:
    policy = spec.podManagementPolicy
    if not policy:
        errors.required("spec.podManagementPolicy")
    elif policy not in ("OrderedReady", "Parallel"):
        errors.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    _stateful_set_strategy(spec.updateStrategy, errors, "spec.updateStrategy")
    retention = spec.persistentVolumeClaimRetentionPolicy
    if spec.HasField("persistentVolumeClaimRetentionPolicy"):
        for field in ("whenDeleted", "whenScaled"):
            one_of(
                errors, f"spec.persistentVolumeClaimRetentionPolicy.{field}", getattr(retention, field),
                ("Retain", "Delete"), required=True,
            )  # fmt: skip
    nonnegative(errors, "spec.replicas", spec.replicas)
    nonnegative(errors, "spec.minReadySeconds", spec.minReadySeconds)
    if spec.HasField("ordinals"):
        nonnegative(errors, "spec.ordinals.start", spec.ordinals.start)
    _validate_selection(_with_claims(spec), "statefulset", errors)
    if spec.serviceName:
        errors.complaints("spec.serviceName", spec.serviceName, names.dns1123_subdomain(spec.serviceName))
    if spec.HasField("revisionHistoryLimit"):
        nonnegative(errors, "spec.revisionHistoryLimit", spec.revisionHistoryLimit)


def _with_claims(spec: apps.StatefulSetSpec) -> apps.StatefulSetSpec:
    """Return the spec with a volume in the template for each claim template, as its pods will have it."""
    there = {volume.name for volume in spec.template.spec.volumes}
    missing = dict.fromkeys(claim.metadata.name for claim in spec.volumeClaimTemplates if claim.metadata.name)
    result = apps.StatefulSetSpec()
    result.CopyFrom(spec)
    for name in missing:
        if name not in there:
            result.template.spec.volumes.add(name=name).volumeSource.persistentVolumeClaim.claimName = name
    return result


def _stateful_set_strategy(strategy: apps.StatefulSetUpdateStrategy, errors: Errors, path: str) -> None:
    if not strategy.type:
        errors.required(path)
    elif strategy.type == "OnDelete":
        if strategy.HasField("rollingUpdate"):
            errors.invalid(f"{path}.rollingUpdate", "set", "only allowed for updateStrategy 'RollingUpdate'")
    elif strategy.type == "RollingUpdate":
        if strategy.HasField("rollingUpdate"):
            rolling = strategy.rollingUpdate
            nonnegative(errors, f"{path}.rollingUpdate.partition", rolling.partition)
            if rolling.HasField("maxUnavailable"):
                at = f"{path}.rollingUpdate.maxUnavailable"
                positive_int_or_percent(rolling.maxUnavailable, errors, at)
                if not count_or_percent(rolling.maxUnavailable):
                    errors.invalid(at, 0, "cannot be 0")
                at_most_100_percent(rolling.maxUnavailable, errors, at)
    else:
        errors.invalid(path, strategy.type, "must be 'RollingUpdate' or 'OnDelete'")


def _create_stateful_set(workload: apps.StatefulSet, errors: Errors) -> None:
    metadata.validate_kind(workload.metadata, errors, namespaced=True, name=names.dns1123_label)
    _stateful_set_spec(workload.spec, errors)


def _update_stateful_set(workload: apps.StatefulSet, old: apps.StatefulSet, errors: Errors) -> None:
    metadata.validate_kind_update(workload.metadata, old.metadata, errors)
    _stateful_set_spec(workload.spec, errors)
    spec = apps.StatefulSetSpec()
    spec.CopyFrom(workload.spec)
    for field in (
        "replicas", "template", "updateStrategy", "minReadySeconds", "ordinals", "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ):  # fmt: skip
        spec.ClearField(field)
        if old.spec.HasField(field):
            value = getattr(old.spec, field)
            if isinstance(value, int):
                setattr(spec, field, value)
            else:
                getattr(spec, field).CopyFrom(value)
    if not semantic_equal(spec, old.spec):
        errors.forbidden("spec", _STATEFUL_SET_UPDATES)


def _update_stateful_set_status(workload: apps.StatefulSet, old: apps.StatefulSet, errors: Errors) -> None:
    metadata.validate_kind_update(workload.metadata, old.metadata, errors)
    status = workload.status
    for field in ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"):
        nonnegative(errors, f"status.{field}", getattr(status, field))
    nonnegative(errors, "status.observedGeneration", status.observedGeneration)
    if status.HasField("collisionCount"):
        nonnegative(errors, "status.collisionCount", status.collisionCount)
    for field in ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"):
        value = getattr(status, field)
        if value > status.replicas:
            errors.invalid(f"status.{field}", value, "cannot be greater than status.replicas")
    if status.availableReplicas > status.readyReplicas:
        errors.invalid(
            "status.availableReplicas", status.availableReplicas, "cannot be greater than status.readyReplicas"
        )


# --- daemon sets ------------------------------------------------------------------------------------------------------


def _daemon_set_spec(spec: apps.DaemonSetSpec, errors: Errors) -> None:
    usable = True
    if spec.HasField("selector"):
        usable = label_selector(spec.selector, errors, "spec.selector")
        if selector_is_empty(spec.selector):
            errors.invalid("spec.selector", "{}", f"{_EMPTY} for daemonset")
    selector = spec.selector if spec.HasField("selector") else None
    _validate_template(spec.template, selector, errors, "spec.template", matching=usable)
    nonnegative(errors, "spec.minReadySeconds", spec.minReadySeconds)
    _daemon_set_strategy(spec.updateStrategy, errors, "spec.updateStrategy")
    if spec.HasField("revisionHistoryLimit"):
        nonnegative(errors, "spec.revisionHistoryLimit", spec.revisionHistoryLimit)


def _daemon_set_strategy(strategy: apps.DaemonSetUpdateStrategy, errors: Errors, path: str) -> None:
    if strategy.type == "RollingUpdate":
        at = f"{path}.rollingUpdate"
        if not strategy.HasField("rollingUpdate"):
            errors.required(at)
            return
        rolling = strategy.rollingUpdate
        for field in ("maxUnavailable", "maxSurge"):
            positive_int_or_percent(getattr(rolling, field), errors, f"{at}.{field}")
            at_most_100_percent(getattr(rolling, field), errors, f"{at}.{field}")
        unavailable, surge = count_or_percent(rolling.maxUnavailable), count_or_percent(rolling.maxSurge)
        if unavailable and surge:
            errors.invalid(f"{at}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
        elif not unavailable and not surge:
            errors.required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif strategy.type != "OnDelete":
        one_of(errors, path, strategy.type, ("RollingUpdate", "OnDelete"))


def _create_daemon_set(workload: apps.DaemonSet, errors: Errors) -> None:
    metadata.validate_kind(workload.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    _daemon_set_spec(workload.spec, errors)


def _update_daemon_set(workload: apps.DaemonSet, old: apps.DaemonSet, errors: Errors) -> None:
    metadata.validate_kind_update(workload.metadata, old.metadata, errors)
    _daemon_set_spec(workload.spec, errors)
    _immutable_selector(workload.spec.selector, old.spec.selector, errors)


def _update_daemon_set_status(workload: apps.DaemonSet, old: apps.DaemonSet, errors: Errors) -> None:
    metadata.validate_kind_update(workload.metadata, old.metadata, errors)
    for field in (
        "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
        "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable",
    ):  # fmt: skip
        nonnegative(errors, f"status.{field}", getattr(workload.status, field))
    if workload.status.HasField("collisionCount"):
        nonnegative(errors, "status.collisionCount", workload.status.collisionCount)


# --- the scale of any of them, and revisions --------------------------------------------------------------------------


def _create_scale(scale: autoscaling_v1.Scale, errors: Errors) -> None:
    metadata.validate_kind(scale.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    nonnegative(errors, "spec.replicas", scale.spec.replicas)


def _update_scale(scale: autoscaling_v1.Scale, old: autoscaling_v1.Scale, errors: Errors) -> None:
    _create_scale(scale, errors)


def _create_revision(revision: apps.ControllerRevision, errors: Errors) -> None:
    metadata.validate_kind(revision.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    if not revision.data.ByteSize():
        errors.required("data", "data is mandatory")
    nonnegative(errors, "revision", revision.revision)


def _update_revision(revision: apps.ControllerRevision, old: apps.ControllerRevision, errors: Errors) -> None:
    metadata.validate_kind_update(revision.metadata, old.metadata, errors)
    _create_revision(revision, errors)
    metadata.immutable(errors, "data", revision.data, old.data)


RULES = {
    apps.ReplicaSet: Rules(_create_replica_set, _update_replica_set, {"status": _update_replica_set_status}),
    apps.Deployment: Rules(_create_deployment, _update_deployment, {"status": _update_deployment_status}),
    apps.StatefulSet: Rules(_create_stateful_set, _update_stateful_set, {"status": _update_stateful_set_status}),
    apps.DaemonSet: Rules(_create_daemon_set, _update_daemon_set, {"status": _update_daemon_set_status}),
    apps.ControllerRevision: Rules(_create_revision, _update_revision),
    core.ReplicationController: Rules(_create_controller, _update_controller, {"status": _update_controller_status}),
    autoscaling_v1.Scale: Rules(_create_scale, _update_scale),
}
