"""The plugins, one file each. A new one is a file here and a line in :data:`REGISTRY`.

Plugins of others are found by the entry point group ``wharfinger.scheduler.plugins``: its names are the plugins' names.
Only those that a configuration names are ever imported.
"""

import inspect
from functools import cache
from importlib.metadata import entry_points

from controlplane.scheduler.framework import Plugin
from controlplane.scheduler.plugins.default_preemption import DefaultPreemption
from controlplane.scheduler.plugins.gang_scheduling import GangScheduling
from controlplane.scheduler.plugins.image_locality import ImageLocality
from controlplane.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from controlplane.scheduler.plugins.node_affinity import NodeAffinity
from controlplane.scheduler.plugins.node_name import NodeName
from controlplane.scheduler.plugins.node_ports import NodePorts
from controlplane.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from controlplane.scheduler.plugins.node_resources_fit import NodeResourcesFit
from controlplane.scheduler.plugins.node_unschedulable import NodeUnschedulable
from controlplane.scheduler.plugins.pod_topology_spread import PodTopologySpread
from controlplane.scheduler.plugins.priority_sort import PrioritySort
from controlplane.scheduler.plugins.scheduling_gates import SchedulingGates
from controlplane.scheduler.plugins.taint_toleration import TaintToleration

REGISTRY: dict[str, type[Plugin]] = {
    plugin.name: plugin
    for plugin in (
        SchedulingGates,
        GangScheduling,
        PrioritySort,
        NodeUnschedulable,
        NodeName,
        TaintToleration,
        NodeAffinity,
        NodePorts,
        NodeResourcesFit,
        NodeResourcesBalancedAllocation,
        ImageLocality,
        PodTopologySpread,
        InterPodAffinity,
        DefaultPreemption,
    )
}
"""Name of a plugin -> its class."""

ENTRY_POINTS = "wharfinger.scheduler.plugins"
"""The group of entry points of plugins that are not part of this project."""

WITHOUT_EFFECT = frozenset(
    {
        "DefaultBinder",
        "DynamicResources",
        "NodeDeclaredFeatures",
        "NodeVolumeLimits",
        "PodGroupPodsCount",
        "TopologyPlacementGenerator",
        "VolumeBinding",
        "VolumeRestrictions",
        "VolumeZone",
    }
)
"""Plugins of kube-scheduler that a configuration may name and that do nothing here."""


@cache
def find(name: str) -> type[Plugin]:
    """Return the class of a plugin. Raises ValueError for one that does not exist or cannot be used."""
    known = REGISTRY.get(name)
    if known is not None:
        return known
    others = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if name not in others:
        raise ValueError(f"{name!r} is no plugin; there are {', '.join(sorted({*REGISTRY, *others}))}")
    entry = others[name]
    try:
        found = entry.load()
    except (ImportError, AttributeError) as error:
        raise ValueError(f"plugin {name!r} ({entry.value}) cannot be loaded: {error}") from error
    if not inspect.isclass(found) or not issubclass(found, Plugin) or getattr(found, "name", "") != name:
        raise ValueError(f"plugin {name!r} ({entry.value}) is no subclass of Plugin with that name")
    return found
