"""Nothing acknowledged is lost, and watches miss nothing, whoever dies."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.apiserver.objects import config_map, lease, pod
from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd
from wharfinger.api import errors
from wharfinger.api.types import coordination, core
from wharfinger.client import Client, Fence

DEADLINE = 40.0


@pytest.fixture
def servers(etcd: Etcd, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Apiserver, Apiserver]]:
    """Two apiservers on one etcd; the parameter says how many writes may share a transaction."""
    flags = ("--group-commit-max", str(getattr(request, "param", 100)))
    with (
        Apiserver(etcd.endpoint, *flags, folder=tmp_path) as one,
        Apiserver(etcd.endpoint, *flags, folder=tmp_path) as two,
    ):
        yield one, two


async def _write(client: Client, names: list[str], acknowledged: set[str]) -> None:
    """Create until every name is there; a write that may have happened is looked at before it is repeated."""
    maps = client.resource(core.ConfigMap)
    for name in names:
        while name not in acknowledged:
            try:
                await maps.create(config_map(name, "default"))
            except errors.AlreadyExistsError:
                pass
            except (errors.ServiceUnavailableError, errors.TimeoutError_):
                await asyncio.sleep(0.05)
                continue
            acknowledged.add(name)


async def _follow(client: Client, version: str, seen: dict[str, str], until: set[str]) -> None:
    """Watch, resuming at the last version seen, until every name has come."""
    maps = client.resource(core.ConfigMap)
    while not until <= set(seen):
        try:
            async for batch in maps.watch(namespace="default", resource_version=version):
                for event in batch:
                    if event.type != "BOOKMARK":
                        seen[event.object.metadata.name] = event.resource_version
                    version = event.resource_version
                if until <= set(seen):
                    return
        except errors.ServiceUnavailableError:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("servers", [100, 1], ids=["grouped", "alone"], indirect=True)
async def test_kills_lose_nothing(etcd: Etcd, servers: tuple[Apiserver, Apiserver]) -> None:
    one, two = servers
    names = [[f"w{writer}-{number}" for number in range(40)] for writer in range(4)]
    everything = {name for part in names for name in part}
    acknowledged: set[str] = set()
    seen: list[dict[str, str]] = [{}, {}]
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    async with one.client(more=(two.endpoint,)) as first, two.client(more=(one.endpoint,)) as second:
        version = (await first.resource(core.ConfigMap).list(namespace="default")).resource_version
        followers = [
            asyncio.create_task(_follow(client, version, found, everything))
            for client, found in zip((first, second), seen, strict=True)
        ]
        writers = [
            asyncio.create_task(_write(client, part, acknowledged))
            for client, part in zip((first, second, first, second), names, strict=True)
        ]
        async with asyncio.timeout(DEADLINE * 2):
            for victim in chance.sample(["one", "two", "etcd", "one", "two"], 5):
                before = len(acknowledged)
                while len(acknowledged) < min(before + 10, len(everything)):
                    await asyncio.sleep(0.01)
                if victim == "etcd":
                    await asyncio.to_thread(etcd.restart)
                    continue
                server = one if victim == "one" else two
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            await asyncio.gather(*writers)
            await asyncio.gather(*followers)
        stored = {item.metadata.name for item in (await first.resource(core.ConfigMap).list(namespace="default")).items}
    assert acknowledged == everything
    assert everything <= stored
    for found in seen:
        assert everything <= set(found)
    assert seen[0] == seen[1]


async def test_two_servers_agree(servers: tuple[Apiserver, Apiserver]) -> None:
    one, two = servers
    async with one.client() as first, two.client() as second:
        for number in range(10):
            name = f"m{number}"
            made = await first.resource(core.ConfigMap).create(config_map(name, "default"))
            assert await second.resource(core.ConfigMap).get(name, namespace="default") == made
            made.data["k"] = "1"
            changed = await second.resource(core.ConfigMap).update(made)
            await first.resource(core.ConfigMap).update(changed)
            made.data["k"] = "2"
            with pytest.raises(errors.ConflictError):
                await first.resource(core.ConfigMap).update(made)
            await second.resource(core.ConfigMap).delete(name, namespace="default")
            with pytest.raises(errors.NotFoundError):
                await first.resource(core.ConfigMap).get(name, namespace="default")
        namespace = core.Namespace()
        namespace.metadata.name = "fresh"
        await first.resource(core.Namespace).create(namespace)
        await second.resource(core.Pod).create(pod("web", "fresh"))
        outcomes = await asyncio.gather(
            *(client.bind("fresh", "web", node=f"n{number}") for number in range(6) for client in (first, second)),
            return_exceptions=True,
        )
        assert sum(not isinstance(item, BaseException) for item in outcomes) == 1


async def test_fences_hold_over_servers(servers: tuple[Apiserver, Apiserver]) -> None:
    one, two = servers
    async with one.client() as first, two.client() as second:
        held = await first.resource(coordination.Lease).create(lease("leader", "default", "one"))
        fenced = second.fenced(Fence(namespace="default", lease="leader", term=int(held.metadata.resourceVersion)))
        await fenced.resource(core.ConfigMap).create(config_map("a", "default"))
        held.spec.holderIdentity = "two"
        await first.resource(coordination.Lease).update(held)
        with pytest.raises(errors.ConflictError, match="no longer held"):
            await fenced.resource(core.ConfigMap).create(config_map("b", "default"))


async def test_without_etcd_requests_fail_and_come_back(etcd: Etcd, tmp_path: Path) -> None:
    with Apiserver(etcd.endpoint, folder=tmp_path) as server:
        async with server.client() as client:
            maps = client.resource(core.ConfigMap)
            await maps.create(config_map("a", "default"))
            await asyncio.to_thread(etcd.terminate)
            async with asyncio.timeout(DEADLINE):
                with pytest.raises((errors.ServiceUnavailableError, errors.TimeoutError_)):
                    await maps.create(config_map("b", "default"))
            async with asyncio.timeout(DEADLINE):
                while (await asyncio.to_thread(server.health, "/readyz"))[0] == 200:
                    await asyncio.sleep(0.1)
            assert (await asyncio.to_thread(server.health, "/livez"))[0] == 200
            await asyncio.to_thread(etcd.start)
            async with asyncio.timeout(DEADLINE):
                while (await asyncio.to_thread(server.health, "/readyz"))[0] != 200:
                    await asyncio.sleep(0.1)
                await maps.create(config_map("c", "default"))
        text = server.log.read_text()
        assert text.count("etcd does not answer") <= 1


async def test_starting_before_etcd(etcd: Etcd, tmp_path: Path) -> None:
    await asyncio.to_thread(etcd.terminate)
    server = Apiserver(etcd.endpoint, folder=tmp_path)
    try:
        await asyncio.to_thread(server.start, wait=False)
        async with asyncio.timeout(DEADLINE):
            while (await asyncio.to_thread(server.health, "/readyz"))[0] != 503:
                await asyncio.sleep(0.05)
        await asyncio.to_thread(etcd.start)
        async with asyncio.timeout(DEADLINE):
            while (await asyncio.to_thread(server.health, "/readyz"))[0] != 200:
                await asyncio.sleep(0.05)
        async with server.client() as client:
            names = {item.metadata.name for item in (await client.resource(core.Namespace).list()).items}
        assert names == {"default", "kube-system", "kube-public", "kube-node-lease"}
    finally:
        await asyncio.to_thread(server.close)


async def test_compacted_versions_are_gone(etcd: Etcd, tmp_path: Path) -> None:
    with Apiserver(etcd.endpoint, folder=tmp_path) as server:
        async with server.client() as client:
            maps = client.resource(core.ConfigMap)
            first = await maps.create(config_map("a", "default"))
            for number in range(5):
                made = await maps.create(config_map(f"m{number}", "default"))
            page = await maps.list(namespace="default", limit=2)
            etcd.ctl("compact", made.metadata.resourceVersion)
            server.kill()
            await asyncio.to_thread(server.start)
            old = first.metadata.resourceVersion
            with pytest.raises(errors.ExpiredError):
                await maps.list(namespace="default", resource_version=old, resource_version_match="Exact")
            with pytest.raises(errors.ExpiredError):
                async for _ in maps.watch(namespace="default", resource_version=old):
                    pass
            rest = await maps.list(namespace="default", continue_=page.continue_)
            assert [item.metadata.name for item in rest.items] == ["m1", "m2", "m3", "m4"]
