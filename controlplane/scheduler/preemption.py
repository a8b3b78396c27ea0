"""Which pods would have to go so that a more important one fits: the choice among nodes, as DefaultPreemption makes it.

:mod:`.victims` says who would have to go from one node. Here nodes are looked at, beginning anywhere, until there are
enough candidates; among them the one wins whose victims matter least. What was found on a node is kept until the node
changes (:mod:`.foundvictims`), where only sums of resources count.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.decisions import Diagnosis, failure_message, resolvable_rows
from controlplane.scheduler.foundvictims import Found
from controlplane.scheduler.framework import Refusal
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.victims import NO_VICTIMS, Budget, Candidate, Search

if TYPE_CHECKING:
    from controlplane.scheduler.classstate import ClassState
    from controlplane.scheduler.nominations import Nominations
    from controlplane.scheduler.plugins.default_preemption import DefaultPreemption
    from controlplane.scheduler.podinfo import PodInfo

_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_MOST_SEARCHED = 64


@dataclass(slots=True)
class Preemption:
    """What looking for victims came to."""

    message: str = ""
    """Why nobody has to go; empty when there is a candidate."""
    ineligible: bool = False
    """Whether the pod may not have others make room, or has done so already."""
    best: list[Candidate] = field(default_factory=list)
    """All that tie for the first place."""
    chosen: Candidate | None = None
    all_of_them: Callable[[], list[Candidate]] = list
    in_vain: Callable[[], dict[str, Refusal]] = dict

    @property
    def candidates(self) -> list[Candidate]:
        """Return all nodes that would do; to be asked at once, before anything changes."""
        return self.all_of_them()

    @property
    def rejected(self) -> dict[str, Refusal]:
        """Return the nodes that were tried in vain; to be asked at once, before nodes come or go."""
        return self.in_vain()


def preempt(
    pod: PodInfo,
    diagnosis: Diagnosis,
    state: ClassState,
    *,
    plugin: DefaultPreemption,
    nominations: Nominations,
    budgets: Iterable[Budget],
    draw: random.Random,
    found: Found | None = None,
) -> Preemption:
    """Look for pods that could make room; `diagnosis` is the failed attempt, `state` its class state, up to date.

    `found` is kept by the caller for pods of this kind and priority, as long as the budgets are the same.
    """
    table = state.table
    message = _not_eligible(pod, diagnosis, table)
    if message:
        return Preemption(message=f"preemption: {message}", ineligible=True)
    resolvable = np.flatnonzero(diagnosis.resolvable) if diagnosis.resolvable is not None else np.zeros(0, np.intp)
    result = Preemption()
    found = found if found is not None else Found()
    search = Search(pod, state, nominations, list(budgets), alike=found.alike)
    counts = Counter({_NOT_HELPFUL: len(table) - len(resolvable)})
    if len(resolvable) and table.lowest_priority() >= pod.priority:
        counts[NO_VICTIMS.reasons[0]] += len(resolvable)
        result.in_vain = lambda: {table.names[row] or "": NO_VICTIMS for row in resolvable.tolist()}
    elif len(resolvable):
        enough = plugin.candidates(len(resolvable))
        offset = draw.randrange(len(resolvable)) if enough < len(resolvable) else 0
        rows = np.concatenate((resolvable[offset:], resolvable[:offset])) if offset else resolvable
        if search.sums_only:
            refusals = _look_among_sums(result, search, rows, enough, found)
        else:
            refusals = _look(result, search, rows, enough)
        found.searched = table.position
        for refusal, number in _counted(refusals):
            for reason in refusal.reasons:
                counts[reason] += number
    if not result.best:
        result.message = "preemption: " + failure_message(+counts, len(table), None)
        return result
    result.chosen = result.best[draw.randrange(len(result.best))] if len(result.best) > 1 else result.best[0]
    return result


def would_help(
    pod: PodInfo,
    state: ClassState,
    nominated: Mapping[int, Refusal],
    *,
    nominations: Nominations,
    budgets: Iterable[Budget],
    found: Found,
) -> bool:
    """Whether others would make room for a pod that no node takes, as far as nodes have changed since the last search.

    Where more counts than sums, at most so many nodes are looked at: after larger changes the pod itself had better
    be tried. A change that matters only to *other* nodes (of a domain) is not noticed then. `nominated` says which
    nodes refuse it because of the pods nominated there.
    """
    table = state.table
    if state.refusal is not None or table.lowest_priority() >= pod.priority or not pod.may_preempt:
        return False
    if pod.nominated and _awaits_victims(pod, table):
        return False
    rows = np.flatnonzero(resolvable_rows(state, nominated))
    if not len(rows):
        return False
    search = Search(pod, state, nominations, list(budgets), alike=found.alike)
    if search.sums_only:
        tried = found.know(search, rows, 1)
        return bool(found.candidate[tried].any())
    changed = rows[table.touched[rows] > found.searched]
    found.searched = table.position
    return len(changed) > _MOST_SEARCHED or any(isinstance(search.search(row), Candidate) for row in changed.tolist())


def _not_eligible(pod: PodInfo, diagnosis: Diagnosis, table: NodeTable) -> str:
    if not pod.may_preempt:
        return "not eligible due to preemptionPolicy=Never."
    row = table.rows.get(pod.nominated) if pod.nominated else None
    may_help = row is not None and diagnosis.resolvable is not None and diagnosis.resolvable[row]
    if may_help and _awaits_victims(pod, table):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def _awaits_victims(pod: PodInfo, table: NodeTable) -> bool:
    return any(
        resident.leaving and resident.priority < pod.priority for resident in table.pods_on(pod.nominated).values()
    )


def _counted(refusals: Sequence[Refusal]) -> list[tuple[Refusal, int]]:
    """Return the refusals that differ, and how many there are of each; thousands are one and the same object."""
    found = {id(refusal): refusal for refusal in refusals}
    return [(found[key], number) for key, number in Counter(map(id, refusals)).items()]


def _look(result: Preemption, search: Search, rows: NDArray[np.intp], enough: int) -> Sequence[Refusal]:
    """Try nodes until there are enough candidates, one without violations among them.

    Returns the refusals of the others if there is no candidate at all.
    """
    without_violations = False
    candidates: list[Candidate] = []
    rejected: dict[str, Refusal] = {}
    for row in rows.tolist():
        found = search.search(row)
        if isinstance(found, Refusal):
            rejected[search.table.names[row] or ""] = found
            continue
        candidates.append(found)
        without_violations = without_violations or not found.violations
        if without_violations and len(candidates) >= enough:
            break
    result.in_vain = lambda: rejected
    if not candidates:
        return list(rejected.values())
    first = min(candidate.rank for candidate in candidates)
    result.all_of_them = lambda: candidates
    result.best = [candidate for candidate in candidates if candidate.rank == first]
    return ()


def _look_among_sums(
    result: Preemption, search: Search, rows: NDArray[np.intp], enough: int, found: Found
) -> Sequence[Refusal]:
    """Do the same with what is known of nodes from the searches before."""
    table = search.table
    tried = found.know(search, rows, enough)
    there = found.candidate[tried]
    candidates, rejected = tried[there], tried[~there]
    result.in_vain = lambda: {table.names[row] or "": found.results[row] for row in rejected.tolist()}
    if not len(candidates):
        refusals: list[Refusal] = found.results[rejected].tolist()
        return refusals
    result.all_of_them = lambda: found.results[candidates].tolist()
    result.best = found.results[found.best(candidates)].tolist()
    return ()
