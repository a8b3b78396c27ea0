"""Addresses and ports of services: handed out once, kept, and given back."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest

from wharfinger.api import errors
from wharfinger.api.types import core, networking
from wharfinger.client import Client


def _service(name: str, namespace: str, kind: str = "ClusterIP", *, node_port: int = 0) -> core.Service:
    made = core.Service()
    made.metadata.name, made.metadata.namespace = name, namespace
    made.spec.type = kind
    made.spec.selector["app"] = name
    made.spec.ports.add(port=80, nodePort=node_port)
    return made


async def test_many_services_at_once_get_different_addresses(client: Client, namespace: str) -> None:
    services = client.resource(core.Service)
    made = await asyncio.gather(*(services.create(_service(f"s{n}", namespace, "NodePort")) for n in range(25)))
    addresses = [item.spec.clusterIP for item in made]
    assert len(set(addresses)) == 25
    assert all(ipaddress.ip_address(ip) in ipaddress.ip_network("10.96.0.0/16") for ip in addresses)
    ports = [item.spec.ports[0].nodePort for item in made]
    assert len(set(ports)) == 25
    assert all(30000 <= port <= 32767 for port in ports)
    reserved = {item.metadata.name for item in (await client.resource(networking.IPAddress).list()).items}
    assert set(addresses) <= reserved


async def test_of_many_who_want_one_port_one_gets_it(client: Client, namespace: str) -> None:
    services = client.resource(core.Service)
    outcomes = await asyncio.gather(
        *(services.create(_service(f"s{n}", namespace, "NodePort", node_port=31234)) for n in range(8)),
        return_exceptions=True,
    )
    assert sum(isinstance(item, core.Service) for item in outcomes) == 1
    refused = [item for item in outcomes if isinstance(item, errors.InvalidError)]
    assert len(refused) == 7
    assert {item.causes[0].field for item in refused} == {"spec.ports[0].nodePort"}


async def test_addresses_are_kept_and_given_back(client: Client, namespace: str) -> None:
    services, addresses = client.resource(core.Service), client.resource(networking.IPAddress)
    made = await services.create(_service("a", namespace, "NodePort"))
    ip, port = made.spec.clusterIP, made.spec.ports[0].nodePort
    replaced = await services.update(_service("a", namespace, "NodePort"))
    assert (replaced.spec.clusterIP, replaced.spec.ports[0].nodePort) == (ip, port)
    assert (await addresses.get(ip)).spec.parentRef.name == "a"
    external = core.Service()
    external.metadata.name, external.metadata.namespace = "a", namespace
    external.spec.type, external.spec.externalName = "ExternalName", "elsewhere.example"
    assert not (await services.update(external)).spec.clusterIP
    with pytest.raises(errors.NotFoundError):
        await addresses.get(ip)
    fixed = _service("b", namespace, "NodePort", node_port=port)
    fixed.spec.clusterIP = ip
    taken = await services.create(fixed)
    assert taken.spec.clusterIP == ip
    await services.delete("b", namespace=namespace)
    with pytest.raises(errors.NotFoundError):
        await addresses.get(ip)
    again = _service("c", namespace, "NodePort", node_port=port)
    assert (await services.create(again)).spec.ports[0].nodePort == port


async def test_headless_services_have_none(client: Client, namespace: str) -> None:
    headless = _service("h", namespace)
    headless.spec.clusterIP = "None"
    made = await client.resource(core.Service).create(headless)
    assert (made.spec.clusterIP, list(made.spec.clusterIPs), list(made.spec.ipFamilies)) == ("None", ["None"], ["IPv4"])


async def test_a_dry_run_takes_nothing(client: Client, namespace: str) -> None:
    dry = await client.resource(core.Service).create(_service("d", namespace), dry_run=True)
    with pytest.raises(errors.NotFoundError):
        await client.resource(networking.IPAddress).get(dry.spec.clusterIP)
