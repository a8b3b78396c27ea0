"""Requests are counted under Kubernetes' names."""

from __future__ import annotations

from prometheus_client import REGISTRY, generate_latest

from controlplane.apiserver import metrics
from wharfinger.api.errors import NotFoundError


def test_requests_show_as_counters_and_a_histogram() -> None:
    observe = metrics.observer("tested")
    observe(0.002, None)
    observe(0.2, NotFoundError("no"))
    observe(20.0, RuntimeError("broken"))
    lines = generate_latest(REGISTRY).decode().splitlines()
    for line in (
        'apiserver_request_total{code="200",verb="tested"} 1.0',
        'apiserver_request_total{code="404",verb="tested"} 1.0',
        'apiserver_request_total{code="500",verb="tested"} 1.0',
        'apiserver_request_duration_seconds_bucket{le="0.001",verb="tested"} 0.0',
        'apiserver_request_duration_seconds_bucket{le="0.0025",verb="tested"} 1.0',
        'apiserver_request_duration_seconds_bucket{le="0.25",verb="tested"} 2.0',
        'apiserver_request_duration_seconds_bucket{le="+Inf",verb="tested"} 3.0',
        'apiserver_request_duration_seconds_count{verb="tested"} 3.0',
    ):
        assert line in lines
