"""Which plugins take part, in which order and with which weights: data, not code.

The defaults are kube-scheduler's. A profile names the scheduler (``spec.schedulerName`` of pods) that it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.scheduler.framework import (
    FilterPlugin,
    Plugin,
    PostFilterPlugin,
    PreEnqueuePlugin,
    QueueSortPlugin,
    Refusal,
    ScorePlugin,
)
from controlplane.scheduler.plugins import find
from controlplane.scheduler.plugins.gang_scheduling import GangScheduling
from controlplane.scheduler.plugins.node_resources_fit import NodeResourcesFit
from controlplane.scheduler.podinfo import PodClass, PodInfo

DEFAULT_SCHEDULER_NAME = "default-scheduler"


@dataclass(frozen=True)
class Enabled:
    """A plugin that takes part, and how much its score counts (0: it does not score)."""

    name: str
    weight: int = 0


DEFAULT_PLUGINS = (
    Enabled("SchedulingGates"),
    Enabled("GangScheduling"),
    Enabled("PrioritySort"),
    Enabled("NodeUnschedulable"),
    Enabled("NodeName"),
    Enabled("TaintToleration", 3),
    Enabled("NodeAffinity", 2),
    Enabled("NodePorts"),
    Enabled("NodeResourcesFit", 1),
    Enabled("PodTopologySpread", 2),
    Enabled("InterPodAffinity", 2),
    Enabled("NodeResourcesBalancedAllocation", 1),
    Enabled("ImageLocality", 1),
    Enabled("DefaultPreemption"),
)
"""In the order of filters: the first that refuses a node is the one that is counted in events."""


POINTS: Mapping[str, type[Plugin]] = {
    "preEnqueue": PreEnqueuePlugin,
    "queueSort": QueueSortPlugin,
    "filter": FilterPlugin,
    "postFilter": PostFilterPlugin,
    "score": ScorePlugin,
}
"""Extension points and what a plugin must be to take part there."""


@dataclass
class Profile:
    """Plugins ready for use. Raises ValueError for unknown plugins, wrong arguments and impossible combinations."""

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    enabled: Iterable[Enabled] = DEFAULT_PLUGINS
    """Take part wherever they can."""
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name of a plugin -> its arguments."""
    points: Mapping[str, Sequence[Enabled]] = field(default_factory=dict)
    """Extension point -> the plugins there, instead of those enabled everywhere."""

    def __post_init__(self) -> None:
        self._made: dict[str, Plugin] = {}
        for entry in self.enabled:
            self._make(entry.name)
        self.filters = [plugin for plugin, _ in self._at("filter") if isinstance(plugin, FilterPlugin)]
        self.scores = [
            (plugin, weight) for plugin, weight in self._at("score") if isinstance(plugin, ScorePlugin) and weight
        ]
        self.gates = [plugin for plugin, _ in self._at("preEnqueue") if isinstance(plugin, PreEnqueuePlugin)]
        sorts = [plugin for plugin, _ in self._at("queueSort") if isinstance(plugin, QueueSortPlugin)]
        later = [plugin for plugin, _ in self._at("postFilter") if isinstance(plugin, PostFilterPlugin)]
        if len(sorts) != 1:
            raise ValueError(f"{self.scheduler_name} needs exactly one plugin that orders the queue, has {len(sorts)}")
        self.sort = sorts[0]
        self.post_filter = later[0] if later else None
        self.knows_gangs = any(isinstance(plugin, GangScheduling) for plugin in self.gates)
        """Whether members of a PodGroup are placed together."""
        self.plugins = list(self._made.values())
        self.grounded = [plugin for plugin in self.plugins if type(plugin).basis is not Plugin.basis]
        """Plugins whose preparation rests on more than nodes."""

    def _make(self, name: str) -> Plugin:
        plugin = self._made.get(name)
        if plugin is None:
            plugin = self._made[name] = find(name)(self.arguments.get(name))
        return plugin

    def _at(self, point: str) -> list[tuple[Plugin, int]]:
        wanted = POINTS[point]
        explicit = self.points.get(point)
        found = []
        for entry in self.enabled if explicit is None else explicit:
            plugin = self._make(entry.name)
            if isinstance(plugin, wanted):
                found.append((plugin, entry.weight))
        return found

    def checks_room(self, pod: PodClass) -> bool:
        """Whether a node without room for all that a pod requests is refused, so that the bind may be checked, too."""
        return any(isinstance(plugin, NodeResourcesFit) and plugin.counts_all(pod) for plugin in self.filters)

    def gate(self, pod: PodInfo) -> Refusal | None:
        """Return the first reason for which the pod must stay out of the queue."""
        for plugin in self.gates:
            refusal = plugin.gate(pod)
            if refusal is not None:
                return refusal
        return None
