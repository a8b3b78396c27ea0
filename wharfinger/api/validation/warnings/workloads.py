"""Controllers of pods: what their templates, their names and their sizes may lead to."""

from __future__ import annotations

from typing import Any

from wharfinger.api.types import apps, batch, core
from wharfinger.api.validation.warnings import texts, volumes
from wharfinger.api.validation.warnings.pods import of_template

_MANY_COMPLETIONS = 100_000
_MANY_AT_ONCE = 10_000
_TEMPLATE = "spec.template."


def of_pod_template(template: core.PodTemplate) -> list[str]:
    """Return what to say about a template on its own."""
    return of_template(template.template, "template.")


def of_named_workload(workload: Any) -> list[str]:
    """Return what to say about a workload whose pods carry its name."""
    return texts.host_name(workload.metadata.name) + of_template(workload.spec.template, _TEMPLATE)


def of_daemon_set(workload: apps.DaemonSet) -> list[str]:
    """Return what to say about a daemon set."""
    return of_template(workload.spec.template, _TEMPLATE)


def of_stateful_set(workload: apps.StatefulSet) -> list[str]:
    """Return what to say about a stateful set."""
    return texts.host_name(workload.metadata.name) + _of_stateful_set(workload)


def _of_stateful_set(workload: apps.StatefulSet) -> list[str]:
    spec = workload.spec
    found = of_template(spec.template, _TEMPLATE)
    if spec.revisionHistoryLimit < 0:
        found.append(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
        )
    for index, claim in enumerate(spec.volumeClaimTemplates):
        found += volumes.of_claim_spec(claim.spec, f"spec.volumeClaimTemplates[{index}].spec")
    return found


def of_job(job: batch.Job) -> list[str]:
    """Return what to say about a job."""
    return texts.host_name(job.metadata.name) + _of_job_spec(job.spec, "spec")


def _of_job_spec(spec: batch.JobSpec, path: str) -> list[str]:
    found = []
    if spec.completionMode == "Indexed" and spec.completions > _MANY_COMPLETIONS and spec.parallelism > _MANY_AT_ONCE:
        found.append(
            "In Indexed Jobs with a number of completions higher than 100000 and a parallelism higher than 10000, "
            "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
    return found + of_template(spec.template, f"{path}.template.")


def of_cron_job(cron: batch.CronJob) -> list[str]:
    """Return what to say about a cron job."""
    return texts.host_name(cron.metadata.name) + _of_cron_job(cron)


def _of_cron_job(cron: batch.CronJob) -> list[str]:
    spec = cron.spec
    found = _of_job_spec(spec.jobTemplate.spec, "spec.jobTemplate.spec")
    if "TZ" in spec.schedule:
        found.append("spec.schedule: cannot use TZ or CRON_TZ in schedule, use timeZone instead")
    return found


def of_change(workload: Any) -> list[str]:
    """Return what to say about a changed workload; its name is old news."""
    if isinstance(workload, apps.StatefulSet):
        return _of_stateful_set(workload)
    if isinstance(workload, batch.Job):
        return _of_job_spec(workload.spec, "spec")
    if isinstance(workload, batch.CronJob):
        return _of_cron_job(workload)
    return of_template(workload.spec.template, _TEMPLATE)
