"""The agent's metrics, under kubelet's names where it has them."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

OPERATIONS = Counter("kubelet_runtime_operations", "Calls to the container runtime by kind.", ["operation_type"])
OPERATION_ERRORS = Counter(
    "kubelet_runtime_operations_errors", "Failed calls to the container runtime by kind.", ["operation_type"]
)
OPERATION_SECONDS = Histogram(
    "kubelet_runtime_operations_duration_seconds",
    "Duration of calls to the container runtime.",
    ["operation_type"],
    buckets=(0.005, 0.0125, 0.031, 0.078, 0.195, 0.488, 1.22, 3.05, 7.63, 19.1, 47.7),
)
POD_START_SECONDS = Histogram(
    "kubelet_pod_start_duration_seconds",
    "Time from the first sight of a pod to its containers running.",
    buckets=(0.1, 0.25, 0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 300, 600),
)
RELIST_SECONDS = Histogram(
    "kubelet_pleg_relist_duration_seconds",
    "Time that it took to look the runtime over.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
RUNNING_PODS = Gauge("kubelet_running_pods", "Pods with a running sandbox.")
RUNNING_CONTAINERS = Gauge("kubelet_running_containers", "Containers by state.", ["container_state"])
