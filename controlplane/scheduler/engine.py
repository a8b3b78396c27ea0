"""Decides, pod by pod, on a node table. No I/O and no clock: events in, decisions out.

Each kind of pod has a :class:`ClassState`; the most recently used are kept, as many as fit into a budget of cells
(kinds x nodes), so that memory stays bounded however many kinds come by. A decision is: bring the state up to date,
take a node with the highest total (ties are drawn by a seeded generator, so that a run can be repeated), count the pod
there at once. Forgetting is the same in reverse.
"""

from __future__ import annotations

import random
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping

import numpy as np

from controlplane.scheduler import pinned
from controlplane.scheduler.classstate import ClassState
from controlplane.scheduler.decisions import Diagnosis, Placement
from controlplane.scheduler.foundvictims import Found
from controlplane.scheduler.framework import Aspect, Bools, Refusal
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.nominations import Nominations
from controlplane.scheduler.nominationverdicts import (
    Verdicts,
    is_refused_by_nomination,
    refusals_by_nomination,
    refused_by_nomination,
)
from controlplane.scheduler.plugins.default_preemption import DefaultPreemption
from controlplane.scheduler.podinfo import PodClass, PodInfo, PodTable
from controlplane.scheduler.preemption import Preemption, preempt, would_help
from controlplane.scheduler.profile import Profile
from controlplane.scheduler.residents import Resident
from controlplane.scheduler.victims import Budget

CELLS = 1_000_000
"""Kinds x nodes kept; a cell takes 25 to 75 bytes."""
WHOLE_DIAGNOSES = 32
DETAILED_EVERY = 64
"""Changes of the node table between two diagnoses with all details, while pods of a kind make room one by one."""
SEARCHES = 16
"""Kinds of pods for which it is remembered who would have to make room, and what nominated pods change."""


class Engine:
    """Profiles, node table and class states."""

    def __init__(self, profiles: Iterable[Profile] | None = None, *, seed: int = 0) -> None:
        listed = list(profiles) if profiles is not None else [Profile()]
        self.profiles = {profile.scheduler_name: profile for profile in listed}
        self.table = NodeTable()
        self.pods = PodTable(
            [plugin for profile in listed for plugin in profile.plugins],
            with_gangs=[profile.scheduler_name for profile in listed if profile.knows_gangs],
        )
        self.gangs = self.pods.gangs
        self.nominations = Nominations()
        self.budgets: dict[str, Budget] = {}
        """PodDisruptionBudgets by key."""
        self._searches: OrderedDict[tuple[PodClass, int], tuple[Found, Verdicts]] = OrderedDict()
        self._random = random.Random(seed)
        self._states: OrderedDict[PodClass, ClassState] = OrderedDict()
        self._diagnoses: dict[PodClass, tuple[int, Diagnosis]] = {}
        self._detailed: dict[PodClass, int] = {}
        """Where the table's journal stood at the latest such diagnosis."""
        self._whole: deque[Diagnosis] = deque()

    def profile(self, pod: PodInfo) -> Profile:
        """Return the profile that the pod asks for. Raises KeyError for one of another scheduler."""
        return self.profiles[pod.cls.exemplar.spec.schedulerName]

    def _kinds(self) -> int:
        return len(self._states)

    def state(self, pod: PodInfo) -> ClassState:
        """Return the class state of a pod, up to date."""
        state = self._states.get(pod.cls)
        if state is None:
            state = ClassState(self.profile(pod), pod.cls, self.table, kinds=self._kinds)
            self._states[pod.cls] = state
            while len(self._states) > max(4, CELLS // self.table.size):
                dropped, _ = self._states.popitem(last=False)
                self._diagnoses.pop(dropped, None)
                self._detailed.pop(dropped, None)
        else:
            self._states.move_to_end(pod.cls)
        state.sync()
        return state

    def decide(self, pod: PodInfo) -> Placement | Diagnosis:
        """Find a node and count the pod there, or say why there is none."""
        if pod.cls.pinned and pod.cls not in self._states:
            placement = self._place_pinned(pod)
            if placement is not None:
                return placement
        state = self.state(pod)
        total, feasible = state.total, state.feasible_count
        if self.nominations:
            own = self._own_row(state, pod)
            if own is not None:
                return self._place(pod, state, own, total=state.total_alone(own), feasible=1, ties=1)
            narrowed = self._narrowed(state, pod)
            if isinstance(narrowed, Diagnosis):
                return narrowed
            if narrowed is not None:
                total = state.narrowed(narrowed)
                feasible = int(np.count_nonzero(narrowed))
        if not feasible:
            return self._diagnose(state)
        best = np.flatnonzero(total == total.max())
        row = int(best[0]) if len(best) == 1 else int(best[self._random.randrange(len(best))])
        return self._place(pod, state, row, total=int(total[row]), feasible=feasible, ties=len(best))

    def _place(self, pod: PodInfo, state: ClassState, row: int, *, total: int, feasible: int, ties: int) -> Placement:
        name = self.table.names[row]
        assert name is not None
        placement = Placement(
            node=name,
            row=row,
            total=total,
            scores=tuple(int(scored.scaled[row]) for scored in state.scores),
            feasible=feasible,
            evaluated=len(self.table),
            ties=ties,
            position=state.position,
            state=weakref.ref(state),
        )
        self.table.place(pod.key, name, pod.cls.usage, pod.cls.peer, priority=pod.priority)
        self.nominations.remove(pod.key)
        return placement

    def _place_pinned(self, pod: PodInfo) -> Placement | None:
        """Place a pod on the node that it names; None when that needs a closer look."""
        node = pod.cls.pinned
        if self.nominations.on(node):
            return None
        row = pinned.feasible_row(pod.cls, self.profile(pod), self.table)
        if row is None:
            return None
        placement = Placement(
            node=node, row=row, total=0, scores=(), feasible=1, evaluated=len(self.table), ties=1,
            position=self.table.position, state=lambda: None, pinned=True,
        )  # fmt: skip
        self.table.place(pod.key, node, pod.cls.usage, pod.cls.peer, priority=pod.priority)
        self.nominations.remove(pod.key)
        return placement

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Keep a node for a pod until it is placed; the empty name takes that back."""
        pod.nominated = node
        if node:
            self.nominations.set(pod.key, Resident(node, pod.cls.usage, pod.cls.peer, priority=pod.priority))
        else:
            self.nominations.remove(pod.key)

    def narrowed_by_nominations(self, state: ClassState, pod: PodInfo) -> Bools | Diagnosis | None:
        """Return which nodes are feasible when nominated pods count, None when that changes nothing."""
        own = self._own_row(state, pod)
        if own is None:
            return self._narrowed(state, pod)
        only = np.zeros_like(state.feasible)
        only[own] = True
        return only

    def _narrowed(self, state: ClassState, pod: PodInfo) -> Bools | Diagnosis | None:
        """Do the same for a pod whose own nomination does not decide."""
        verdicts = self._search(pod)[1]
        refused = refused_by_nomination(pod, state, self.nominations, verdicts)
        if not len(refused) and state.feasible_count:
            return None
        if state.feasible_count > len(refused):
            feasible = state.feasible.copy()
            feasible[refused] = False
            return feasible
        return self._diagnose_nominated(state, refusals_by_nomination(pod, state, self.nominations, verdicts))

    def _search(self, pod: PodInfo) -> tuple[Found, Verdicts]:
        """Return what is remembered for pods of a kind and priority."""
        kind = (pod.cls, pod.priority)
        known = self._searches.get(kind)
        if known is None:
            known = self._searches[kind] = (Found(), Verdicts())
            if len(self._searches) > SEARCHES:
                self._searches.popitem(last=False)
        else:
            self._searches.move_to_end(kind)
        return known

    def _own_row(self, state: ClassState, pod: PodInfo) -> int | None:
        """Return the row of the node that is kept for a pod, if it would take the pod now."""
        row = self.table.rows.get(pod.nominated) if pod.nominated else None
        if row is None or not state.feasible[row]:
            return None
        if self.nominations.against(pod.nominated, key=pod.key, priority=pod.priority):
            return None if is_refused_by_nomination(pod, state, self.nominations, row) else row
        return row

    def preempt(self, pod: PodInfo, diagnosis: Diagnosis) -> Preemption | None:
        """Look for pods that could make room for one that fits nowhere; None when the profile has no such plugin."""
        plugin = self.profile(pod).post_filter
        if not isinstance(plugin, DefaultPreemption):
            return None
        known = diagnosis.preemptions.get(pod.priority)
        if known is not None and not self.nominations and not pod.nominated and pod.may_preempt:
            return Preemption(message=known)
        result = preempt(
            pod,
            diagnosis,
            self.state(pod),
            plugin=plugin,
            nominations=self.nominations,
            budgets=self.budgets.values(),
            draw=self._random,
            found=self._search(pod)[0],
        )
        if result.chosen is None and not self.nominations and pod.may_preempt:
            diagnosis.preemptions[pod.priority] = result.message
        return result

    def lowest_priority(self) -> int:
        """Return the priority of the least important pod that is placed."""
        return self.table.lowest_priority()

    def would_make_room(self, pod: PodInfo) -> bool:
        """Whether others would make room now for a pod that no node would take.

        Looks only at nodes that have changed since the last search for pods of this kind and priority, so after that
        one has found nobody. Gangs are asked as a whole, by :meth:`.gangwork.GangWork.waits_for`.
        """
        if (pod.gang is not None and pod.gang.needed) or self.profile(pod).post_filter is None:
            return False
        state, (found, verdicts) = self.state(pod), self._search(pod)
        nominated = refusals_by_nomination(pod, state, self.nominations, verdicts) if self.nominations else {}
        return would_help(
            pod, state, nominated, nominations=self.nominations, budgets=self.budgets.values(), found=found
        )

    def waits_for(self, pod: PodInfo) -> int | None:
        """Return None when some node would take the pod now, else the aspects that its refusing filters look at.

        Nothing but a change of one of these can make a node feasible.
        """
        state = self.state(pod)
        if state.feasible_count > 0:
            if not self.nominations or self._own_row(state, pod) is not None:
                return None
            refused = refused_by_nomination(pod, state, self.nominations, self._search(pod)[1])
            if len(refused) < state.feasible_count:
                return None
            return Aspect.EXISTENCE | Aspect.USAGE | Aspect.PEERS
        aspects: int = Aspect.EXISTENCE
        for column in state.filters:
            if aspects | column.filter.reads != aspects and column.codes[self.table.alive].any():
                aspects |= column.filter.reads
        return aspects

    def _diagnose(self, state: ClassState) -> Diagnosis:
        known = self._diagnoses.get(state.pod)
        if known is not None and known[0] == state.position and known[1].codes is not None:
            return known[1]
        diagnosis = Diagnosis(state)
        self._diagnoses[state.pod] = (state.position, diagnosis)
        self._keep(diagnosis)
        return diagnosis

    def _diagnose_nominated(self, state: ClassState, refusals: Mapping[int, Refusal]) -> Diagnosis:
        """Say why there is no node when nominated pods count; of many in a row, few with all details."""
        last = self._detailed.get(state.pod)
        details = last is None or not 0 <= state.position - last < DETAILED_EVERY
        diagnosis = Diagnosis(state, refusals, details=details)
        if details:
            self._detailed[state.pod] = state.position
            self._keep(diagnosis)
        return diagnosis

    def _keep(self, diagnosis: Diagnosis) -> None:
        self._whole.append(diagnosis)
        if len(self._whole) > WHOLE_DIAGNOSES:
            self._whole.popleft().thin()

    def forget(self, pod: PodInfo) -> None:
        """Take back a placement that did not come to be."""
        self.table.remove(pod.key)
