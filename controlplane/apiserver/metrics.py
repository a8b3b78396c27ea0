"""Metrics, under the names that kube-apiserver uses where it has them.

Requests are counted in plain lists, and turned into Prometheus' form only when somebody scrapes: the client library's
own histogram costs microseconds an observation, and every request pays them.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, Gauge
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from wharfinger.api.errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.metrics_core import Metric

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_OPEN = Gauge("wharfinger_grpc_open_streams", "gRPC streams that are open now, by verb.", ["verb"])


class _Tally:
    """What is counted of one verb."""

    __slots__ = ("buckets", "codes", "seconds", "verb")

    def __init__(self, verb: str) -> None:
        self.verb = verb
        self.codes: dict[int, int] = {}
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0

    def observe(self, duration: float, error: Exception | None) -> None:
        self.buckets[bisect_left(BUCKETS, duration)] += 1
        self.seconds += duration
        code = 200 if error is None else error.status_code if isinstance(error, StatusError) else 500
        self.codes[code] = self.codes.get(code, 0) + 1


class _Requests(Collector):
    """Shows the tallies to Prometheus."""

    def __init__(self) -> None:
        self.tallies: dict[str, _Tally] = {}

    def collect(self) -> Iterable[Metric]:
        """Return the two families."""
        total = CounterMetricFamily("apiserver_request", "Requests by verb and code.", labels=["verb", "code"])
        seconds = HistogramMetricFamily(
            "apiserver_request_duration_seconds", "Seconds from a request's arrival to its answer.", labels=["verb"]
        )
        for tally in self.tallies.values():
            for code, count in tally.codes.items():
                total.add_metric([tally.verb, str(code)], count)
            running, buckets = 0, []
            for bound, count in zip((*map(str, BUCKETS), "+Inf"), tally.buckets, strict=True):
                running += count
                buckets.append((bound, running))
            seconds.add_metric([tally.verb], buckets=buckets, sum_value=tally.seconds)
        return [total, seconds]


_requests = _Requests()
REGISTRY.register(_requests)


def observer(verb: str) -> Callable[[float, Exception | None], None]:
    """Return the function that counts one request of a verb: its seconds, and its error if it failed."""
    tally = _requests.tallies.setdefault(verb, _Tally(verb))
    return tally.observe


def long_running(verb: str) -> Gauge:
    """Return the gauge of a verb's open streams."""
    return _OPEN.labels(verb)
