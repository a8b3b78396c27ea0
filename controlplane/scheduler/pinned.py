"""Pods that can only go to one node, as those of a DaemonSet: each is a kind of its own, and looks at one row.

Their affinity names the node, so verdicts and scores over all other nodes would be computed for nothing, once a pod.
The same plugins are prepared, and asked about that row alone. Scores do not matter with a single feasible node
(kube-scheduler leaves them out, too). When the node refuses the pod, all nodes are looked at as for any other pod, so
that the reasons can be counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scheduler.framework import Filter
from wharfinger.api.types import core

if TYPE_CHECKING:
    from controlplane.scheduler.nodetable import NodeTable
    from controlplane.scheduler.podinfo import PodClass
    from controlplane.scheduler.profile import Profile


def node_of(pod: core.Pod) -> str:
    """Return the only node that the pod's required affinity names; empty when it names none or may mean several."""
    required = pod.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
    if len(required.nodeSelectorTerms) != 1:
        return ""
    for wanted in required.nodeSelectorTerms[0].matchFields:
        if wanted.key == "metadata.name" and wanted.operator == "In" and len(wanted.values) == 1:
            return str(wanted.values[0])
    return ""


def feasible_row(pod: PodClass, profile: Profile, table: NodeTable) -> int | None:
    """Return the row of the node that the pod names if it would take the pod; None for anything else."""
    row = table.rows.get(pod.pinned)
    if row is None:
        return None
    filters: list[Filter] = []
    for plugin in profile.filters:
        prepared = plugin.prepare_filter(pod, table)
        if isinstance(prepared, Filter):
            filters.append(prepared)
        elif prepared is not None:
            return None
    if not any(entry.only == frozenset((pod.pinned,)) for entry in filters):
        return None  # this profile does not look at affinity
    here = slice(row, row + 1)
    if any(entry.codes(here)[0] for entry in filters):
        return None
    return row
