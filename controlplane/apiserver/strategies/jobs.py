"""Jobs and CronJobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.strategies.base import Strategy

if TYPE_CHECKING:
    from controlplane.apiserver.request import Request
    from wharfinger.api.types import batch

_CONTROLLER_UID = ("controller-uid", "batch.kubernetes.io/controller-uid")
_JOB_NAME = ("job-name", "batch.kubernetes.io/job-name")


class JobStrategy(Strategy):
    """How jobs differ: the server makes the selector of a job that brings none, from the job's uid."""

    garbage_policy = "Orphan"

    def prepare_for_create(self, obj: batch.Job, request: Request) -> None:
        """Label the template with the job and select by its uid, unless `manualSelector` is set."""
        super().prepare_for_create(obj, request)
        spec = obj.spec
        if not spec.manualSelector:
            self._generate(obj)
        _label(obj)

    def prepare_for_update(self, obj: batch.Job, old: batch.Job, request: Request) -> None:
        """A job without labels carries those of its template."""
        super().prepare_for_update(obj, old, request)
        _label(obj)

    @staticmethod
    def _generate(obj: batch.Job) -> None:
        spec = obj.spec
        labels = spec.template.metadata.labels
        for key in _JOB_NAME:
            labels.setdefault(key, obj.metadata.name)
        for key in _CONTROLLER_UID:
            labels.setdefault(key, obj.metadata.uid)
        spec.selector.matchLabels.setdefault(_CONTROLLER_UID[1], obj.metadata.uid)


def _label(job: batch.Job) -> None:
    if not job.metadata.labels:
        job.metadata.labels.update(job.spec.template.metadata.labels)
