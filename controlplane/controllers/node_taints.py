"""Which taints a node ought to have, from its conditions alone.

Source: "Taints and Tolerations" in Kubernetes' documentation (taint based evictions, taint nodes by condition). The
NoSchedule taints follow the conditions at once. The NoExecute taints evict pods, so adding one needs leave (the rate
limit of the zone); replacing one by the other, or removing it, does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlplane.controllers.objects import condition_status, wall_time
from wharfinger.api.types import core

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
HEALTH_TAINTS = (NOT_READY, UNREACHABLE)

_BY_CONDITION: dict[tuple[str, str], str] = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_OWNED_NO_SCHEDULE = frozenset({*_BY_CONDITION.values(), UNSCHEDULABLE})


@dataclass(frozen=True, slots=True)
class TaintPlan:
    """The taints that a node ought to have, and how that was decided."""

    taints: Sequence[core.Taint]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    wants_no_execute: str
    """The NoExecute taint that the node's state calls for but that has no leave yet; empty: none."""

    @property
    def changed(self) -> bool:
        """Whether the node must be written."""
        return bool(self.added or self.removed)


def name_of(taint: core.Taint) -> str:
    """Return a taint as kubectl writes it, without its value: ``key:effect``."""
    return f"{taint.key}:{taint.effect}"


def no_schedule_keys(node: core.Node) -> set[str]:
    """Return the keys of the NoSchedule taints that the node's conditions and its unschedulable mark call for."""
    keys = {
        key
        for condition in node.status.conditions
        if (key := _BY_CONDITION.get((condition.type, condition.status))) is not None
    }
    if node.spec.unschedulable:
        keys.add(UNSCHEDULABLE)
    return keys


def no_execute_key(ready: str) -> str:
    """Return the NoExecute taint that a Ready status calls for; a node that never reported one has none."""
    return {"False": NOT_READY, "Unknown": UNREACHABLE}.get(ready, "")


def plan_taints(node: core.Node, *, may_execute: bool, suspended: bool = False) -> TaintPlan:
    """Decide a node's taints.

    `may_execute` is the leave to add a NoExecute taint. `suspended` is the brake: while the whole cluster seems to
    be gone, nobody is evicted, and the NoExecute taints come off.
    """
    wanted = {(key, "NoSchedule") for key in no_schedule_keys(node)}
    present = {(taint.key, taint.effect) for taint in node.spec.taints}
    execute = "" if suspended else no_execute_key(condition_status(node.status.conditions, "Ready"))
    tainted = any((key, "NoExecute") in present for key in HEALTH_TAINTS)
    withheld = ""
    if execute:
        if tainted or may_execute:
            wanted.add((execute, "NoExecute"))
        else:
            withheld = execute
    keep = [taint for taint in node.spec.taints if not _owned(taint) or (taint.key, taint.effect) in wanted]
    kept = {(taint.key, taint.effect) for taint in keep}
    missing = sorted(wanted - kept)
    now = wall_time()
    taints = [*keep, *(core.Taint(key=key, effect=effect, timeAdded=now) for key, effect in missing)]
    return TaintPlan(
        taints=taints,
        added=tuple(f"{key}:{effect}" for key, effect in missing),
        removed=tuple(name_of(taint) for taint in node.spec.taints if (taint.key, taint.effect) not in kept),
        wants_no_execute=withheld,
    )


def _owned(taint: core.Taint) -> bool:
    if taint.effect == "NoSchedule":
        return taint.key in _OWNED_NO_SCHEDULE
    return taint.effect == "NoExecute" and taint.key in HEALTH_TAINTS


def no_execute_taints(taints: Iterable[core.Taint]) -> list[core.Taint]:
    """Return the taints that evict."""
    return [taint for taint in taints if taint.effect == "NoExecute"]
