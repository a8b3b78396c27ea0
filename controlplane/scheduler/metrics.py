"""Prometheus metrics of the scheduler, under kube-scheduler's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from prometheus_client import REGISTRY, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

_SECONDS = tuple(0.00001 * 4**power for power in range(11))

ATTEMPTS = Counter("scheduler_schedule_attempts_total", "Attempts to place a pod", ["result", "profile"])
ATTEMPT_SECONDS = Histogram(
    "scheduler_scheduling_attempt_duration_seconds", "Time of one decision", ["result", "profile"], buckets=_SECONDS
)
BINDING_SECONDS = Histogram(
    "scheduler_binding_duration_seconds", "Time from a decision to the answer of the apiserver", buckets=_SECONDS
)
POD_SECONDS = Histogram(
    "scheduler_pod_scheduling_sli_duration_seconds",
    "Time from first seen to bound, with the number of attempts",
    ["attempts"],
    buckets=tuple(0.001 * 2**power for power in range(20)),
)
BIND_FAILURES = Counter("scheduler_bind_failures_total", "Bindings that were refused or not answered", ["reason"])
PREEMPTION_ATTEMPTS = Counter("scheduler_preemption_attempts_total", "Searches for pods that could make room")
PREEMPTION_VICTIMS = Histogram(
    "scheduler_preemption_victims", "Pods that had to make room", buckets=(1, 2, 4, 8, 16, 32, 64)
)
WOKEN = Counter("scheduler_pods_woken_total", "Unschedulable pods that became active because a node would take them")
NODES = Gauge("scheduler_cache_size", "What the node table holds", ["type"])


@cache
def _attempts_of(result: str, profile: str) -> tuple[Counter, Histogram]:
    return ATTEMPTS.labels(result, profile), ATTEMPT_SECONDS.labels(result, profile)


def attempt(result: str, profile: str, seconds: float) -> None:
    """Count an attempt: scheduled, unschedulable or error."""
    counter, histogram = _attempts_of(result, profile)
    counter.inc()
    histogram.observe(seconds)


@cache
def _pods_by_attempts(attempts: int) -> Histogram:
    return POD_SECONDS.labels(str(attempts))


def pod_bound(attempts: int, seconds: float) -> None:
    """Count a pod that was bound `seconds` after it was first seen."""
    _pods_by_attempts(min(attempts, 10)).observe(seconds)


class PendingPods(Collector):
    """Reads the queue when scraped."""

    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        self._counts = counts

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return ``scheduler_pending_pods`` by queue."""
        family = GaugeMetricFamily("scheduler_pending_pods", "Pods that wait, by queue", labels=["queue"])
        counts = self._counts()
        for queue in ("active", "backoff", "unschedulable", "gated"):
            family.add_metric([queue], counts.get(queue, 0))
        yield family


def register(collector: Collector) -> None:
    """Add a collector to the process's registry."""
    REGISTRY.register(collector)
