"""Binds: once, atomically, with guards and fences."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.integration.apiserver.objects import config_map, lease, node, pod
from tests.support.etcd import Etcd
from wharfinger.api import errors
from wharfinger.api.types import coordination, core
from wharfinger.client import Client, Fence
from wharfinger.proto.native import resources_v1_pb2 as native


async def test_a_bind_places_the_pod_and_says_so(client: Client, namespace: str) -> None:
    pods = client.resource(core.Pod)
    made = await pods.create(pod("web", namespace))
    version = await client.bind(namespace, "web", node="n1", uid=made.metadata.uid)
    bound = await pods.get("web", namespace=namespace)
    assert bound.metadata.resourceVersion == str(version)
    assert (bound.spec.nodeName, bound.metadata.generation) == ("n1", 1)
    assert [(item.type, item.status) for item in bound.status.conditions] == [("PodScheduled", "True")]
    for name in ("n1", "n2"):
        with pytest.raises(errors.ConflictError, match="already assigned"):
            await client.bind(namespace, "web", node=name)


async def test_what_cannot_be_bound(client: Client, namespace: str) -> None:
    pods = client.resource(core.Pod)
    with pytest.raises(errors.NotFoundError):
        await client.bind(namespace, "ghost", node="n1")
    held = pod("held", namespace)
    held.metadata.finalizers.append("example.com/hold")
    await pods.create(held)
    await pods.delete("held", namespace=namespace)
    with pytest.raises(errors.ConflictError, match="being deleted"):
        await client.bind(namespace, "held", node="n1")
    gated = pod("gated", namespace)
    gated.spec.schedulingGates.add(name="example.com/wait")
    await pods.create(gated)
    with pytest.raises(errors.ConflictError, match="schedulingGates"):
        await client.bind(namespace, "gated", node="n1")
    await pods.create(pod("other", namespace))
    with pytest.raises(errors.ConflictError, match="UID"):
        await client.bind(namespace, "other", node="n1", uid="11111111-2222-3333-4444-555555555555")


async def test_of_many_binders_one_wins(client: Client, namespace: str) -> None:
    pods = client.resource(core.Pod)
    await pods.create(pod("web", namespace))
    outcomes = await asyncio.gather(
        *(client.bind(namespace, "web", node=f"n{number}") for number in range(12)), return_exceptions=True
    )
    assert sum(not isinstance(item, BaseException) for item in outcomes) == 1
    assert sum(isinstance(item, errors.ConflictError) for item in outcomes) == 11


async def test_many_binds_have_an_outcome_each(client: Client, namespace: str) -> None:
    pods = client.resource(core.Pod)
    await asyncio.gather(*(pods.create(pod(f"p{number}", namespace)) for number in range(30)))
    requests = [
        native.BindRequest(namespace=namespace, pod=f"p{number}", node=f"n{number % 3}") for number in range(31)
    ]
    results = await client.bind_many(requests)
    assert [result.HasField("error") for result in results] == [False] * 30 + [True]
    assert results[30].error.reason == "NotFound"
    placed = (await pods.list(namespace=namespace)).items
    assert sorted((item.metadata.name, item.spec.nodeName) for item in placed) == sorted(
        (f"p{number}", f"n{number % 3}") for number in range(30)
    )


@pytest.mark.parametrize("by_pod", [True, False])
async def test_binding_objects(client: Client, namespace: str, by_pod: bool) -> None:
    await client.resource(core.Pod).create(pod("web", namespace))
    body = b'{"apiVersion":"v1","kind":"Binding","metadata":{"name":"web"},"target":{"kind":"Node","name":"n8"}}'
    if by_pod:
        raw = client.raw(client.resource(core.Pod).kind)
        answer = await raw.create(body, namespace=namespace, name="web", subresource="binding")
    else:
        answer = await client.raw(client.resource(core.Binding).kind).create(body, namespace=namespace)
    assert answer.kind == "Status"
    assert (await client.resource(core.Pod).get("web", namespace=namespace)).spec.nodeName == "n8"


def _revision(etcd: Etcd, key: str) -> int:
    kvs = json.loads(etcd.ctl("get", key, "-w", "json")).get("kvs", [])
    return int(kvs[0]["mod_revision"]) if kvs else 0


async def test_everything_that_places_a_pod_moves_the_guard(client: Client, namespace: str, shared_etcd: Etcd) -> None:
    pods = client.resource(core.Pod)
    guarded = f"guarded-{namespace}"
    key = f"/wharfinger/nodes/{guarded}"
    assert _revision(shared_etcd, key) == 0
    placed = await pods.create(pod("a", namespace, node=guarded))
    assert _revision(shared_etcd, key) == int(placed.metadata.resourceVersion)
    await pods.create(pod("b", namespace))
    version = await client.bind(namespace, "b", node=guarded)
    assert _revision(shared_etcd, key) == int(version)
    await pods.patch("b", patch={"metadata": {"labels": {"x": "1"}}}, namespace=namespace)
    assert _revision(shared_etcd, key) == int(version)


async def test_a_fallen_fence_stops_every_kind_of_write(client: Client, namespace: str) -> None:
    leases, maps, pods = client.resource(coordination.Lease), client.resource(core.ConfigMap), client.resource(core.Pod)
    held = await leases.create(lease("leader", namespace, "one"))
    fenced = client.fenced(Fence(namespace=namespace, lease="leader", term=int(held.metadata.resourceVersion)))
    held.spec.leaseTransitions = 0
    renewed = await leases.update(held)
    assert renewed.metadata.resourceVersion != held.metadata.resourceVersion
    made = await fenced.resource(core.ConfigMap).create(config_map("a", namespace))  # a renewal is no new term
    await pods.create(pod("web", namespace))

    renewed.spec.holderIdentity = "two"
    taken = await leases.update(renewed)
    made.data["k"] = "v"
    old = fenced.resource(core.ConfigMap)
    for write in (
        old.create(config_map("b", namespace)),
        old.update(made),
        old.patch("a", patch={"data": {"k": "v"}}, namespace=namespace),
        old.delete("a", namespace=namespace),
        fenced.bind(namespace, "web", node="n1"),
    ):
        with pytest.raises(errors.ConflictError, match="no longer held in term"):
            await write
    assert [item.metadata.name for item in (await maps.list(namespace=namespace)).items] == ["a"]
    assert not (await pods.get("web", namespace=namespace)).spec.nodeName

    new = client.fenced(Fence(namespace=namespace, lease="leader", term=int(taken.metadata.resourceVersion)))
    await new.bind(namespace, "web", node="n1")
    await leases.delete("leader", namespace=namespace)
    with pytest.raises(errors.ConflictError, match="nobody holds it"):
        await new.resource(core.ConfigMap).create(config_map("c", namespace))


async def test_heartbeats_have_no_fence(client: Client, shared_etcd: Etcd) -> None:
    await client.resource(coordination.Lease).create(lease("beating", "kube-node-lease", "beating"))
    assert _revision(shared_etcd, "/wharfinger/fences/kube-node-lease/beating") == 0


async def test_the_write_stream_answers_each_write(client: Client, namespace: str) -> None:
    async with client.writer() as writer:
        outcomes = await asyncio.gather(
            *(writer.create(pod(f"p{number % 20}", namespace)) for number in range(40)), return_exceptions=True
        )
        assert sum(isinstance(item, core.Pod) for item in outcomes) == 20
        assert sum(isinstance(item, errors.AlreadyExistsError) for item in outcomes) == 20
        made = next(item for item in outcomes if isinstance(item, core.Pod))
        made.status.phase = "Running"
        assert (await writer.update(made, subresource="status")).status.phase == "Running"
        await writer.delete(core.Pod, made.metadata.name, namespace=namespace)
        with pytest.raises(errors.NotFoundError):
            await writer.delete(core.Pod, made.metadata.name, namespace=namespace)


async def test_checked_binds_never_fill_a_node_past_its_capacity(client: Client, namespace: str) -> None:
    pods = client.resource(core.Pod)
    small = node(f"small-{namespace}")
    small.status.allocatable["cpu"].string = "4"
    small.status.allocatable["pods"].string = "110"
    await client.resource(core.Node).create(small)
    for number in range(12):
        wanted = pod(f"p{number}", namespace)
        wanted.spec.containers[0].resources.requests["cpu"].string = "1"
        await pods.create(wanted)
    outcomes = await asyncio.gather(
        *(client.bind(namespace, f"p{number}", node=small.metadata.name, checked=True) for number in range(12)),
        return_exceptions=True,
    )
    refused = [item for item in outcomes if isinstance(item, BaseException)]
    assert len(refused) == 8
    assert all(isinstance(item, errors.ConflictError) and "does not fit" in item.message for item in refused)
    on_node = (await pods.list(field_selector=f"spec.nodeName={small.metadata.name}")).items
    assert len(on_node) == 4
    on_node[0].status.phase = "Succeeded"  # what has ended needs no room
    await pods.update_status(on_node[0])
    placed = {item.metadata.name for item in on_node}
    first, second = [f"p{number}" for number in range(12) if f"p{number}" not in placed][:2]
    await client.bind(namespace, first, node=small.metadata.name, checked=True)
    with pytest.raises(errors.ConflictError, match="there is no node"):
        await client.bind(namespace, second, node="nowhere", checked=True)


async def test_checked_binds_onto_one_node_share_a_transaction_and_have_an_outcome_each(
    client: Client, namespace: str
) -> None:
    pods = client.resource(core.Pod)
    small = node(f"shared-{namespace}")
    small.status.allocatable["cpu"].string = "4"
    small.status.allocatable["pods"].string = "110"
    await client.resource(core.Node).create(small)
    for number in range(6):
        wanted = pod(f"p{number}", namespace)
        wanted.spec.containers[0].resources.requests["cpu"].string = "1"
        await pods.create(wanted)
    names = ["p0", "p1", "ghost", "p2", "p1", "p3", "p4", "p5"]
    results = await client.bind_many(
        [native.BindRequest(namespace=namespace, pod=name, node=small.metadata.name, checked=True) for name in names]
    )
    said = [(errors.from_status(entry.error) if entry.HasField("error") else None) for entry in results]
    assert [type(error) for error in said] == [
        type(None), type(None), errors.NotFoundError, type(None), errors.ConflictError, type(None),
        errors.ConflictError, errors.ConflictError,
    ]  # fmt: skip
    assert "already assigned" in str(said[4])
    assert "does not fit: it needs 1 cpu, 0 is free of 4" in str(said[6])
    # The first goes at once, the others together.
    assert len({entry.resource_version for entry in (results[1], results[3], results[5])}) == 1
    assert results[0].resource_version != results[1].resource_version
    for index in (0, 1, 3, 5):
        bound = await pods.get(names[index], namespace=namespace)
        assert bound.spec.nodeName == small.metadata.name
        assert bound.metadata.resourceVersion == results[index].resource_version


async def test_checked_binds_give_a_host_port_once(client: Client, namespace: str) -> None:
    pods = client.resource(core.Pod)
    wide = node(f"wide-{namespace}")
    wide.status.allocatable["cpu"].string = "4"
    await client.resource(core.Node).create(wide)
    for name, address in (("first", "10.0.0.1"), ("second", "10.0.0.2"), ("third", "")):
        wanted = pod(name, namespace)
        wanted.spec.containers[0].ports.add(containerPort=80, hostPort=8080, hostIP=address, protocol="TCP")
        await pods.create(wanted)
    for name in ("first", "second"):
        await client.bind(namespace, name, node=wide.metadata.name, checked=True)
    with pytest.raises(errors.ConflictError, match=r"host port 8080/TCP of node .* is taken"):
        await client.bind(namespace, "third", node=wide.metadata.name, checked=True)
