"""Metrics, under the names that kube-apiserver uses where it has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

from wharfinger.api.errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Callable

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_REQUESTS = Counter("apiserver_request_total", "Requests by verb and code.", ["verb", "code"])
_SECONDS = Histogram(
    "apiserver_request_duration_seconds",
    "Seconds from the request's arrival to its answer.",
    ["verb"],
    buckets=_BUCKETS,
)
_LONG_RUNNING = Gauge("wharfinger_grpc_open_streams", "gRPC streams that are open now, by verb.", ["verb"])


def observer(verb: str) -> Callable[[float, Exception | None], None]:
    """Return the function that counts one request of a verb: its seconds, and its error if it failed."""
    good = _REQUESTS.labels(verb, "200").inc
    seconds = _SECONDS.labels(verb).observe

    def observe(duration: float, error: Exception | None) -> None:
        seconds(duration)
        if error is None:
            good()
        else:
            code = error.status_code if isinstance(error, StatusError) else 500
            _REQUESTS.labels(verb, str(code)).inc()

    return observe


def long_running(verb: str) -> Gauge:
    """Return the gauge of a verb's open streams."""
    return _LONG_RUNNING.labels(verb)
