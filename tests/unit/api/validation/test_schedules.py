from __future__ import annotations

from typing import Any

import pytest

from tests.support.rules import build, creating
from wharfinger.api.validation import schedules


@pytest.mark.parametrize(
    "schedule",
    ["* * * * *", "0 0 1 1 0", "*/5 * * * *", "1,2,3-5/2 0-23 ? * mon-FRI", "@hourly", "@every 1h30m", "0 0 * JAN *"],
)
def test_schedules(schedule: str) -> None:
    assert not schedules.schedule_problem(schedule)


@pytest.mark.parametrize(
    "schedule",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "a * * * *",
     "5-1 * * * *", "*/0 * * * *", "@sometimes", "@every soon", "1-2-3 * * * *"],
)  # fmt: skip
def test_no_schedules(schedule: str) -> None:
    assert schedules.schedule_problem(schedule)


def _cron_job(**spec: Any) -> Any:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
    job = {"spec": {"template": {"spec": pod}}}
    body = {"metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "jobTemplate": job, **spec}}
    return build("batch/v1 CronJob", body)


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({}, []),
        ({"schedule": ""}, ["spec.schedule Required"]),
        ({"schedule": "often"}, ["spec.schedule Invalid"]),
        ({"timeZone": "Mars/Olympus"}, ["spec.timeZone Invalid"]),
        ({"timeZone": "../../etc/passwd"}, ["spec.timeZone Invalid"]),
        ({"concurrencyPolicy": "Maybe"}, ["spec.concurrencyPolicy NotSupported"]),
        ({"startingDeadlineSeconds": -1}, ["spec.startingDeadlineSeconds Invalid"]),
        ({"failedJobsHistoryLimit": -1}, ["spec.failedJobsHistoryLimit Invalid"]),
    ],
)
def test_cron_jobs(spec: dict[str, Any], causes: list[str]) -> None:
    assert creating(_cron_job(**spec)) == causes


def test_names_leave_room_for_the_jobs_suffix() -> None:
    cron_job = _cron_job()
    cron_job.metadata.name = "c" * 53
    assert creating(cron_job) == ["metadata.name Invalid"]
    cron_job.metadata.name = "c" * 52
    assert creating(cron_job) == []
