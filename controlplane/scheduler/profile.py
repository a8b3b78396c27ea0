"""Which plugins take part, in which order and with which weights: data, not code.

The defaults are kube-scheduler's. A profile names the scheduler (``spec.schedulerName`` of pods) that it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from controlplane.scheduler.plugins import REGISTRY
from controlplane.scheduler.podinfo import PodInfo

DEFAULT_SCHEDULER_NAME = "default-scheduler"


@dataclass(frozen=True)
class Enabled:
    """A plugin that takes part, and how much its score counts (0: it does not score)."""

    name: str
    weight: int = 0


DEFAULT_PLUGINS = (
    Enabled("SchedulingGates"),
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


@dataclass
class Profile:
    """Plugins ready for use."""

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    enabled: Iterable[Enabled] = DEFAULT_PLUGINS
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name of a plugin -> its arguments."""

    def __post_init__(self) -> None:
        self.plugins: list[Plugin] = []
        self.filters: list[FilterPlugin] = []
        self.scores: list[tuple[ScorePlugin, int]] = []
        self.gates: list[PreEnqueuePlugin] = []
        self.post_filter: PostFilterPlugin | None = None
        self.grounded: list[Plugin] = []
        """Plugins whose preparation rests on more than nodes."""
        sorts: list[QueueSortPlugin] = []
        for entry in self.enabled:
            if entry.name not in REGISTRY:
                known = ", ".join(sorted(REGISTRY))
                raise ValueError(f"plugin {entry.name!r} of {self.scheduler_name} is none of {known}")
            plugin = REGISTRY[entry.name](self.arguments.get(entry.name))
            self.plugins.append(plugin)
            if type(plugin).basis is not Plugin.basis:
                self.grounded.append(plugin)
            if isinstance(plugin, PostFilterPlugin):
                self.post_filter = self.post_filter or plugin
            if isinstance(plugin, FilterPlugin):
                self.filters.append(plugin)
            if isinstance(plugin, ScorePlugin) and entry.weight:
                self.scores.append((plugin, entry.weight))
            if isinstance(plugin, PreEnqueuePlugin):
                self.gates.append(plugin)
            if isinstance(plugin, QueueSortPlugin):
                sorts.append(plugin)
        if len(sorts) != 1:
            raise ValueError(f"{self.scheduler_name} needs exactly one plugin that orders the queue, has {len(sorts)}")
        self.sort = sorts[0]

    def gate(self, pod: PodInfo) -> Refusal | None:
        """Return the first reason for which the pod must stay out of the queue."""
        for plugin in self.gates:
            refusal = plugin.gate(pod)
            if refusal is not None:
                return refusal
        return None
