"""Gangs: pods that are placed together or not at all, and how far each has come.

A pod names its gang by ``spec.schedulingGroup.podGroupName``; the PodGroup of that name says how many members must be
able to run at the same time. All members share a :class:`Gang`, the pending ones point to it, so pods without one cost
nothing. No I/O and no clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlplane.scheduler.framework import Code, Refusal

if TYPE_CHECKING:
    from controlplane.scheduler.podinfo import PodInfo
    from wharfinger.api.types import gangs

PLUGIN = "GangScheduling"


@dataclass(frozen=True, slots=True)
class Group:
    """What counts of a PodGroup."""

    uid: str
    generation: int
    min_member: int
    timeout: float
    """Seconds for which room is kept while victims of preemption leave."""
    phase: str = ""
    members: int = 0
    scheduled: int = 0
    succeeded: int = 0
    observed: int = 0
    """Generation that its status is about."""
    condition: tuple[str, str, str, int] = ("", "", "", 0)
    """Status, reason and message of the condition Scheduled, and since when (Unix seconds)."""

    @classmethod
    def of(cls, message: gangs.PodGroup) -> Group:
        """Read a PodGroup."""
        spec, status = message.spec, message.status
        stated = next((one for one in status.conditions if one.type == "Scheduled"), None)
        return cls(
            uid=message.metadata.uid,
            generation=message.metadata.generation,
            min_member=max(1, spec.minMember),
            timeout=float(spec.scheduleTimeoutSeconds or 60),
            phase=status.phase,
            members=status.members,
            scheduled=status.scheduled,
            succeeded=status.succeeded,
            observed=status.observedGeneration,
            condition=(stated.status, stated.reason, stated.message, stated.lastTransitionTime.seconds)
            if stated is not None
            else ("", "", "", 0),
        )

    @property
    def wants(self) -> tuple[str, int, float]:
        """Return what decides: a new status alone changes nothing."""
        return self.uid, self.min_member, self.timeout


class Gang:
    """The members of one PodGroup, whether it exists or not."""

    __slots__ = (
        "binding", "group", "held_until", "key", "name", "namespace", "ours", "pending", "placed", "ready", "succeeded",
    )  # fmt: skip

    def __init__(self, key: str) -> None:
        self.key = key
        self.namespace, _, self.name = key.partition("/")
        self.group: Group | None = None
        self.ours = False
        """Whether a member has ever asked for a scheduler that this one is."""
        self.pending: dict[str, PodInfo] = {}
        """Members without a node, by key; those with scheduling gates as well."""
        self.binding: dict[str, PodInfo] = {}
        """Members whose binding is under way."""
        self.placed: set[str] = set()
        """Members that have a node and are not being deleted."""
        self.succeeded: set[str] = set()
        self.ready = 0.0
        """When the pause after the last failed attempt ends; monotonic seconds."""
        self.held_until: float | None = None
        """Until when room is kept; monotonic seconds, None when none is."""

    def __repr__(self) -> str:
        return f"<Gang {self.key}>"

    @property
    def minimum(self) -> int:
        """How many members must be able to run at the same time."""
        return self.group.min_member if self.group is not None else 1

    @property
    def settled(self) -> int:
        """How many members need no decision any more."""
        return len(self.binding) + len(self.placed) + len(self.succeeded)

    @property
    def needed(self) -> int:
        """How many more members must be placed at the same time; 0: members are placed like other pods."""
        return max(0, self.minimum - self.settled)

    @property
    def begun(self) -> bool:
        """Whether some members have a node and the gang still lacks others: what is left goes first."""
        return bool(self.placed or self.binding) and self.needed > 0

    @property
    def members(self) -> int:
        """How many there are, finished ones included."""
        return len(self.pending) + self.settled

    def refusal(self) -> Refusal | None:
        """Return why members cannot be looked at yet."""
        if self.group is None:
            return Refusal(PLUGIN, Code.UNRESOLVABLE, (f"PodGroup {self.name} does not exist",))
        gated = sum(1 for info in self.pending.values() if info.gates)
        there = self.members - gated
        if there >= self.minimum:
            return None
        more = f", {gated} more wait for scheduling gates" if gated else ""
        text = f"{there} of {self.minimum} members of PodGroup {self.name} are there{more}"
        return Refusal(PLUGIN, Code.UNRESOLVABLE, (text,))


class Gangs:
    """All gangs by ``namespace/name``, and who is in which."""

    def __init__(self) -> None:
        self._gangs: dict[str, Gang] = {}
        self._of: dict[str, Gang] = {}
        """Key of a member -> its gang."""
        self.changed: dict[Gang, bool] = {}
        """Gangs where something has happened; True when that may let refused members fit."""

    def __bool__(self) -> bool:
        return bool(self._gangs)

    def __iter__(self) -> Iterator[Gang]:
        return iter(list(self._gangs.values()))

    def get(self, key: str) -> Gang:
        """Return a gang, a new one if need be."""
        gang = self._gangs.get(key)
        if gang is None:
            gang = self._gangs[key] = Gang(key)
        return gang

    def of(self, pod: str) -> Gang | None:
        """Return the gang of a member by the pod's key."""
        return self._of.get(pod)

    def set_group(self, key: str, group: Group | None) -> None:
        """Take in a PodGroup, None when it is gone."""
        if group is None and key not in self._gangs:
            return
        gang = self.get(key)
        before, gang.group = gang.group, group
        news = (before.wants if before is not None else None) != (group.wants if group is not None else None)
        self._note(gang, news=news)
        self._tidy(gang)

    # -- members

    def set_pending(self, info: PodInfo) -> None:
        """Take in a member without a node, or what is new of it."""
        gang = info.gang
        assert gang is not None
        if info.key in gang.binding:
            gang.binding[info.key] = info
            return
        before = gang.pending.get(info.key)
        if before is None:
            self._move(info.key, gang)
        gang.pending[info.key] = info
        if before is None or before.gates != info.gates or before.cls is not info.cls:
            self._note(gang, news=True)

    def set_placed(self, pod: str, key: str) -> None:
        """Take in that a member has a node."""
        gang = self.get(key)
        if pod not in gang.placed:
            self._move(pod, gang)
            gang.placed.add(pod)
            self._note(gang)

    def set_succeeded(self, pod: str, key: str) -> None:
        """Take in that a member has succeeded."""
        gang = self.get(key)
        if pod not in gang.succeeded:
            self._move(pod, gang)
            gang.succeeded.add(pod)
            self._note(gang)

    def begin_binding(self, info: PodInfo) -> None:
        """Count a member as placed from now on."""
        gang = self._of.get(info.key)
        if gang is not None and gang.pending.pop(info.key, None) is not None:
            gang.binding[info.key] = info
            self._note(gang)

    def binding_failed(self, info: PodInfo) -> None:
        """Take back :meth:`begin_binding`."""
        gang = self._of.get(info.key)
        if gang is not None and gang.binding.pop(info.key, None) is not None:
            gang.pending[info.key] = info
            self._note(gang)

    def bound(self, pod: str) -> None:
        """Take in that a binding has been stored."""
        gang = self._of.get(pod)
        if gang is not None and gang.binding.pop(pod, None) is not None:
            gang.placed.add(pod)
            self._note(gang)

    def drop(self, pod: str) -> None:
        """Forget a member."""
        gang = self._of.pop(pod, None)
        if gang is not None:
            self._take_out(pod, gang)
            self._note(gang)
            self._tidy(gang)

    def _move(self, pod: str, gang: Gang) -> None:
        before = self._of.get(pod)
        if before is not None:
            self._take_out(pod, before)
            if before is not gang:
                self._note(before)
                self._tidy(before)
        self._of[pod] = gang

    @staticmethod
    def _take_out(pod: str, gang: Gang) -> None:
        gang.pending.pop(pod, None)
        gang.binding.pop(pod, None)
        gang.placed.discard(pod)
        gang.succeeded.discard(pod)

    def _note(self, gang: Gang, *, news: bool = False) -> None:
        self.changed[gang] = self.changed.get(gang, False) or news

    def _tidy(self, gang: Gang) -> None:
        if gang.group is None and not gang.members:
            self._gangs.pop(gang.key, None)
