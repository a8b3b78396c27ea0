"""How a Deployment moves from one revision to the next: numbers and order. All pure.

Given the Deployment and its ReplicaSets as they are, the functions say which size each ReplicaSet ought to have next;
the rest follows by repetition, as every change of a ReplicaSet's status brings the next look. Source: "Deployments" in
Kubernetes' documentation (rolling updates, proportional scaling, progress deadline, clean-up policy).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from controlplane.controllers.objects import deleting, seconds_of
from wharfinger.api.types import apps, core, intstr, meta

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
        DESIRED,
        MAXIMUM,
        "deprecated.deployment.rollback.to",
    }
)
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels, so that no hash spells a word."""


@dataclass(frozen=True, slots=True)
class Scale:
    """One ReplicaSet's next size."""

    replicaset: apps.ReplicaSet
    replicas: int


@dataclass(slots=True)
class Family:
    """A Deployment with its ReplicaSets, sorted out."""

    deployment: apps.Deployment
    new: apps.ReplicaSet | None
    """The one with the present template."""
    old: list[apps.ReplicaSet] = field(default_factory=list)
    """The others, oldest first."""

    @property
    def all(self) -> list[apps.ReplicaSet]:
        """Every ReplicaSet."""
        return [*self.old, *([self.new] if self.new is not None else [])]

    @property
    def active(self) -> list[apps.ReplicaSet]:
        """Those that want pods."""
        return [item for item in self.all if item.spec.replicas > 0]


# --- numbers of the spec


def wanted(deployment: apps.Deployment) -> int:
    """Return the number of pods that the Deployment asks for."""
    return deployment.spec.replicas if deployment.spec.HasField("replicas") else 1


def is_rolling(deployment: apps.Deployment) -> bool:
    """Whether the strategy is RollingUpdate."""
    return deployment.spec.strategy.type != "Recreate"


def _resolve(value: intstr.IntOrString, total: int, *, round_up: bool) -> int:
    if value.type == 0:
        return value.intVal
    part = int(value.strVal.removesuffix("%")) * total / 100
    return math.ceil(part) if round_up else math.floor(part)


def bounds(deployment: apps.Deployment) -> tuple[int, int]:
    """Return (maxSurge, maxUnavailable) in pods; both are 0 with the Recreate strategy."""
    if not is_rolling(deployment) or wanted(deployment) == 0:
        return 0, 0
    rolling, total = deployment.spec.strategy.rollingUpdate, wanted(deployment)
    surge = _resolve(rolling.maxSurge, total, round_up=True)
    unavailable = _resolve(rolling.maxUnavailable, total, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1  # rounded away; without it the roll-out could not move
    return surge, min(unavailable, total)


# --- revisions


def bare_template(template: core.PodTemplateSpec) -> bytes:
    """Return a template in a form that compares, without the label that we add."""
    copy = core.PodTemplateSpec()
    copy.CopyFrom(template)
    if HASH_LABEL in copy.metadata.labels:
        del copy.metadata.labels[HASH_LABEL]
    return copy.SerializeToString(deterministic=True)


def sort_out(deployment: apps.Deployment, replicasets: Iterable[apps.ReplicaSet]) -> Family:
    """Tell the ReplicaSet of the present template (the oldest one, should there be several) from the others."""
    template = bare_template(deployment.spec.template)
    ordered = sorted(replicasets, key=_age)
    new = next((item for item in ordered if bare_template(item.spec.template) == template), None)
    return Family(deployment, new, [item for item in ordered if item is not new])


def _age(replicaset: apps.ReplicaSet) -> tuple[float, str]:
    return seconds_of(replicaset.metadata.creationTimestamp), replicaset.metadata.name


def revision_of(obj: apps.ReplicaSet | apps.Deployment) -> int:
    """Return the revision that an object's annotation names; 0 without a valid one."""
    text = obj.metadata.annotations.get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def template_hash(template: core.PodTemplateSpec, collisions: int) -> str:
    """Return ten letters that tell templates apart, for names and the label of their pods."""
    digest = blake2b(bare_template(template), digest_size=8, salt=collisions.to_bytes(8, "big")).digest()
    number, letters = int.from_bytes(digest, "big"), []
    for _ in range(10):
        number, rest = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[rest])
    return "".join(letters)


def new_replicaset(family: Family) -> apps.ReplicaSet:
    """Return the ReplicaSet for the present template, as it is to be created."""
    deployment = family.deployment
    spec = deployment.spec
    suffix = template_hash(spec.template, deployment.status.collisionCount)
    made = apps.ReplicaSet()
    made.metadata.name = f"{deployment.metadata.name}-{suffix}"
    made.metadata.namespace = deployment.metadata.namespace
    made.metadata.labels.update(spec.template.metadata.labels)
    made.metadata.labels[HASH_LABEL] = suffix
    made.metadata.ownerReferences.append(owner_reference(deployment))
    made.spec.minReadySeconds = spec.minReadySeconds
    made.spec.selector.CopyFrom(spec.selector)
    made.spec.selector.matchLabels[HASH_LABEL] = suffix
    made.spec.template.CopyFrom(spec.template)
    made.spec.template.metadata.labels[HASH_LABEL] = suffix
    made.spec.replicas = next_size_of_new(Family(deployment, made, family.old), present=0)
    annotate_new(made, family)
    return made


def owner_reference(deployment: apps.Deployment) -> meta.OwnerReference:
    """Return the reference that the Deployment's ReplicaSets carry."""
    metadata = deployment.metadata
    return meta.OwnerReference(
        apiVersion="apps/v1", kind="Deployment", name=metadata.name, uid=metadata.uid,
        controller=True, blockOwnerDeletion=True,
    )  # fmt: skip


def annotate_new(replicaset: apps.ReplicaSet, family: Family) -> bool:
    """Bring annotations and minReadySeconds of the present ReplicaSet up to date; return whether that changed it."""
    deployment, annotations = family.deployment, replicaset.metadata.annotations
    before = dict(annotations)
    for key, value in deployment.metadata.annotations.items():
        if key not in _NOT_COPIED:
            annotations[key] = value
    revision = max((revision_of(item) for item in family.old), default=0) + 1
    present = revision_of(replicaset)
    if present < revision:
        annotations[REVISION] = str(revision)
        if present:
            history = [item for item in annotations.get(REVISION_HISTORY, "").split(",") if item]
            annotations[REVISION_HISTORY] = ",".join([*history, str(present)])
    annotations.update(_size_annotations(deployment))
    waits = replicaset.spec.minReadySeconds != deployment.spec.minReadySeconds
    replicaset.spec.minReadySeconds = deployment.spec.minReadySeconds
    return waits or dict(annotations) != before


def _size_annotations(deployment: apps.Deployment) -> dict[str, str]:
    return {DESIRED: str(wanted(deployment)), MAXIMUM: str(wanted(deployment) + bounds(deployment)[0])}


def resized(replicaset: apps.ReplicaSet, deployment: apps.Deployment, replicas: int) -> apps.ReplicaSet:
    """Return a copy with another size, and with the Deployment's sizes noted beside it."""
    copy = apps.ReplicaSet()
    copy.CopyFrom(replicaset)
    copy.spec.replicas = replicas
    copy.metadata.annotations.update(_size_annotations(deployment))
    return copy


def surplus_history(family: Family) -> list[apps.ReplicaSet]:
    """Return old ReplicaSets beyond revisionHistoryLimit that have no pods, lowest revision first."""
    spec = family.deployment.spec
    limit = spec.revisionHistoryLimit if spec.HasField("revisionHistoryLimit") else 10
    alive = [item for item in family.old if not deleting(item)]
    surplus = sorted(alive, key=lambda item: (revision_of(item), _age(item)))[: max(0, len(alive) - limit)]
    return [
        item
        for item in surplus
        if item.spec.replicas == 0
        and item.status.replicas == 0
        and item.metadata.generation <= item.status.observedGeneration
    ]


# --- sizes


def next_size_of_new(family: Family, *, present: int) -> int:
    """Return the size that the present ReplicaSet may grow to now."""
    deployment = family.deployment
    target = wanted(deployment)
    if not is_rolling(deployment):
        return target
    room = target + bounds(deployment)[0] - sum(item.spec.replicas for item in family.old) - present
    return present + max(0, min(room, target - present))


def plan_rolling(family: Family) -> list[Scale]:
    """Return the next sizes of a rolling update; the present ReplicaSet must exist."""
    new, target = family.new, wanted(family.deployment)
    assert new is not None
    if new.spec.replicas != target:
        size = target if new.spec.replicas > target else next_size_of_new(family, present=new.spec.replicas)
        if size != new.spec.replicas:
            return [Scale(new, size)]
    return _shrink_old(family)


def _shrink_old(family: Family) -> list[Scale]:
    old = [item for item in family.old if item.spec.replicas > 0]
    if not old:
        return []
    new = family.new
    assert new is not None
    minimum = wanted(family.deployment) - bounds(family.deployment)[1]
    missing = new.spec.replicas - new.status.availableReplicas
    room = sum(item.spec.replicas for item in family.all) - minimum - missing
    if room <= 0:
        return []
    sizes = {item.metadata.name: item.spec.replicas for item in old}
    # Pods that are not available go first: nobody misses them.
    cleaned = 0
    for item in old:
        step = min(room - cleaned, sizes[item.metadata.name] - item.status.availableReplicas)
        if step > 0:
            sizes[item.metadata.name] -= step
            cleaned += step
    spare = sum(item.status.availableReplicas for item in family.all) - minimum
    for item in old:
        step = min(sizes[item.metadata.name], spare)
        if step > 0:
            sizes[item.metadata.name] -= step
            spare -= step
    return [Scale(item, size) for item in old if (size := sizes[item.metadata.name]) != item.spec.replicas]


def needs_scaling(family: Family) -> bool:
    """Whether the Deployment was scaled since its ReplicaSets were last sized."""
    target = str(wanted(family.deployment))
    return any(item.metadata.annotations.get(DESIRED, target) != target for item in family.active)


def plan_scaling(family: Family) -> list[Scale]:
    """Return sizes after the Deployment was scaled, or while it is paused; in proportion, amid a roll-out."""
    deployment, target = family.deployment, wanted(family.deployment)
    only = _active_or_latest(family)
    if only is not None:
        return [Scale(only, target)]
    if _is_saturated(family.new, target):
        return [Scale(item, 0) for item in family.old if item.spec.replicas > 0]
    if not is_rolling(deployment):
        return []
    active = family.active
    surge = bounds(deployment)[0]
    allowed = target + surge if target > 0 else 0
    change = allowed - sum(item.spec.replicas for item in active)
    # The larger take more of the change; of equals, the newer when growing and the older when shrinking.
    active.sort(key=_age, reverse=change > 0)
    active.sort(key=lambda item: -item.spec.replicas)
    sizes: list[int] = []
    added = 0
    for item in active:
        share = _share(item, deployment, target + surge, change, added) if change else 0
        sizes.append(item.spec.replicas + share)
        added += share
    if sizes and change:
        sizes[0] = max(0, sizes[0] + change - added)
    return [Scale(item, size) for item, size in zip(active, sizes, strict=True)]


def _active_or_latest(family: Family) -> apps.ReplicaSet | None:
    active = family.active
    if len(active) > 1:
        return None
    if active:
        return active[0]
    if family.new is not None:
        return family.new
    return family.old[-1] if family.old else None


def _is_saturated(new: apps.ReplicaSet | None, target: int) -> bool:
    return (
        new is not None
        and new.spec.replicas == target
        and new.metadata.annotations.get(DESIRED) == str(target)
        and new.status.availableReplicas == target
    )


def _share(item: apps.ReplicaSet, deployment: apps.Deployment, maximum: int, change: int, added: int) -> int:
    if wanted(deployment) == 0:
        fraction = -item.spec.replicas
    else:
        text = item.metadata.annotations.get(MAXIMUM, "")
        before = int(text) if text.isdecimal() and int(text) else deployment.status.replicas or 1
        fraction = math.floor(item.spec.replicas * maximum / before + 0.5) - item.spec.replicas
    left = change - added
    return min(fraction, left) if change > 0 else max(fraction, left)
