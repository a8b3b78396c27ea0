"""Input that is too large, too deep, or no input at all: refused clearly, and the server goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio

from controlplane.apiserver.grpcfront import streaming
from tests.integration.apiserver.objects import config_map, pod
from tests.support.apiserver import Apiserver
from wharfinger.api import errors, kinds
from wharfinger.api.types import core
from wharfinger.client import Client
from wharfinger.client.raw import RawClient
from wharfinger.proto.native import resources_v1_pb2 as native


@pytest_asyncio.fixture
async def maps(client: Client, namespace: str) -> AsyncIterator[RawClient]:
    """The raw client of config maps; afterwards the server must still work."""
    yield client.raw(kinds.of(core.ConfigMap))
    await client.resource(core.ConfigMap).create(config_map("afterwards", namespace))


async def test_too_large(maps: RawClient, client: Client, namespace: str) -> None:
    with pytest.raises(errors.RequestTooLargeError, match="bytes"):
        await client.resource(core.ConfigMap).create(config_map("big", namespace, k="x" * (2 << 20)))
    grown = config_map("grown", namespace, a="x" * 900_000)
    await client.resource(core.ConfigMap).create(grown)
    with pytest.raises((errors.RequestTooLargeError, errors.InvalidError)):
        await client.resource(core.ConfigMap).patch("grown", patch={"data": {"b": "y" * 900_000}}, namespace=namespace)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"metadata":{"name":"a"},"data":{"k":"\xff\xfe"}}', "application/json"),
        (b"{" * 10_000, "application/json"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "application/json"),
        (b"[1,2,3]", "application/json"),
        (b"", "application/json"),
        (b"null", "application/json"),
        (b'{"metadata":{"name":["a"]}}', "application/json"),
        (b'{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"}}', "application/json"),
        (b"a: " + b"[" * 10_000 + b"]" * 10_000, "application/yaml"),
        (b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
            b"%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n" % ((n + 1, n + 1) + (n,) * 9) for n in range(97, 110)
        ), "application/yaml"),
        (b"\x00\x01\x02", "application/yaml"),
        (b"\xff\xff\xff\xff", ""),
        (b"\x0a\x05\x0a\x03\xff\xfe\xfd", ""),
    ],
)  # fmt: skip
async def test_what_cannot_be_read(maps: RawClient, namespace: str, body: bytes, content_type: str) -> None:
    with pytest.raises(errors.BadRequestError):
        await maps.create(body, namespace=namespace, content_type=content_type)


async def test_unknown_formats(maps: RawClient, namespace: str) -> None:
    with pytest.raises(errors.UnsupportedMediaTypeError):
        await maps.create(b"x", namespace=namespace, content_type="text/plain")


async def test_endless_label_values(maps: RawClient, client: Client, namespace: str) -> None:
    wrong = pod("web", namespace, app="x" * 1_000_000)
    with pytest.raises(errors.InvalidError) as caught:
        await client.resource(core.Pod).create(wrong)
    assert len(str(caught.value)) < 10_000
    with pytest.raises(errors.BadRequestError):
        await client.resource(core.Pod).list(label_selector="a=" + "x" * 1_000_000)


@pytest.mark.parametrize("patch", [b"[", b"7", b'[{"op":"jump","path":"/a"}]', b'{"metadata":{"labels":7}}'])
async def test_bad_patches(maps: RawClient, client: Client, namespace: str, patch: bytes) -> None:
    await client.resource(core.ConfigMap).create(config_map("a", namespace))
    patch_type = "json" if patch.startswith(b"[") else "merge"
    with pytest.raises((errors.BadRequestError, errors.InvalidError)):
        await maps.patch("a", patch=patch, patch_type=patch_type, namespace=namespace)


async def test_names_that_would_lead_elsewhere(maps: RawClient, client: Client, namespace: str) -> None:
    for name in ("../kube-system/x", "a/b", "..", "%2e"):
        with pytest.raises(errors.StatusError) as caught:
            await client.resource(core.ConfigMap).create(config_map(name, namespace))
        assert caught.value.status_code in (400, 422)
        with pytest.raises(errors.StatusError) as caught:
            await client.resource(core.ConfigMap).get(name, namespace=namespace)
        assert caught.value.status_code in (400, 404)


async def test_an_error_with_thousands_of_causes_arrives_as_itself(client: Client, namespace: str) -> None:
    wrong = pod("web", namespace)
    for number in range(5_000):
        wrong.metadata.labels[f"not a key {number}"] = "not a value"
    with pytest.raises(errors.InvalidError, match=r"metadata\.labels") as caught:
        await client.resource(core.Pod).create(wrong)
    assert len(caught.value.causes) > 10
    assert "more causes" in caught.value.message
    with pytest.raises(errors.StatusError) as answer:
        await client.resource(core.Pod).get("ü" * 100_000, namespace=namespace)
    assert answer.value.status_code in (400, 404)


async def test_lists_of_thousands_do_not_hold_up_the_server(maps: RawClient, client: Client, namespace: str) -> None:
    """Their checks take a fraction of a second; where they compared all with all, these took a minute and more."""
    wide = pod("wide", namespace)
    for number in range(20_000):
        wide.spec.containers[0].ports.add(containerPort=80, hostPort=number + 1, protocol="TCP")
    for number in range(8_000):
        wide.spec.topologySpreadConstraints.add(
            maxSkew=1, topologyKey=f"example.com/key-{number}", whenUnsatisfiable="ScheduleAnyway"
        )
    async with asyncio.timeout(20):
        await client.resource(core.Pod).create(wide, dry_run=True)


@pytest.mark.parametrize("version", ["abc", "-1", "1" * 100_000, "٣"])
async def test_versions_that_are_no_numbers(client: Client, version: str) -> None:
    with pytest.raises(errors.StatusError, match="must be a number") as caught:
        await client.resource(core.Pod).list(resource_version=version)
    assert len(caught.value.message) < 500


@pytest.mark.parametrize("method", ["Get", "Create", "Watch", "Write", "BindMany"])
async def test_messages_that_are_none(server: Apiserver, method: str) -> None:
    config = server.config()
    credentials = grpc.ssl_channel_credentials(config.ca, config.key, config.cert)
    async with grpc.aio.secure_channel(config.endpoints[0], credentials) as channel:
        path = f"/wharfinger.v1.Resources/{method}"
        call: Any = channel.stream_stream(path, None, None)()  # which is any kind of call, on the wire
        await call.write(b"\x0a\xff\xff")
        await call.done_writing()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "no wharfinger.v1." in (caught.value.details() or "")


async def test_a_client_that_never_reads_is_not_read_either() -> None:
    """Outcomes that nobody takes are kept for `MAX_UNDER_WAY` writes and no more."""
    outcomes = _NeverRead(native.WriteBatch(writes=[native.Write(id=n + 1) for n in range(50_000)]))
    stream = streaming.WriteStream(SimpleNamespace(on_stream={}), SimpleNamespace(), outcomes)  # type: ignore[arg-type]
    serving = asyncio.create_task(stream.serve())
    await outcomes.writing.wait()
    for _ in range(1_000):
        await asyncio.sleep(0)
    assert len(stream._tasks) + len(stream._ready) <= streaming.MAX_UNDER_WAY
    outcomes.may_write.set()
    await serving
    assert outcomes.written == 50_000


class _NeverRead:
    """A call whose client sends one batch and reads only when allowed to."""

    def __init__(self, batch: native.WriteBatch) -> None:
        self._batches = [batch.SerializeToString()]
        self.writing, self.may_write, self.written = asyncio.Event(), asyncio.Event(), 0

    async def read(self) -> Any:
        return self._batches.pop() if self._batches else getattr(grpc.aio, "EOF")  # noqa: B009

    async def write(self, data: bytes) -> None:
        self.writing.set()
        await self.may_write.wait()
        self.written += len(native.WriteResults.FromString(data).results)
