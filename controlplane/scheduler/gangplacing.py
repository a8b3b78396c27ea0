"""Places a gang in one go: enough members, or none. No I/O and no clock.

All members are decided one after the other, each counting for those after it, before anything else is decided: so two
gangs never hold a part of the room each and wait for the other. When too few fit, others may have to make room; whether
that is enough is worked out before anybody has to go. What does not come to be is taken back without a trace.

The search is greedy: members that few nodes could take come first, then the large ones, and each takes the node with
the highest score. A gang that only fits in one particular arrangement may not be found to fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controlplane.scheduler.decisions import Diagnosis, Placement
from controlplane.scheduler.framework import Aspect

if TYPE_CHECKING:
    from controlplane.scheduler.engine import Engine
    from controlplane.scheduler.gangs import Gang
    from controlplane.scheduler.podinfo import PodClass, PodInfo
    from controlplane.scheduler.victims import Candidate


@dataclass(slots=True)
class GangOutcome:
    """What deciding a gang came to."""

    needed: int
    """How many members had to be placed."""
    placements: list[tuple[PodInfo, Placement]] = field(default_factory=list)
    """They stand when the outcome is `complete`, else they have been taken back."""
    refused: list[tuple[PodInfo, Diagnosis]] = field(default_factory=list)
    making_room: list[tuple[PodInfo, Candidate]] = field(default_factory=list)
    """Members that would fit after others have gone."""
    awaiting: list[PodInfo] = field(default_factory=list)
    """Members for which others are leaving already."""
    reads: int = Aspect.EXISTENCE | Aspect.USAGE | Aspect.ALLOCATABLE
    """What the filters that refused members look at."""

    @property
    def complete(self) -> bool:
        """Whether enough members have a node."""
        return len(self.placements) >= self.needed

    @property
    def promised(self) -> int:
        """How many members have a node or will have one."""
        return len(self.placements) + len(self.making_room) + len(self.awaiting)

    @property
    def possible(self) -> bool:
        """Whether enough members will have a node when all victims have gone."""
        return self.promised >= self.needed


@dataclass(frozen=True, slots=True)
class GangRefusal:
    """Why the members of a gang wait; the last attempt of each of them."""

    gang: str
    minimum: int
    fitting: int
    """How many could run at the same time, those that are placed already included."""
    placed: int
    refused: str
    """Key of the first member that fits nowhere; empty when none was refused."""
    cls: PodClass | None
    """The kind of that member."""
    diagnosis: Diagnosis | None
    """Why it fits nowhere."""
    held: bool
    """Whether room is kept while victims leave."""
    message: str

    @classmethod
    def of(cls, gang: Gang, outcome: GangOutcome, *, held: bool) -> GangRefusal:
        """Say what an outcome that is not complete means."""
        placed = gang.settled
        fitting = placed + len(outcome.placements)
        first = next(iter(outcome.refused), None)
        already = f" ({placed} placed already)" if placed else ""
        text = f"{fitting} of {gang.minimum} members of PodGroup {gang.name} fit at the same time{already}"
        if held:
            nodes = sorted({one.node for _, one in outcome.making_room} | {it.nominated for it in outcome.awaiting})
            text += f"; room is being made on {', '.join(nodes[:3])}{' and others' if len(nodes) > 3 else ''}"
        elif first is not None:
            text += f"; {first[0].name}: {first[1].message}"
        return cls(
            gang.key,
            gang.minimum,
            fitting,
            placed,
            first[0].key if first is not None else "",
            first[0].cls if first is not None else None,
            first[1] if first is not None else None,
            held,
            text,
        )


def place_gang(engine: Engine, members: Sequence[PodInfo], needed: int, *, preempting: bool = True) -> GangOutcome:
    """Place at least so many of these pods, or none; they stay counted when the outcome is complete.

    Whatever is raised on the way, nothing is left behind.
    """
    outcome = GangOutcome(needed)
    nominated = {info.key: info.nominated for info in members}
    stands = False
    try:
        _place(engine, _hardest_first(engine, members), outcome)
        if not outcome.complete and preempting:
            _make_room(engine, outcome)
        stands = outcome.complete
    finally:
        if not stands:
            _take_back(engine, members, outcome, nominated)
    return outcome


def _hardest_first(engine: Engine, members: Sequence[PodInfo]) -> Sequence[PodInfo]:
    feasible: dict[PodClass, int] = {}
    for info in members:
        if info.cls not in feasible:
            feasible[info.cls] = engine.state(info).feasible_count
    if len(feasible) == 1:
        return sorted(members, key=lambda info: -info.priority)
    return sorted(
        members,
        key=lambda info: (
            -info.priority, feasible[info.cls], -info.cls.usage.nonzero_cpu, -info.cls.usage.nonzero_memory,
        ),
    )  # fmt: skip


def _place(engine: Engine, members: Iterable[PodInfo], outcome: GangOutcome) -> None:
    failed: dict[PodClass, tuple[int, Diagnosis]] = {}
    for info in members:
        known = failed.get(info.cls)
        if known is not None and known[0] == engine.table.position and not engine.nominations:
            outcome.refused.append((info, known[1]))  # a twin was refused, and nothing has changed since
            continue
        decision = engine.decide(info)
        if isinstance(decision, Placement):
            outcome.placements.append((info, decision))
            continue
        outcome.refused.append((info, decision))
        failed[info.cls] = (engine.table.position, decision)
        outcome.reads |= engine.waits_for(info) or 0


def _make_room(engine: Engine, outcome: GangOutcome) -> None:
    hopeless: set[tuple[PodClass, int]] = set()
    for info, _ in outcome.refused:
        if outcome.possible:
            return
        kind = (info.cls, info.priority)
        if kind in hopeless and not info.nominated:
            continue
        decision = engine.decide(info)
        if isinstance(decision, Placement):
            outcome.placements.append((info, decision))
            continue
        found = engine.preempt(info, decision)
        if found is not None and found.chosen is not None:
            engine.nominate(info, found.chosen.node)
            outcome.making_room.append((info, found.chosen))
        elif found is not None and found.ineligible and info.nominated:
            outcome.awaiting.append(info)
        else:
            hopeless.add(kind)


def _take_back(engine: Engine, members: Sequence[PodInfo], outcome: GangOutcome, nominated: Mapping[str, str]) -> None:
    for info, _ in outcome.placements:
        engine.forget(info)
    for info in members:
        if info.nominated or nominated[info.key]:
            engine.nominate(info, nominated[info.key])
