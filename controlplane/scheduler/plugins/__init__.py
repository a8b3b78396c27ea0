"""The plugins, one file each. A new one is a file here and a line in :data:`REGISTRY`."""

from controlplane.scheduler.framework import Plugin
from controlplane.scheduler.plugins.default_preemption import DefaultPreemption
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
