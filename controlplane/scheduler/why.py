"""Explains attempts: for each node the refusals with numbers or the scores, and the smallest change that would help.

Everything here reads values that the engine has kept; nothing is decided again as long as they are there. What is no
longer there (thousands of decisions ago, or before this scheduler began to lead) is evaluated anew, and the message
says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.decisions import Diagnosis, Placement
from controlplane.scheduler.framework import Change, Ints, Refusal
from controlplane.scheduler.gangplacing import GangRefusal
from wharfinger.proto.native import scheduling_v1_pb2 as native

if TYPE_CHECKING:
    from controlplane.scheduler.classstate import ClassState
    from controlplane.scheduler.engine import Engine
    from controlplane.scheduler.gangs import Gang
    from controlplane.scheduler.podinfo import PodInfo

SUGGESTIONS = 5
_ROWS_FOR_SUGGESTIONS = 2000


@dataclass(slots=True)
class View:
    """Arrays of one moment, ready to be shown."""

    state: ClassState
    names: Sequence[str | None]
    codes: Sequence[NDArray[np.int32]]
    facts: Sequence[Any]
    raw: Sequence[Ints]
    position: int
    """Rows touched after it have other numbers by now; their details are left out when `exact` is not set."""
    exact: bool
    """Whether `facts` are of that moment."""
    nominated: Mapping[int, Refusal] = field(default_factory=dict)
    """Row -> refusal of nodes that are kept for others."""

    def rows(self) -> Iterator[tuple[str, int]]:
        """Return name and row of each node, by name."""
        table = self.state.table
        for row in sorted(range(len(self.names)), key=lambda row: self.names[row] or ""):
            name = self.names[row]
            if name is not None and (self.exact or table.born[row] <= self.position):
                yield name, row


def view_now(state: ClassState) -> View:
    """Show the verdicts of this moment."""
    return View(
        state=state,
        names=tuple(state.table.names),
        codes=[column.codes for column in state.filters],
        facts=[column.filter.facts() for column in state.filters],
        raw=[scored.raw for scored in state.scores],
        position=state.position,
        exact=True,
    )


def view_of_diagnosis(diagnosis: Diagnosis) -> View | None:
    """Show what a failed attempt saw; None when its arrays have been let go."""
    state = diagnosis.state()
    if state is None or diagnosis.codes is None or diagnosis.names is None or diagnosis.facts is None:
        return None
    if len(diagnosis.codes) != len(state.filters):
        return None
    empty = [np.zeros(len(diagnosis.names), np.int64) for _ in state.scores]
    return View(
        state, diagnosis.names, diagnosis.codes, diagnosis.facts, empty, diagnosis.position, True, diagnosis.nominated
    )


def view_of_placement(placement: Placement) -> View | None:
    """Show what a successful attempt saw; None when that is too long ago."""
    state = placement.state()
    picture = state.history.at(placement.position, state) if state is not None else None
    if state is None or picture is None:
        return None
    names = [name if alive else None for name, alive in zip(state.table.names, picture.alive, strict=True)]
    facts = [column.filter.facts() for column in state.filters]
    return View(state, names, picture.codes, facts, picture.raw, placement.position, False)


def verdicts(view: View) -> list[native.NodeVerdict]:
    """Return what was found for each node, by name."""
    state = view.state
    there = np.array([name is not None for name in view.names], np.bool_)
    feasible = there.copy()
    if state.refusal is not None:
        feasible[:] = False
    for codes in view.codes:
        feasible &= codes == 0
    feasible[list(view.nominated)] = False
    scaled = [
        scored.score.scale(raw, scored.score.bounds(raw[feasible])) if feasible.any() else raw
        for scored, raw in zip(state.scores, view.raw, strict=True)
    ]
    result = []
    for name, row in view.rows():
        verdict = native.NodeVerdict(node=name, feasible=bool(feasible[row]))
        if verdict.feasible:
            _add_scores(verdict, view, scaled, row)
        else:
            _add_refusals(verdict, view, row)
        result.append(verdict)
    return result


def _add_scores(verdict: native.NodeVerdict, view: View, scaled: Sequence[Ints], row: int) -> None:
    total = 0
    for scored, raw, normalised in zip(view.state.scores, view.raw, scaled, strict=True):
        value = int(normalised[row])
        total += scored.weight * value
        shown = int(scored.score.published(raw[row : row + 1])[0])
        verdict.scores.add(plugin=scored.score.plugin, raw=shown, normalised=value, weight=scored.weight)
    verdict.total = total


def _add_refusals(verdict: native.NodeVerdict, view: View, row: int) -> None:
    state = view.state
    if state.refusal is not None:
        refusal = state.refusal
        reason = ", ".join(refusal.reasons)
        verdict.refusals.add(plugin=refusal.plugin, code=refusal.code.value, reason=reason, detail=reason)
    current = view.exact or state.table.touched[row] <= view.position
    for column, codes, facts in zip(state.filters, view.codes, view.facts, strict=True):
        code = int(codes[row])
        if not code:
            continue
        refusal = column.filter.refusal(code)
        reason = ", ".join(refusal.reasons)
        detail = column.filter.detail(row, code, facts) if current else f"{reason} (the node has changed since)"
        verdict.refusals.add(plugin=refusal.plugin, code=refusal.code.value, reason=reason, detail=detail)
    kept = view.nominated.get(row)
    if kept is not None and not verdict.refusals:
        reason = ", ".join(kept.reasons)
        detail = "room there is kept for pods that are nominated to it"
        verdict.refusals.add(plugin=kept.plugin, code=kept.code.value, reason=reason, detail=detail)


def suggestions(view: View) -> list[str]:
    """Return the smallest changes that would let the pod fit somewhere, cheapest first."""
    state = view.state
    if state.refusal is not None:
        return []
    found: dict[str, tuple[int, float, list[str]]] = {}
    for name, row in list(view.rows())[:_ROWS_FOR_SUGGESTIONS]:
        changes = _changes(view, row)
        if not changes:
            continue
        text = " and ".join(change.text for change in changes)
        cost = sum(change.cost for change in changes)
        if all(change.of_pod for change in changes) and text in found:
            found[text][2].append(name)
        else:
            found[text] = (len(changes), cost, [name])
    ordered = sorted(found.items(), key=lambda item: (item[1][0], item[1][1], item[0]))
    result = []
    for text, (_, _, nodes) in ordered[:SUGGESTIONS]:
        if any(node in text for node in nodes):
            result.append(text)
        else:
            others = len(nodes) - 1
            where = f"{nodes[0]} and {others} more" if others else nodes[0]
            result.append(f"{text} (to fit on {where})")
    return result


def _changes(view: View, row: int) -> list[Change] | None:
    changes: list[Change] = []
    for column, codes, facts in zip(view.state.filters, view.codes, view.facts, strict=True):
        code = int(codes[row])
        if code:
            needed = column.filter.changes(row, code, facts)
            if needed is None:
                return None
            changes += needed
    return list({change.text: change for change in changes}.values())


def explain_failure(engine: Engine, pod: PodInfo, diagnosis: Diagnosis, into: native.Explanation) -> None:
    """Fill in what a failed attempt found."""
    view = view_of_diagnosis(diagnosis)
    into.message = diagnosis.message
    if view is None:
        view = view_now(engine.state(pod))
        into.message += " (by node: as of now, the details of that attempt are no longer kept)"
    into.nodes.extend(verdicts(view))
    into.suggestions.extend(suggestions(view))


def gang_suggestions(refusal: GangRefusal) -> list[str]:
    """Return what would let the first member fit that did not, as far as the details of the attempt are kept."""
    view = view_of_diagnosis(refusal.diagnosis) if refusal.diagnosis is not None and not refusal.held else None
    return suggestions(view) if view is not None else []


def explain_gang_refusal(refusal: GangRefusal, into: native.Explanation) -> None:
    """Fill in why a gang waits: the nodes as the first member saw them that fitted nowhere, the others placed."""
    into.message = refusal.message
    view = view_of_diagnosis(refusal.diagnosis) if refusal.diagnosis is not None else None
    if view is not None:
        into.nodes.extend(verdicts(view))
    into.suggestions.extend(gang_suggestions(refusal))


def explain_gang(gang: Gang, refusal: GangRefusal | None, now: float, into: native.GangState) -> None:
    """Fill in how a gang fares; `now` is monotonic seconds."""
    into.name = gang.name
    into.min_member = gang.group.min_member if gang.group is not None else 0
    into.members, into.placed, into.succeeded = gang.members, len(gang.placed), len(gang.succeeded)
    if refusal is not None:
        into.fitting, into.refused = refusal.fitting, refusal.refused
    if gang.held_until is not None:
        into.room_kept_seconds = max(0.0, gang.held_until - now)


def explain_placement(engine: Engine, placement: Placement, into: native.Explanation) -> None:
    """Fill in what a successful attempt found."""
    into.chosen_node = placement.node
    if placement.pinned:
        into.message = f"the pod names {placement.node}, which could take it; no other node was looked at"
        into.nodes.add(node=placement.node, feasible=True)
        return
    drawn = f", drawn among {placement.ties} equals" if placement.ties > 1 else ""
    into.message = (
        f"{placement.feasible} of {placement.evaluated} nodes could take the pod; "
        f"{placement.node} had the highest score, {placement.total}{drawn}"
    )
    view = view_of_placement(placement)
    if view is not None:
        into.nodes.extend(verdicts(view))
        others = [verdict for verdict in into.nodes if verdict.feasible and verdict.node != placement.node]
        if others and placement.ties == 1:
            second = max(others, key=lambda verdict: verdict.total)
            into.message += f", {placement.total - second.total} more than {second.node}, the next"
        return
    into.message += " (the other nodes of that moment are no longer kept)"
    verdict = into.nodes.add(node=placement.node, feasible=True, total=placement.total)
    state = placement.state()
    if state is not None and len(state.scores) == len(placement.scores):
        for scored, value in zip(state.scores, placement.scores, strict=True):
            verdict.scores.add(plugin=scored.score.plugin, raw=value, normalised=value, weight=scored.weight)


def explain_now(engine: Engine, pod: PodInfo, into: native.Explanation) -> None:
    """Fill in what an attempt would find now; a pod that is placed is left out of the sums for the moment."""
    placed = engine.table.placed.get(pod.key)
    engine.table.remove(pod.key)
    try:
        view = view_now(engine.state(pod))
        into.nodes.extend(verdicts(view))
        if not any(verdict.feasible for verdict in into.nodes):
            into.suggestions.extend(suggestions(view))
    finally:
        if placed is not None:
            engine.table.put(pod.key, placed)
