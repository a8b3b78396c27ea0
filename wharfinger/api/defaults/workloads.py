"""What workloads mean where they are silent: replica counts, strategies, histories, and their templates."""

from __future__ import annotations

from wharfinger.api.defaults.basics import apply_claim
from wharfinger.api.defaults.pods import apply_template
from wharfinger.api.types import apps, batch, core, intstr

HISTORY = 10
PROGRESS_SECONDS = 600
_MAX_INT32 = 2**31 - 1


def _share(percent: str) -> intstr.IntOrString:
    return intstr.IntOrString(type=1, strVal=percent)


def _count(number: int) -> intstr.IntOrString:
    return intstr.IntOrString(type=0, intVal=number)


def apply_replica_set(workload: apps.ReplicaSet) -> None:
    """Fill in a replica set."""
    spec = workload.spec
    if not spec.HasField("replicas"):
        spec.replicas = 1
    apply_template(spec.template)


def apply_controller(workload: core.ReplicationController) -> None:
    """Fill in a replication controller: its selector and labels come from its template."""
    spec = workload.spec
    if spec.HasField("template"):
        labels = spec.template.metadata.labels
        if labels and not spec.selector:
            spec.selector.update(labels)
        if labels and not workload.metadata.labels:
            workload.metadata.labels.update(labels)
        apply_template(spec.template)
    if not spec.HasField("replicas"):
        spec.replicas = 1


def apply_deployment(workload: apps.Deployment) -> None:
    """Fill in a deployment."""
    spec = workload.spec
    if not spec.HasField("replicas"):
        spec.replicas = 1
    strategy = spec.strategy
    if not strategy.type:
        strategy.type = "RollingUpdate"
    if strategy.type == "RollingUpdate":
        rolling = strategy.rollingUpdate
        if not rolling.HasField("maxUnavailable"):
            rolling.maxUnavailable.CopyFrom(_share("25%"))
        if not rolling.HasField("maxSurge"):
            rolling.maxSurge.CopyFrom(_share("25%"))
    if not spec.HasField("revisionHistoryLimit"):
        spec.revisionHistoryLimit = HISTORY
    if not spec.HasField("progressDeadlineSeconds"):
        spec.progressDeadlineSeconds = PROGRESS_SECONDS
    apply_template(spec.template)


def apply_daemon_set(workload: apps.DaemonSet) -> None:
    """Fill in a daemon set."""
    spec = workload.spec
    strategy = spec.updateStrategy
    if not strategy.type:
        strategy.type = "RollingUpdate"
    if strategy.type == "RollingUpdate":
        rolling = strategy.rollingUpdate
        if not rolling.HasField("maxUnavailable"):
            rolling.maxUnavailable.CopyFrom(_count(1))
        if not rolling.HasField("maxSurge"):
            rolling.maxSurge.CopyFrom(_count(0))
    if not spec.HasField("revisionHistoryLimit"):
        spec.revisionHistoryLimit = HISTORY
    apply_template(spec.template)


def apply_stateful_set(workload: apps.StatefulSet) -> None:
    """Fill in a stateful set."""
    spec = workload.spec
    if not spec.podManagementPolicy:
        spec.podManagementPolicy = "OrderedReady"
    strategy = spec.updateStrategy
    if not strategy.type:
        strategy.type = "RollingUpdate"
    if strategy.type == "RollingUpdate" and not strategy.rollingUpdate.HasField("partition"):
        strategy.rollingUpdate.partition = 0
    retention = spec.persistentVolumeClaimRetentionPolicy
    if not retention.whenDeleted:
        retention.whenDeleted = "Retain"
    if not retention.whenScaled:
        retention.whenScaled = "Retain"
    if not spec.HasField("replicas"):
        spec.replicas = 1
    if not spec.HasField("revisionHistoryLimit"):
        spec.revisionHistoryLimit = HISTORY
    apply_template(spec.template)
    for claim in spec.volumeClaimTemplates:
        apply_claim(claim)


def apply_job(job: batch.Job) -> None:
    """Fill in a job."""
    spec = job.spec
    if not spec.HasField("completions") and not spec.HasField("parallelism"):
        spec.completions = spec.parallelism = 1
    if not spec.HasField("parallelism"):
        spec.parallelism = 1
    if not spec.HasField("backoffLimit"):
        spec.backoffLimit = _MAX_INT32 if spec.HasField("backoffLimitPerIndex") else 6
    if spec.template.metadata.labels and not job.metadata.labels:
        job.metadata.labels.update(spec.template.metadata.labels)
    if not spec.HasField("completionMode"):
        spec.completionMode = "NonIndexed"
    if not spec.HasField("suspend"):
        spec.suspend = False
    if not spec.HasField("podReplacementPolicy"):
        spec.podReplacementPolicy = "Failed" if spec.HasField("podFailurePolicy") else "TerminatingOrFailed"
    if not spec.HasField("manualSelector"):
        spec.manualSelector = False
    _apply_failure_policy(spec)
    apply_template(spec.template)


def _apply_failure_policy(spec: batch.JobSpec) -> None:
    for rule in spec.podFailurePolicy.rules:
        for pattern in rule.onPodConditions:
            if not pattern.status:
                pattern.status = "True"


def apply_cron_job(cron: batch.CronJob) -> None:
    """Fill in a cron job; the job in it is filled in when it is made."""
    spec = cron.spec
    if not spec.concurrencyPolicy:
        spec.concurrencyPolicy = "Allow"
    if not spec.HasField("suspend"):
        spec.suspend = False
    if not spec.HasField("successfulJobsHistoryLimit"):
        spec.successfulJobsHistoryLimit = 3
    if not spec.HasField("failedJobsHistoryLimit"):
        spec.failedJobsHistoryLimit = 1
    _apply_failure_policy(spec.jobTemplate.spec)
    apply_template(spec.jobTemplate.spec.template)


def apply_pod_template(template: core.PodTemplate) -> None:
    """Fill in a stored template."""
    apply_template(template.template)
