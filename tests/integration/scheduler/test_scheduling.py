"""Pods from created to bound, through real processes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import grpc
import grpc.aio
import pytest

from tests.integration.scheduler.conftest import World
from wharfinger import pki
from wharfinger.api import errors
from wharfinger.api import pods as podfacts
from wharfinger.api.types import coordination, core
from wharfinger.devtools.cluster import SCHEDULER
from wharfinger.proto.native import scheduling_v1_pb2, scheduling_v1_pb2_grpc


async def test_a_pod_is_bound_reported_and_explained(world: World) -> None:
    await world.node("b-1")
    await world.node("b-2", unschedulable=True)
    await world.pod("web")
    assert await world.bound("web") == "b-1"
    condition = podfacts.condition(await world.get("web"), "PodScheduled")
    assert condition is not None
    assert condition.status == "True"
    event = await world.event("web", "Scheduled")
    assert event.message == f"Successfully assigned {world.namespace}/web to b-1"
    assert event.type == "Normal"
    answer = await world.client.why(world.namespace, "web")
    assert (answer.state, answer.chosen_node, answer.attempts) == ("bound", "b-1", 1)
    by_name = {node.node: node for node in answer.nodes}
    assert by_name["b-1"].feasible
    assert {score.plugin for score in by_name["b-1"].scores} >= {"NodeResourcesFit", "TaintToleration"}
    assert [refusal.detail for refusal in by_name["b-2"].refusals] == ["is cordoned"]


async def test_a_pod_that_fits_nowhere_says_why_and_is_placed_when_it_fits(world: World) -> None:
    await world.node("f-1", cpu="1")
    await world.node("f-2", unschedulable=True)
    await world.pod("big", cpu="2")
    message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
    whole = f"{message} preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    assert await world.refused("big") == whole
    event = await world.event("big", "FailedScheduling")
    assert (event.type, event.message) == ("Warning", whole)
    answer = await world.client.why(world.namespace, "big")
    assert answer.state == "unschedulable"
    assert answer.message == message
    assert [refusal.detail for refusal in answer.nodes[0].refusals] == ["needs 2 cpu, 1 free of 1"]
    assert list(answer.suggestions) == ["uncordon f-2", "request at most 1 cpu (to fit on f-1)"]
    await world.cordon("f-2", on=False)
    assert await world.bound("big") == "f-2"


async def test_room_that_others_leave_is_taken(world: World) -> None:
    await world.node("r-1", cpu="1")
    await world.pod("first", cpu="1")
    await world.bound("first")
    await world.pod("second", cpu="1")
    await world.refused("second")
    await world.pods.delete("first", namespace=world.namespace, grace_period_seconds=0)
    assert await world.bound("second") == "r-1"


async def test_pods_placed_by_others_count(world: World) -> None:
    await world.node("o-1", cpu="1")

    def name_node(pod: core.Pod) -> None:
        pod.spec.nodeName = "o-1"

    await world.pod("named", cpu="1", change=name_node)
    await world.pod("next", cpu="500m")
    assert "1 Insufficient cpu" in await world.refused("next")
    answer = await world.client.why(world.namespace, "named")
    assert (answer.state, answer.chosen_node) == ("bound", "o-1")
    assert answer.nodes[0].feasible, "its own place does not count against it"


async def test_a_hand_made_binding_takes_the_pod_out_of_the_queue(world: World) -> None:
    await world.node("h-1", cpu="1")
    await world.pod("big", cpu="2")
    await world.refused("big")
    await world.client.bind(world.namespace, "big", node="h-1")
    await world.pod("next")
    assert "Insufficient cpu" in await world.refused("next"), "the node is overfull now"


async def test_never_over_capacity_however_many_come_at_once(world: World) -> None:
    for index in range(4):
        await world.node(f"c-{index}", cpu="2")
    await asyncio.gather(*(world.pod(f"p{index}", cpu="300m") for index in range(40)))

    async def settled() -> list[core.Pod]:
        found = (await world.pods.list(namespace=world.namespace)).items
        conditions = [podfacts.condition(pod, "PodScheduled") for pod in found]
        return found if len(found) == 40 and all(conditions) else []

    found = await world.until(settled)
    counts = Counter(pod.spec.nodeName for pod in found)
    assert counts.pop("") == 40 - 4 * 6
    assert counts == {f"c-{index}": 6 for index in range(4)}


async def test_gates_and_other_schedulers_are_left_alone(world: World) -> None:
    await world.node("g-1")
    await world.pod("gated", change=lambda pod: pod.spec.schedulingGates.extend([core.PodSchedulingGate(name="x/y")]))

    def ask_other(pod: core.Pod) -> None:
        pod.spec.schedulerName = "other"

    await world.pod("other", change=ask_other)
    await world.pod("plain")
    await world.bound("plain")
    assert not (await world.get("gated")).spec.nodeName
    assert not (await world.get("other")).spec.nodeName
    answer = await world.client.why(world.namespace, "gated")
    assert (answer.state, answer.message) == ("gated", "SchedulingGates: waiting for scheduling gates: [x/y]")
    assert "asks for scheduler 'other'" in (await world.client.why(world.namespace, "other")).message
    gated = await world.get("gated")
    del gated.spec.schedulingGates[:]
    await world.pods.update(gated)
    assert await world.bound("gated") == "g-1"


async def test_higher_priority_is_served_first(world: World) -> None:
    def urgent(pod: core.Pod) -> None:
        pod.spec.priorityClassName = "system-node-critical"

    await asyncio.to_thread(world.cluster.stop, SCHEDULER)
    await world.node("p-1", cpu="1")
    await world.pod("low", cpu="1")
    await world.pod("high", cpu="1", change=urgent)
    await asyncio.to_thread(world.cluster.start, SCHEDULER)
    assert await world.bound("high") == "p-1"
    assert "Insufficient cpu" in await world.until(lambda: _message(world, "low", "Insufficient"))


async def _message(world: World, name: str, part: str) -> str:
    condition = podfacts.condition(await world.get(name), "PodScheduled")
    return condition.message if condition is not None and part in condition.message else ""


async def test_explanations_are_for_the_apiserver_and_administrators_only(world: World) -> None:
    lease = await world.client.resource(coordination.Lease).get("kube-scheduler", namespace="kube-system")
    address = lease.metadata.annotations["wharfinger.dev/grpc-address"]

    async def ask(stem: str) -> scheduling_v1_pb2.Explanation:
        pair = pki.read_pair(world.cluster.pki, stem)
        ca = (world.cluster.pki / "ca.crt").read_bytes()
        credentials = grpc.ssl_channel_credentials(ca, pair.key, pair.cert)
        async with grpc.aio.secure_channel(address, credentials) as channel:
            stub = scheduling_v1_pb2_grpc.SchedulingStub(channel)
            return await stub.Why(scheduling_v1_pb2.WhyRequest(namespace=world.namespace, pod="none"))

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await ask("user-scheduler")
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    with pytest.raises(grpc.aio.AioRpcError) as unknown:
        await ask("user-admin")
    assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
    with pytest.raises(errors.NotFoundError):
        await world.client.why(world.namespace, "none")


async def test_labels_of_single_pods_are_told_apart_once_somebody_asks(world: World) -> None:
    index = "apps.kubernetes.io/pod-index"

    def numbered(number: int) -> Callable[[core.Pod], None]:
        def change(pod: core.Pod) -> None:
            pod.metadata.labels[index] = str(number)

        return change

    def near_to_one(pod: core.Pod) -> None:
        terms = pod.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution
        term = terms.add(topologyKey="place")
        term.labelSelector.matchLabels[index] = "1"

    await world.node("l-1", place="one")
    await world.pod("p-1", change=numbered(1))
    await world.bound("p-1")
    await world.cordon("l-1", on=True)
    await world.node("l-2", place="two")
    await world.pod("p-2", change=numbered(2))
    await world.bound("p-2")
    await world.cordon("l-1", on=False)
    await world.pod("wants-1", change=near_to_one)
    assert await world.bound("wants-1") == "l-1"


async def test_pods_of_a_service_are_spread_over_zones(world: World) -> None:
    service = core.Service()
    service.metadata.name, service.metadata.namespace = "web", world.namespace
    service.spec.selector["app"] = "web"
    service.spec.ports.add(port=80)
    await world.client.resource(core.Service).create(service)
    for number in range(3):
        await world.node(f"z-{number}", **{"topology.kubernetes.io/zone": f"zone-{number}"})

    def label(pod: core.Pod) -> None:
        pod.metadata.labels["app"] = "web"

    for number in range(3):
        await world.pod(f"web-{number}", change=label)
    assert {await world.bound(f"web-{number}") for number in range(3)} == {"z-0", "z-1", "z-2"}
