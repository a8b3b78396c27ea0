"""Quotas over several apiservers: never one object too many, and no charge for what was refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.integration.apiserver.objects import config_map, pod
from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.client import Client


async def _quota(client: Client, namespace: str, **hard: str) -> None:
    made = core.ResourceQuota()
    made.metadata.name, made.metadata.namespace = "q", namespace
    for name, amount in hard.items():
        made.spec.hard[name].string = amount
    stored = await client.resource(core.ResourceQuota).create(made)
    for name, amount in hard.items():
        stored.status.hard[name].string = amount
        stored.status.used[name].string = "0"
    await client.resource(core.ResourceQuota).update_status(stored)
    # From now on each server's cache knows it: a fresh read has waited for that.
    await client.resource(core.ResourceQuota).list(namespace=namespace)


async def _used(client: Client, namespace: str) -> dict[str, str]:
    found = await client.resource(core.ResourceQuota).get("q", namespace=namespace)
    return {name: found.status.used[name].string for name in found.status.used}


async def test_two_servers_admit_as_many_as_are_allowed(etcd: Etcd, tmp_path: Path) -> None:
    with Apiserver(etcd.endpoint, folder=tmp_path) as one, Apiserver(etcd.endpoint, folder=tmp_path) as two:
        async with one.client() as first, two.client() as second:
            namespace = core.Namespace()
            namespace.metadata.name = "bounded"
            await first.resource(core.Namespace).create(namespace)
            await _quota(first, "bounded", configmaps="25")
            await second.resource(core.ResourceQuota).list(namespace="bounded")

            async def create(number: int) -> str:
                client = (first, second)[number % 2]
                try:
                    await client.resource(core.ConfigMap).create(config_map(f"m{number}", "bounded"))
                except errors.ForbiddenError as error:
                    return str(error)
                return ""

            refusals = [text for text in await asyncio.gather(*map(create, range(60))) if text]
            assert len(refusals) == 35
            why = "exceeded quota: q, requested: configmaps=1, used: configmaps=25, limited: configmaps=25"
            assert all(why in text for text in refusals)
            assert len((await first.resource(core.ConfigMap).list(namespace="bounded")).items) == 25
            assert await _used(second, "bounded") == {"configmaps": "25"}


async def test_what_is_refused_costs_nothing(client: Client, namespace: str) -> None:
    await _quota(client, namespace, configmaps="5")
    maps = client.resource(core.ConfigMap)
    await maps.create(config_map("a", namespace))
    with pytest.raises(errors.AlreadyExistsError):
        await maps.create(config_map("a", namespace))
    with pytest.raises(errors.InvalidError):
        await maps.create(config_map("Not_A_Name", namespace))
    await maps.create(config_map("dry", namespace), dry_run=True)
    assert await _used(client, namespace) == {"configmaps": "1"}


async def test_pods_must_say_what_is_bounded(client: Client, namespace: str) -> None:
    await _quota(client, namespace, **{"requests.cpu": "1", "pods": "10"})
    pods = client.resource(core.Pod)
    with pytest.raises(errors.ForbiddenError, match=r"failed quota: q: must specify requests\.cpu for: c"):
        await pods.create(pod("silent", namespace))
    loud = pod("loud", namespace)
    loud.spec.containers[0].resources.requests["cpu"].string = "600m"
    await pods.create(loud)
    loud.metadata.name = "louder"
    with pytest.raises(errors.ForbiddenError, match=r"requested: requests\.cpu=600m, used: requests\.cpu=600m"):
        await pods.create(loud)
    assert await _used(client, namespace) == {"requests.cpu": "600m", "pods": "1"}
