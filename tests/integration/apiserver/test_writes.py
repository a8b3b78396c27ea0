"""Create, update, patch: defaults, versions, generations, dry runs, generated names."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.apiserver.objects import config_map, lease, node, pod, replica_set
from wharfinger.api import errors
from wharfinger.api.types import apps, coordination, core
from wharfinger.client import Client


async def test_a_created_pod_is_defaulted_and_pending(client: Client, namespace: str) -> None:
    made = await client.resource(core.Pod).create(pod("web", namespace))
    assert made.metadata.uid
    assert made.metadata.creationTimestamp.seconds
    assert made.metadata.generation == 1
    assert made.spec.restartPolicy == "Always"
    assert made.spec.serviceAccountName == "default"
    assert made.spec.priority == 0
    assert sorted(item.key for item in made.spec.tolerations) == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert (made.status.phase, made.status.qosClass) == ("Pending", "BestEffort")
    assert await client.resource(core.Pod).get("web", namespace=namespace) == made


async def test_names_are_taken_once(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    outcomes = await asyncio.gather(
        *(maps.create(config_map("one", namespace, k=str(n))) for n in range(20)), return_exceptions=True
    )
    assert sum(isinstance(item, core.ConfigMap) for item in outcomes) == 1
    assert sum(isinstance(item, errors.AlreadyExistsError) for item in outcomes) == 19


async def test_names_are_generated(client: Client, namespace: str) -> None:
    wanted = config_map("", namespace)
    wanted.metadata.generateName = "loose-"
    made = await client.resource(core.ConfigMap).create(wanted)
    assert made.metadata.name.startswith("loose-")
    assert len(made.metadata.name) == len("loose-") + 5


async def test_an_unknown_namespace_is_a_404(client: Client) -> None:
    with pytest.raises(errors.NotFoundError, match='namespaces "nowhere" not found'):
        await client.resource(core.Pod).create(pod("web", "nowhere"))


async def test_updates_need_the_newest_version_or_none(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    first = await maps.create(config_map("a", namespace, k="1"))
    second = core.ConfigMap()
    second.CopyFrom(first)
    second.data["k"] = "2"
    second = await maps.update(second)
    first.data["k"] = "3"
    with pytest.raises(errors.ConflictError, match="has been modified"):
        await maps.update(first)
    first.metadata.resourceVersion = ""
    assert (await maps.update(first)).data["k"] == "3"
    first.metadata.uid = "11111111-2222-3333-4444-555555555555"
    with pytest.raises(errors.ConflictError, match="UID in precondition"):
        await maps.update(first)


async def test_a_lease_is_never_updated_blindly(client: Client, namespace: str) -> None:
    leases = client.resource(coordination.Lease)
    made = await leases.create(lease("l", namespace, "me"))
    made.metadata.resourceVersion = ""
    with pytest.raises(errors.InvalidError) as caught:
        await leases.update(made)
    assert caught.value.causes[0].field == "metadata.resourceVersion"


async def test_an_update_that_changes_nothing_writes_nothing(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    made = await maps.create(config_map("a", namespace, k="1"))
    again = await maps.update(made)
    assert again.metadata.resourceVersion == made.metadata.resourceVersion


async def test_spec_counts_the_generation_and_status_does_not(client: Client, namespace: str) -> None:
    sets = client.resource(apps.ReplicaSet)
    made = await sets.create(replica_set("r", namespace))
    made.status.replicas = 7
    unchanged = await sets.update(made)
    assert (unchanged.metadata.generation, unchanged.status.replicas) == (1, 0)
    made.spec.replicas = 5
    made.metadata.resourceVersion = ""
    reported = await sets.update_status(made)
    assert (reported.metadata.generation, reported.status.replicas, reported.spec.replicas) == (1, 7, 2)
    made.metadata.resourceVersion = ""
    changed = await sets.update(made)
    assert (changed.metadata.generation, changed.status.replicas, changed.spec.replicas) == (2, 7, 5)


async def test_scale_changes_the_replicas_alone(client: Client, namespace: str) -> None:
    sets = client.resource(apps.ReplicaSet)
    await sets.create(replica_set("r", namespace))
    raw = client.raw(sets.kind)
    answer = await raw.patch(
        "r", patch={"spec": {"replicas": 4}}, patch_type="merge", namespace=namespace, subresource="scale"
    )
    assert answer.kind == "Scale"
    assert (await sets.get("r", namespace=namespace)).spec.replicas == 4


async def test_patches_of_each_type(client: Client, namespace: str) -> None:
    pods = client.resource(core.Pod)
    await pods.create(pod("web", namespace, tier="front"))
    merged = await pods.patch("web", patch={"metadata": {"labels": {"a": "1"}}}, namespace=namespace)
    assert dict(merged.metadata.labels) == {"tier": "front", "a": "1"}
    jsoned = await pods.patch(
        "web", patch=[{"op": "remove", "path": "/metadata/labels/tier"}], patch_type="json", namespace=namespace
    )
    assert dict(jsoned.metadata.labels) == {"a": "1"}
    strategic = await pods.patch(
        "web",
        patch={"spec": {"containers": [{"name": "c", "image": "registry.example/app:2"}]}},
        patch_type="strategic",
        namespace=namespace,
    )
    assert [(item.name, item.image) for item in strategic.spec.containers] == [("c", "registry.example/app:2")]
    assert strategic.metadata.generation == 2


async def test_concurrent_patches_all_count(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    await maps.create(config_map("a", namespace))
    await asyncio.gather(*(maps.patch("a", patch={"data": {f"k{n}": "1"}}, namespace=namespace) for n in range(16)))
    assert len((await maps.get("a", namespace=namespace)).data) == 16


async def test_dry_runs_leave_no_trace(client: Client, namespace: str) -> None:
    maps = client.resource(core.ConfigMap)
    dry = await maps.create(config_map("a", namespace), dry_run=True)
    assert dry.metadata.uid
    assert not dry.metadata.resourceVersion
    with pytest.raises(errors.NotFoundError):
        await maps.get("a", namespace=namespace)
    real = await maps.create(config_map("a", namespace, k="1"))
    with pytest.raises(errors.AlreadyExistsError):
        await maps.create(config_map("a", namespace), dry_run=True)
    changed = config_map("a", namespace, k="2")
    assert (await maps.update(changed, dry_run=True)).data["k"] == "2"
    await maps.patch("a", patch={"data": {"k": "3"}}, namespace=namespace, dry_run=True)
    await maps.delete("a", namespace=namespace, dry_run=True)
    assert await maps.get("a", namespace=namespace) == real


async def test_invalid_objects_name_their_fields(client: Client, namespace: str) -> None:
    wrong = pod("Not_A_Name", namespace)
    wrong.spec.restartPolicy = "Sometimes"
    with pytest.raises(errors.InvalidError) as caught:
        await client.resource(core.Pod).create(wrong)
    assert {cause.field for cause in caught.value.causes} >= {"metadata.name", "spec.restartPolicy"}


async def test_new_nodes_are_tainted_and_keep_their_status(client: Client) -> None:
    wanted = node("fresh-node")
    wanted.status.capacity["cpu"].string = "4"
    made = await client.resource(core.Node).create(wanted)
    assert [(taint.key, taint.effect) for taint in made.spec.taints] == [("node.kubernetes.io/not-ready", "NoSchedule")]
    assert made.status.capacity["cpu"].string == "4"


async def test_json_bodies_are_checked_for_fields(client: Client, namespace: str) -> None:
    raw = client.raw(client.resource(core.ConfigMap).kind)
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"j"},"data":{"k":"v"},"nonsense":1}'
    answer = await raw.create(body, namespace=namespace)
    assert any("nonsense" in warning for warning in answer.warnings)
    with pytest.raises(errors.BadRequestError, match="nonsense"):
        await raw.create(body.replace(b'"j"', b'"k"'), namespace=namespace, field_validation="Strict")


async def test_yaml_bodies(client: Client, namespace: str) -> None:
    raw = client.raw(client.resource(core.ConfigMap).kind)
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-yaml}\ndata: {k: 'yes'}\n"
    await raw.create(body, namespace=namespace, content_type="application/yaml")
    assert (await client.resource(core.ConfigMap).get("from-yaml", namespace=namespace)).data["k"] == "yes"
