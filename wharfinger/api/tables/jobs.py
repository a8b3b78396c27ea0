"""Jobs and CronJobs."""

from __future__ import annotations

from wharfinger.api import times
from wharfinger.api.tables import text
from wharfinger.api.tables.table import AGE, CONTAINERS, IMAGES, NAME, SELECTOR, Cell, Column, Table
from wharfinger.api.types import batch


def status(job: batch.Job) -> str:
    """Return a job's state in a word."""
    true = {condition.type for condition in job.status.conditions if condition.status == "True"}
    if "Complete" in true:
        return "Complete"
    if "Failed" in true:
        return "Failed"
    if job.metadata.HasField("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if kind in true:
            return kind
    return "Running"


def completions(job: batch.Job) -> str:
    """Return how many pods have succeeded, of how many."""
    if job.spec.HasField("completions"):
        return f"{job.status.succeeded}/{job.spec.completions}"
    parallelism = job.spec.parallelism
    return f"{job.status.succeeded}/1 of {parallelism}" if parallelism > 1 else f"{job.status.succeeded}/1"


def _duration(job: batch.Job, now: float) -> str:
    start, end = job.status.startTime, job.status.completionTime
    if times.is_zero(start):
        return ""
    return text.duration((now if times.is_zero(end) else end.seconds) - start.seconds)


def _row(job: batch.Job, now: float) -> list[Cell]:
    return [
        job.metadata.name,
        status(job),
        completions(job),
        _duration(job, now),
        text.age(job, now),
        text.container_names(job.spec.template.spec),
        text.images(job.spec.template.spec),
        text.selector(job.spec.selector, present=job.spec.HasField("selector")),
    ]


def _cron_row(job: batch.CronJob, now: float) -> list[Cell]:
    template = job.spec.jobTemplate.spec
    return [
        job.metadata.name,
        job.spec.schedule,
        job.spec.timeZone or text.NONE,
        "True" if job.spec.suspend else "False",
        len(job.status.active),
        text.NONE if times.is_zero(job.status.lastScheduleTime) else text.since(job.status.lastScheduleTime, now),
        text.age(job, now),
        text.container_names(template.template.spec),
        text.images(template.template.spec),
        text.selector(template.selector, present=template.HasField("selector")),
    ]


TABLE = Table(
    (
        NAME,
        Column("Status", description="The job's state."),
        Column("Completions", description="Pods that succeeded, of those wanted."),
        Column("Duration", description="How long it took, or has taken so far."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ),
    _row,
)
CRON = Table(
    (
        NAME,
        Column("Schedule", description="When it runs."),
        Column("Timezone", description="The time zone of the schedule."),
        Column("Suspend", type="boolean", description="Whether it is suspended."),
        Column("Active", type="integer", description="Jobs that are at work."),
        Column("Last Schedule", description="Time since a job was last made."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ),
    _cron_row,
)
