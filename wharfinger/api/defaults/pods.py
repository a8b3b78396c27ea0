"""What a pod's specification means where it is silent.

Rules: the API reference of ``PodSpec`` and ``Container``. A specification in a template gets less than a pod: what only
concerns running pods is filled in when the pod is made.

Like validation, this remembers what it has done: the bytes of a specification before and after. Pods of one template
differ in their names, not in these.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from wharfinger.api import quantity
from wharfinger.api.defaults.amounts import copy_missing, round_up
from wharfinger.api.defaults.images import pull_policy
from wharfinger.api.types import core

FILE_MODE = 0o644
TOKEN_SECONDS = 3600
GRACE_SECONDS = 30
_CLAIM_MODE = "Filesystem"

_REMEMBERED = 2048
_LARGEST_REMEMBERED = 8192
_DONE: OrderedDict[bytes, bytes] = OrderedDict()


def apply_pod(pod: core.Pod) -> None:
    """Fill in a pod."""
    spec = pod.spec
    before = spec.SerializeToString()
    after = _DONE.get(before)
    if after is not None:
        _DONE.move_to_end(before)
        if after != before:
            spec.ParseFromString(after)
    else:
        _apply_pod_parts(spec)
        apply_spec(spec)
        if len(before) <= _LARGEST_REMEMBERED:
            _DONE[before] = spec.SerializeToString()
            if len(_DONE) > _REMEMBERED:
                _DONE.popitem(last=False)
    if pod.HasField("status"):
        _apply_status(pod.status)


def _apply_pod_parts(spec: core.PodSpec) -> None:
    """Fill in what templates leave open."""
    for containers in (spec.containers, spec.initContainers):
        for container in containers:
            if container.HasField("resources") and container.resources.limits:
                copy_missing(container.resources.requests, container.resources.limits)
    if spec.HasField("resources"):
        _apply_pod_resources(spec)
    if not spec.HasField("enableServiceLinks"):
        spec.enableServiceLinks = True
    if spec.hostNetwork:
        for containers in (spec.containers, spec.initContainers):
            for container in containers:
                for port in container.ports:
                    if not port.hostPort:
                        port.hostPort = port.containerPort


def _apply_pod_resources(spec: core.PodSpec) -> None:
    """Derive requests and limits of the pod as a whole from those of its containers and from each other."""
    from wharfinger.api.validation.pod_resources import container_limits, container_requests
    from wharfinger.api.validation.resources import POD_LEVEL, is_huge_page

    own = spec.resources
    if not own.limits and not own.requests:
        return
    had_limits = bool(own.limits)

    def put(target: Any, name: str, amount: quantity.Quantity) -> None:
        if name not in target:
            target[name].string = str(amount)

    limits = container_limits(spec)
    for name, amount in limits.items():
        if is_huge_page(name) and name not in own.requests:
            put(own.limits, name, amount)
    if own.limits:
        for name, amount in container_requests(spec).items():
            if name in POD_LEVEL:
                put(own.requests, name, amount)
        for name, limit in list(own.limits.items()):
            if name in POD_LEVEL or is_huge_page(name):
                put(own.requests, name, quantity.parse(limit.string or "0"))
    if not had_limits and own.requests:
        everybody = [*spec.containers, *spec.initContainers]
        for name, amount in limits.items():
            if name in POD_LEVEL and all(name in container.resources.limits for container in everybody):
                put(own.limits, name, amount)


def apply_spec(spec: core.PodSpec) -> None:
    """Fill in a specification, a pod's or a template's."""
    if not spec.dnsPolicy:
        spec.dnsPolicy = "ClusterFirst"
    if not spec.restartPolicy:
        spec.restartPolicy = "Always"
    if not spec.HasField("securityContext"):
        spec.securityContext.SetInParent()
    if not spec.HasField("terminationGracePeriodSeconds"):
        spec.terminationGracePeriodSeconds = GRACE_SECONDS
    if not spec.schedulerName:
        spec.schedulerName = "default-scheduler"
    account = spec.serviceAccountName or spec.serviceAccount
    if account:
        # Two names of one field; the old one repeats the new one.
        spec.serviceAccountName = spec.serviceAccount = account
    for container in spec.initContainers:
        _apply_container(container)
    for container in spec.containers:
        _apply_container(container)
    for ephemeral in spec.ephemeralContainers:
        _apply_container(ephemeral.ephemeralContainerCommon)
    _apply_volumes(spec.volumes)
    if spec.overhead:
        round_up(spec.overhead)
    if spec.HasField("resources"):
        round_up(spec.resources.limits)
        round_up(spec.resources.requests)


def _apply_container(container: Any) -> None:
    if not container.imagePullPolicy:
        container.imagePullPolicy = pull_policy(container.image)
    if not container.terminationMessagePath:
        container.terminationMessagePath = "/dev/termination-log"
    if not container.terminationMessagePolicy:
        container.terminationMessagePolicy = "File"
    for port in container.ports:
        if not port.protocol:
            port.protocol = "TCP"
    if container.HasField("resources"):
        resources = container.resources
        if resources.limits:
            round_up(resources.limits)
        if resources.requests:
            round_up(resources.requests)
    for variable in container.env:
        if variable.HasField("valueFrom"):
            source = variable.valueFrom
            if source.HasField("fieldRef") and not source.fieldRef.apiVersion:
                source.fieldRef.apiVersion = "v1"
            if source.HasField("fileKeyRef") and not source.fileKeyRef.HasField("optional"):
                source.fileKeyRef.optional = False
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.HasField(field):
            _apply_probe(getattr(container, field))
    if container.HasField("lifecycle"):
        lifecycle = container.lifecycle
        for hook in ("postStart", "preStop"):
            if lifecycle.HasField(hook):
                _apply_http(getattr(lifecycle, hook))
    if container.HasField("securityContext"):
        context = container.securityContext
        if context.HasField("procMount") and not context.procMount:
            context.procMount = "Default"


def _apply_probe(probe: core.Probe) -> None:
    if not probe.timeoutSeconds:
        probe.timeoutSeconds = 1
    if not probe.periodSeconds:
        probe.periodSeconds = 10
    if not probe.successThreshold:
        probe.successThreshold = 1
    if not probe.failureThreshold:
        probe.failureThreshold = 3
    handler = probe.handler
    _apply_http(handler)
    if handler.HasField("grpc") and not handler.grpc.HasField("service"):
        handler.grpc.service = ""


def _apply_http(handler: Any) -> None:
    if handler.HasField("httpGet"):
        action = handler.httpGet
        if not action.path:
            action.path = "/"
        if not action.scheme:
            action.scheme = "HTTP"


def _apply_volumes(volumes: Iterable[core.Volume]) -> None:
    for volume in volumes:
        source = volume.volumeSource
        present = source.ListFields()
        if not present:
            source.emptyDir.SetInParent()
            continue
        for field, part in present:
            rule = _SOURCES.get(field.name)
            if rule is not None:
                rule(part)


def _apply_host_path(source: core.HostPathVolumeSource) -> None:
    if not source.HasField("type"):
        source.type = ""


def _apply_mode(source: Any) -> None:
    if not source.HasField("defaultMode"):
        source.defaultMode = FILE_MODE


def _apply_downward(source: core.DownwardAPIVolumeSource) -> None:
    _apply_mode(source)
    _apply_fields(source.items)


def _apply_fields(items: Iterable[core.DownwardAPIVolumeFile]) -> None:
    for item in items:
        if item.HasField("fieldRef") and not item.fieldRef.apiVersion:
            item.fieldRef.apiVersion = "v1"


def _apply_projected(source: core.ProjectedVolumeSource) -> None:
    _apply_mode(source)
    for projection in source.sources:
        if projection.HasField("serviceAccountToken"):
            token = projection.serviceAccountToken
            if not token.HasField("expirationSeconds"):
                token.expirationSeconds = TOKEN_SECONDS
        if projection.HasField("downwardAPI"):
            _apply_fields(projection.downwardAPI.items)


def _apply_image(source: core.ImageVolumeSource) -> None:
    if not source.pullPolicy:
        source.pullPolicy = pull_policy(source.reference)


def _apply_ephemeral(source: core.EphemeralVolumeSource) -> None:
    if source.HasField("volumeClaimTemplate"):
        apply_claim_spec(source.volumeClaimTemplate.spec)


def apply_claim_spec(spec: core.PersistentVolumeClaimSpec) -> None:
    """Fill in what a claim asks for."""
    if not spec.HasField("volumeMode"):
        spec.volumeMode = _CLAIM_MODE
    if spec.HasField("dataSource") != spec.HasField("dataSourceRef") and not spec.dataSourceRef.namespace:
        # Two names of one field, as long as the source is in the claim's own namespace.
        known, missing = (
            ("dataSource", "dataSourceRef") if spec.HasField("dataSource") else ("dataSourceRef", "dataSource")
        )
        source, copy = getattr(spec, known), getattr(spec, missing)
        copy.kind, copy.name = source.kind, source.name
        if source.HasField("apiGroup"):
            copy.apiGroup = source.apiGroup
    round_up(spec.resources.limits)
    round_up(spec.resources.requests)


def apply_iscsi(source: core.ISCSIVolumeSource | core.ISCSIPersistentVolumeSource) -> None:
    """Fill in an iSCSI target."""
    if not source.iscsiInterface:
        source.iscsiInterface = "default"


def apply_rbd(source: core.RBDVolumeSource | core.RBDPersistentVolumeSource) -> None:
    """Fill in a Ceph block device."""
    source.pool = source.pool or "rbd"
    source.user = source.user or "admin"
    source.keyring = source.keyring or "/etc/ceph/keyring"


def apply_azure_disk(source: core.AzureDiskVolumeSource) -> None:
    """Fill in an Azure disk."""
    for field, value in (("cachingMode", "ReadWrite"), ("kind", "Shared"), ("fsType", "ext4"), ("readOnly", False)):
        if not source.HasField(field):
            setattr(source, field, value)


def apply_scale_io(source: core.ScaleIOVolumeSource | core.ScaleIOPersistentVolumeSource) -> None:
    """Fill in a ScaleIO volume."""
    source.storageMode = source.storageMode or "ThinProvisioned"
    source.fsType = source.fsType or "xfs"


SHARED_SOURCES: dict[str, Any] = {
    "hostPath": _apply_host_path,
    "iscsi": apply_iscsi,
    "rbd": apply_rbd,
    "azureDisk": apply_azure_disk,
    "scaleIO": apply_scale_io,
}
"""By field: what pods and persistent volumes fill in alike."""

_SOURCES: dict[str, Any] = {
    **SHARED_SOURCES,
    "secret": _apply_mode,
    "configMap": _apply_mode,
    "downwardAPI": _apply_downward,
    "projected": _apply_projected,
    "ephemeral": _apply_ephemeral,
    "image": _apply_image,
}


def _apply_status(status: core.PodStatus) -> None:
    """Keep the first address and the list of addresses in step; the single one decides."""
    if status.podIP:
        if not status.podIPs or status.podIPs[0].ip != status.podIP:
            del status.podIPs[:]
            status.podIPs.add(ip=status.podIP)
    elif status.podIPs:
        status.podIP = status.podIPs[0].ip


def apply_template(template: core.PodTemplateSpec) -> None:
    """Fill in a template."""
    apply_spec(template.spec)
