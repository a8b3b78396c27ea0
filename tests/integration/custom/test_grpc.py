"""Custom objects through the native API: JSON in the envelope, the same verbs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.custom.conftest import Pair, until
from tests.support.definitions import definition
from wharfinger.api import errors
from wharfinger.api.types import apiextensions
from wharfinger.client import Informer
from wharfinger.client.discovered import custom_kinds


async def test_native_api(pair: Pair) -> None:
    async with pair.one.client() as client, pair.two.client() as second:
        definitions = client.resource(apiextensions.CustomResourceDefinition)
        await definitions.create(definition("native.example.com"))
        # the other server has not been asked for anything of this kind yet
        kind = next(kind for kind in custom_kinds(await second.discover()) if kind.group == "native.example.com")
        assert (kind.kind, kind.singular, kind.list_kind, kind.described) == ("Lamp", "lamp", "LampList", False)
        objects = second.resource(kind.message)
        informer: Informer[Any] = Informer(client.resource(kind.message))
        await informer.start()
        await informer.wait_synced()
        writer = second.writer()
        lamp: Any = kind.message()
        lamp.metadata.name, lamp.metadata.namespace, lamp.content = "a", "default", {"spec": {"n": 1}}
        made: Any = await writer.create(lamp)
        assert (made.content, made.metadata.generation) == ({"spec": {"n": 1}}, 1)
        raw = await second.raw(kind).get("a", namespace="default")
        assert raw.content_type == "application/json"
        made.content = {"spec": {"n": 2}}
        changed: Any = await objects.update(made)
        assert changed.metadata.generation == 2
        patched: Any = await objects.patch("a", namespace="default", patch={"spec": {"m": 3}})
        assert patched.content == {"spec": {"n": 2, "m": 3}}
        with pytest.raises(errors.UnsupportedMediaTypeError):
            await objects.patch("a", namespace="default", patch={"spec": {}}, patch_type="strategic")

        async def followed() -> bool:
            seen: Any = informer.get("default/a")
            return seen is not None and bool(seen.content == {"spec": {"n": 2, "m": 3}})

        await until(followed, "the informer on the other server has it")
        listed = await objects.list(namespace="default")
        assert [item.content for item in listed.items] == [patched.content]  # type: ignore[attr-defined]
        await objects.delete("a", namespace="default")

        async def gone() -> bool:
            return informer.get("default/a") is None

        await until(gone, "and hears of its end")
        await informer.stop()
        await writer.close()
        await definitions.delete("lamps.native.example.com")
