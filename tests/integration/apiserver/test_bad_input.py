"""Input that is too large, too deep, or no input at all: refused clearly, and the server goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.integration.apiserver.objects import config_map, pod
from wharfinger.api import errors, kinds
from wharfinger.api.types import core
from wharfinger.client import Client
from wharfinger.client.resources import RawClient


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
