"""Jobs and cron jobs. Rules: "Jobs" and "CronJob" in Kubernetes' documentation."""

from __future__ import annotations

import re

from wharfinger.api.types import batch, core
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.common import label_selector, nonnegative, one_of, selector_matches
from wharfinger.api.validation.equality import semantic_equal
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.pod_spec import validate_template
from wharfinger.api.validation.registry import Rules
from wharfinger.api.validation.schedules import schedule_problem, zone_problem

_MAX_INDEXED = 100_000
_MAX_MANAGED_BY = 63
_MAX_RULES = 20
_MAX_PATTERNS = 20
_MAX_CODES = 255
_MAX_CRON_NAME = 52
"""Characters: what the controller appends to make the names of jobs has to fit."""
_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
_INDEXES = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*", re.ASCII)


def _create(job: batch.Job, errors: Errors) -> None:
    metadata.validate_kind(job.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    if dict(job.metadata.labels) == dict(job.spec.template.metadata.labels):
        # A job without labels of its own shows its template's; mistakes in those are reported there.
        errors[:] = [error for error in errors if error.field != "metadata.labels"]
    _validate_generated_selector(job, errors)
    _validate_spec(job.spec, errors)
    spec = job.spec
    if spec.completionMode == "Indexed" and spec.completions > 0:
        host = f"{job.metadata.name}-{spec.completions - 1}"
        for complaint in names.dns1123_label(host):
            errors.invalid("metadata.name", job.metadata.name, f"the hostname {host} would be wrong: {complaint}")


def _validate_generated_selector(job: batch.Job, errors: Errors) -> None:
    """Judge the selector and labels that the server makes, which a client may not have spoilt."""
    spec = job.spec
    if spec.manualSelector or not spec.HasField("selector"):
        return
    uid = job.metadata.uid
    if not uid:
        errors.required("metadata.uid")
    labels = spec.template.metadata.labels
    expected = {**dict.fromkeys(_UID_LABELS, uid), **dict.fromkeys(_NAME_LABELS, job.metadata.name)}
    for key, value in expected.items():
        path = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            errors.required(path, f"must be '{value}'")
        elif labels[key] != value:
            errors.invalid(path, labels[key], f"must be '{value}'")
    if label_selector(spec.selector, Errors(), "") and not selector_matches(spec.selector, expected):
        errors.invalid("spec.selector", dict(spec.selector.matchLabels), "`selector` not auto-generated")


def _validate_spec(spec: batch.JobSpec, errors: Errors) -> None:
    _validate_body(spec, errors, "spec")
    matches = False
    labels = spec.template.metadata.labels
    if not spec.HasField("selector"):
        errors.required("spec.selector")
    else:
        matches = not label_selector(spec.selector, errors, "spec.selector") or selector_matches(spec.selector, labels)
    if not matches:
        errors.invalid("spec.template.metadata.labels", dict(labels), "`selector` does not match template `labels`")


def _validate_body(spec: batch.JobSpec, errors: Errors, path: str) -> None:
    """Judge what jobs and the templates of jobs have in common."""
    for field in (
        "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
    ):  # fmt: skip
        nonnegative(errors, f"{path}.{field}", getattr(spec, field))
    if spec.HasField("maxFailedIndexes"):
        nonnegative(errors, f"{path}.maxFailedIndexes", spec.maxFailedIndexes)
        if not spec.HasField("backoffLimitPerIndex"):
            errors.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if spec.HasField("managedBy"):
        errors.complaints(f"{path}.managedBy", spec.managedBy, names.domain_prefixed_path(spec.managedBy))
        if len(spec.managedBy) > _MAX_MANAGED_BY:
            errors.too_long(f"{path}.managedBy", _MAX_MANAGED_BY)
    if spec.HasField("completionMode"):
        one_of(errors, f"{path}.completionMode", spec.completionMode, ("Indexed", "NonIndexed"))
        if spec.completionMode == "Indexed":
            _validate_indexed(spec, errors, path)
    if spec.completionMode != "Indexed":
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.HasField(field):
                errors.invalid(f"{path}.{field}", getattr(spec, field), "requires indexed completion mode")
    if spec.HasField("podFailurePolicy"):
        _validate_failure_policy(spec, errors, f"{path}.podFailurePolicy")
    if spec.HasField("successPolicy"):
        _validate_success_policy(spec, errors, f"{path}.successPolicy")
    if spec.HasField("podReplacementPolicy"):
        _validate_replacement(spec, errors, f"{path}.podReplacementPolicy")
    validate_template(spec.template, errors, f"{path}.template")
    policy = spec.template.spec.restartPolicy
    at = f"{path}.template.spec.restartPolicy"
    # Always is what a silent template is filled in with, so it reads as an answer that is missing.
    if policy in ("Always", ""):
        errors.required(at, "must be OnFailure or Never")
    elif policy not in ("OnFailure", "Never"):
        errors.not_supported(at, policy, ("OnFailure", "Never"))
    elif spec.HasField("podFailurePolicy") and policy != "Never":
        errors.invalid(at, policy, 'must be "Never" when podFailurePolicy is specified')


def _validate_indexed(spec: batch.JobSpec, errors: Errors, path: str) -> None:
    if not spec.HasField("completions"):
        errors.required(f"{path}.completions", "when completion mode is Indexed")
    if spec.parallelism > _MAX_INDEXED:
        errors.invalid(f"{path}.parallelism", spec.parallelism, f"must be at most {_MAX_INDEXED} for indexed jobs")
    if spec.HasField("completions") and spec.HasField("maxFailedIndexes"):
        if spec.maxFailedIndexes > spec.completions:
            errors.invalid(f"{path}.maxFailedIndexes", spec.maxFailedIndexes, "must not exceed completions")
        if spec.maxFailedIndexes > _MAX_INDEXED:
            errors.invalid(f"{path}.maxFailedIndexes", spec.maxFailedIndexes, f"must be at most {_MAX_INDEXED}")
    if spec.completions > _MAX_INDEXED and spec.HasField("backoffLimitPerIndex"):
        if not spec.HasField("maxFailedIndexes"):
            errors.required(f"{path}.maxFailedIndexes", f"must be specified with more than {_MAX_INDEXED} completions")
        if spec.parallelism > 10_000:
            errors.invalid(f"{path}.parallelism", spec.parallelism, "must be at most 10000 with so many completions")
        if spec.maxFailedIndexes > 10_000:
            errors.invalid(f"{path}.maxFailedIndexes", spec.maxFailedIndexes, "must be at most 10000")


def _validate_failure_policy(spec: batch.JobSpec, errors: Errors, path: str) -> None:
    rules = spec.podFailurePolicy.rules
    if len(rules) > _MAX_RULES:
        errors.too_many(f"{path}.rules", len(rules), _MAX_RULES)
    known = {container.name for container in spec.template.spec.containers}
    known.update(container.name for container in spec.template.spec.initContainers)
    actions = ("Count", "FailIndex", "FailJob", "Ignore")
    for index, rule in enumerate(rules):
        at = f"{path}.rules[{index}]"
        if rule.action == "FailIndex" and not spec.HasField("backoffLimitPerIndex"):
            errors.invalid(f"{at}.action", rule.action, "requires the use of backoffLimitPerIndex")
        one_of(errors, f"{at}.action", rule.action, actions, required=True)
        if rule.HasField("onExitCodes"):
            _validate_exit_codes(rule.onExitCodes, known, errors, f"{at}.onExitCodes")
        if len(rule.onPodConditions) > _MAX_PATTERNS:
            errors.too_many(f"{at}.onPodConditions", len(rule.onPodConditions), _MAX_PATTERNS)
        for number, pattern in enumerate(rule.onPodConditions):
            where = f"{at}.onPodConditions[{number}]"
            errors.complaints(f"{where}.type", pattern.type, names.qualified_name(pattern.type))
            one_of(errors, f"{where}.status", pattern.status, ("False", "True", "Unknown"), required=True)
        if rule.HasField("onExitCodes") and rule.onPodConditions:
            errors.invalid(at, "", "specifying both OnExitCodes and OnPodConditions is not supported")
        if not rule.HasField("onExitCodes") and not rule.onPodConditions:
            errors.invalid(at, "", "specifying one of OnExitCodes and OnPodConditions is required")


def _validate_exit_codes(
    codes: batch.PodFailurePolicyOnExitCodesRequirement, known: set[str], errors: Errors, path: str
) -> None:
    one_of(errors, f"{path}.operator", codes.operator, ("In", "NotIn"), required=True)
    if codes.HasField("containerName") and codes.containerName not in known:
        errors.invalid(f"{path}.containerName", codes.containerName, "must be a container or initContainer of the pod")
    values = codes.values
    if not values:
        errors.invalid(f"{path}.values", [], "at least one value is required")
    elif len(values) > _MAX_CODES:
        errors.too_many(f"{path}.values", len(values), _MAX_CODES)
    ordered = True
    seen: set[int] = set()
    for index, value in enumerate(values):
        if codes.operator == "In" and value == 0:
            errors.invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in seen:
            errors.duplicate(f"{path}.values[{index}]", value)
        seen.add(value)
        ordered = ordered and (not index or values[index - 1] <= value)
    if not ordered:
        errors.invalid(f"{path}.values", list(values), "must be ordered")


def _validate_success_policy(spec: batch.JobSpec, errors: Errors, path: str) -> None:
    if spec.completionMode != "Indexed":
        errors.invalid(path, "", "requires indexed completion mode")
        return
    rules = spec.successPolicy.rules
    if not rules:
        errors.required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > _MAX_RULES:
        errors.too_many(f"{path}.rules", len(rules), _MAX_RULES)
    for index, rule in enumerate(rules):
        at = f"{path}.rules[{index}]"
        total = spec.completions
        if rule.HasField("succeededCount"):
            nonnegative(errors, f"{at}.succeededCount", rule.succeededCount)
        if not rule.HasField("succeededCount") and not rule.HasField("succeededIndexes"):
            errors.required(at, "at least one of succeededCount or succeededIndexes must be specified")
        if rule.HasField("succeededIndexes"):
            text = rule.succeededIndexes
            if len(text) > 64 * 1024:
                errors.too_long(f"{at}.succeededIndexes", 64 * 1024)
                continue
            count = _count_indexes(text, spec.completions)
            if count is None:
                errors.invalid(f"{at}.succeededIndexes", text, "must be increasing numbers or ranges below completions")
                continue
            total = count
        if rule.HasField("succeededCount") and rule.succeededCount > total:
            errors.invalid(f"{at}.succeededCount", rule.succeededCount, f"must be at most {total}")


def _count_indexes(text: str, completions: int) -> int | None:
    """Return how many indexes ``1,3-5`` names; None when it is malformed, not increasing or out of range."""
    if not text:
        return 0
    if not _INDEXES.fullmatch(text):
        return None
    total, last = 0, -1
    for part in text.split(","):
        first, _, end = part.partition("-")
        low, high = int(first), int(end or first)
        if low <= last or high < low or high >= completions or (end and high == low):
            return None
        total += high - low + 1
        last = high
    return total


def _validate_replacement(spec: batch.JobSpec, errors: Errors, path: str) -> None:
    if spec.HasField("podFailurePolicy"):
        one_of(errors, path, spec.podReplacementPolicy, ("Failed",))
    else:
        one_of(errors, path, spec.podReplacementPolicy, ("Failed", "TerminatingOrFailed"))


def _update(job: batch.Job, old: batch.Job, errors: Errors) -> None:
    metadata.validate_kind_update(job.metadata, old.metadata, errors)
    spec, was = job.spec, old.spec
    _validate_spec(spec, errors)
    _validate_completions(spec, was, errors)
    if not semantic_equal(spec.selector, was.selector):
        errors.invalid("spec.selector", "changed", metadata.IMMUTABLE)
    if not semantic_equal(_comparable_template(job, old), was.template):
        errors.invalid("spec.template", "changed", metadata.IMMUTABLE)
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        if spec.HasField(field) != was.HasField(field) or getattr(spec, field) != getattr(was, field):
            metadata.immutable(errors, f"spec.{field}", True, False)


def _validate_completions(spec: batch.JobSpec, was: batch.JobSpec, errors: Errors) -> None:
    if spec.HasField("completions") == was.HasField("completions") and spec.completions == was.completions:
        return
    # Elastic indexed jobs: both counts move together.
    if was.completionMode != "Indexed" or not spec.HasField("completions") or not was.HasField("completions"):
        errors.invalid("spec.completions", spec.completions, metadata.IMMUTABLE)
    elif spec.completions != spec.parallelism:
        errors.invalid("spec.completions", spec.completions, "can only be modified in tandem with spec.parallelism")


def _comparable_template(job: batch.Job, old: batch.Job) -> core.PodTemplateSpec:
    """Return the new template with what may change while the job is suspended and never started set back."""
    template = core.PodTemplateSpec()
    template.CopyFrom(job.spec.template)
    if not old.spec.suspend or old.status.HasField("startTime"):
        return template
    was = old.spec.template
    template.metadata.CopyFrom(was.metadata)
    spec, before = template.spec, was.spec
    spec.nodeSelector.clear()
    spec.nodeSelector.update(before.nodeSelector)
    for field in ("tolerations", "schedulingGates"):
        spec.ClearField(field)
        getattr(spec, field).extend(getattr(before, field))
    if before.affinity.HasField("nodeAffinity"):
        spec.affinity.nodeAffinity.CopyFrom(before.affinity.nodeAffinity)
    elif spec.HasField("affinity"):
        spec.affinity.ClearField("nodeAffinity")
        if not before.HasField("affinity") and not spec.affinity.ByteSize():
            spec.ClearField("affinity")
    for kind in ("containers", "initContainers"):
        for container, other in zip(getattr(spec, kind), getattr(before, kind), strict=False):
            if container.name == other.name:
                container.resources.CopyFrom(other.resources)
    return template


def _update_status(job: batch.Job, old: batch.Job, errors: Errors) -> None:
    metadata.validate_kind_update(job.metadata, old.metadata, errors)
    status = job.status
    for field in ("active", "succeeded", "failed", "ready", "terminating"):
        nonnegative(errors, f"status.{field}", getattr(status, field))
    uncounted = status.uncountedTerminatedPods
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate(getattr(uncounted, field)):
            path = f"status.uncountedTerminatedPods.{field}[{index}]"
            if not uid:
                errors.invalid(path, uid, "must not be empty")
            elif uid in seen:
                errors.duplicate(path, uid)
            seen.add(uid)


def _create_cron(cron: batch.CronJob, errors: Errors) -> None:
    metadata.validate_kind(cron.metadata, errors, namespaced=True, name=names.dns1123_subdomain)
    _validate_cron_spec(cron.spec, errors)
    if len(cron.metadata.name) > _MAX_CRON_NAME:
        errors.invalid("metadata.name", cron.metadata.name, f"must be no more than {_MAX_CRON_NAME} characters")


def _validate_cron_spec(spec: batch.CronJobSpec, errors: Errors, was: batch.CronJobSpec | None = None) -> None:
    if not spec.schedule:
        errors.required("spec.schedule")
    else:
        problem = schedule_problem(spec.schedule)
        if problem:
            errors.invalid("spec.schedule", spec.schedule, problem)
        if "TZ" in spec.schedule and (was is None or "TZ" not in was.schedule or spec.HasField("timeZone")):
            errors.invalid("spec.schedule", spec.schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone instead")
    if spec.HasField("startingDeadlineSeconds"):
        nonnegative(errors, "spec.startingDeadlineSeconds", spec.startingDeadlineSeconds)
    if spec.HasField("timeZone") and (was is None or was.timeZone != spec.timeZone or not was.HasField("timeZone")):
        problem = zone_problem(spec.timeZone)
        if problem:
            errors.invalid("spec.timeZone", spec.timeZone, problem)
    one_of(errors, "spec.concurrencyPolicy", spec.concurrencyPolicy, ("Allow", "Forbid", "Replace"), required=True)
    template = spec.jobTemplate
    _validate_body(template.spec, errors, "spec.jobTemplate.spec")
    if template.spec.manualSelector:
        errors.not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    if template.spec.HasField("selector"):
        errors.invalid("spec.jobTemplate.spec.selector", "set", "`selector` will be auto-generated")
    for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        nonnegative(errors, f"spec.{field}", getattr(spec, field))


def _update_cron(cron: batch.CronJob, old: batch.CronJob, errors: Errors) -> None:
    metadata.validate_kind_update(cron.metadata, old.metadata, errors)
    _validate_cron_spec(cron.spec, errors, old.spec)


RULES = {
    batch.Job: Rules(create=_create, update=_update, subresources={"status": _update_status}),
    batch.CronJob: Rules(create=_create_cron, update=_update_cron),
}
