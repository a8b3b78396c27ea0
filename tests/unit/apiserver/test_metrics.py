"""Requests are counted under Kubernetes' names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import grpc.aio
from prometheus_client import REGISTRY, generate_latest

from controlplane.apiserver import metrics
from controlplane.apiserver.grpcfront.streaming import WriteStream
from wharfinger.api.errors import NotFoundError
from wharfinger.proto.native import resources_v1_pb2 as native


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


async def test_writes_of_the_stream_count_like_others() -> None:
    batch = native.WriteBatch(
        writes=[
            native.Write(id=1, patch=native.PatchRequest()),
            native.Write(id=2, patch=native.PatchRequest()),
            native.Write(id=3, delete=native.DeleteRequest()),
        ]
    )
    messages = [batch.SerializeToString(), getattr(grpc.aio, "EOF")]  # noqa: B009

    class Call:
        async def read(self) -> Any:
            return messages.pop(0)

        async def write(self, _: bytes) -> None:
            return

    async def patch(_: Any, __: Any) -> bytes:
        return b""

    async def delete(_: Any, __: Any) -> bytes:
        raise NotFoundError("no")

    def counts() -> list[float]:
        value = REGISTRY.get_sample_value
        labels = [{"verb": "patch", "code": "200"}, {"verb": "delete", "code": "404"}]
        return [value("apiserver_request_total", label) or 0.0 for label in labels]

    before = counts()

    async def retried(call: Any, *args: Any) -> Any:
        return await call(*args)

    calls: Any = SimpleNamespace(
        auditing=None, on_stream={"patch": patch, "delete": delete}, api=SimpleNamespace(retried=retried)
    )
    await WriteStream(calls, SimpleNamespace(), Call()).serve()  # type: ignore[arg-type]
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [2.0, 1.0]
