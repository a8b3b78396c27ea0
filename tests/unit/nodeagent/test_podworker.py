from __future__ import annotations

import asyncio

import pytest

from nodeagent.hollow import RUN_ANNOTATION
from nodeagent.memory import Ending
from nodeagent.podmanager import PodManager
from nodeagent.podworker import PodWorker
from nodeagent.runtime import ImageRecord, RuntimeUnavailable
from tests.unit.nodeagent.podkit import Table, make_pod
from wharfinger.api.types import core, meta


def node():
    result = core.Node()
    result.metadata.name = "n1"
    result.status.allocatable["pods"].string = "2"
    result.status.allocatable["cpu"].string = "2"
    result.status.allocatable["memory"].string = "1Gi"
    return result


def deleting(pod, grace=1):
    copy = core.Pod()
    copy.CopyFrom(pod)
    copy.metadata.deletionTimestamp.CopyFrom(meta.Time(seconds=1))
    copy.metadata.deletionGracePeriodSeconds = grace
    copy.metadata.generation = 2
    return copy


def starts(table):
    return [name for verb, name in table.runtime.calls if verb == "start_container"]


async def managed(table):
    manager = PodManager(table.context, node, relist_seconds=0.05)
    await manager.start(list)
    return manager


async def test_pod_goes_from_pending_to_running_and_says_so():
    table = Table.make()
    worker = PodWorker(table.context, make_pod("a", "b", init=()))
    worker.poke()
    await table.until(lambda: table.statuses.written and table.status.phase == "Running")
    assert table.statuses.written[0].phase == "Pending"
    assert table.status.podIP
    assert all(one.ready and one.started for one in table.status.containerStatuses)
    assert table.events.reasons == ["Pulled", "Created", "Started"] * 2
    await worker.close()


async def test_deleted_pod_is_ended_reported_and_removed():
    table = Table.make()
    manager = await managed(table)
    pod = make_pod()
    manager.changed(pod)
    await table.until(lambda: table.statuses.written and table.status.phase == "Running")
    manager.changed(deleting(pod))
    await table.until(lambda: table.statuses.finished == ["u1"])
    assert table.status.phase == "Failed"
    assert table.status.containerStatuses[0].state.terminated.exitCode == 143
    manager.removed(pod)
    await table.until(lambda: not table.runtime._pods and not list(manager.workers))
    await manager.close()


async def test_succeeded_pod_is_not_started_again():
    table = Table.make()
    pod = make_pod(restart_policy="Never")
    pod.metadata.annotations[RUN_ANNOTATION] = "0.01:0"
    manager = await managed(table)
    manager.changed(pod)
    await table.until(lambda: table.statuses.written and table.status.phase == "Succeeded")
    assert starts(table) == ["c"]
    assert not table.status.containerStatuses[0].ready
    await manager.close()


async def test_a_fault_while_the_runtime_is_looked_over_does_not_blind_the_agent(monkeypatch):
    table = Table.make()
    manager = await managed(table)
    pod = make_pod(restart_policy="Never")
    manager.changed(pod)
    await table.until(lambda: table.statuses.written and table.status.phase == "Running")
    faults = []

    async def broken():
        faults.append(1)
        raise KeyError("a fault")

    monkeypatch.setattr(table.runtime, "list_pods", broken)
    await table.until(lambda: len(faults) >= 2)
    monkeypatch.undo()
    for container in (await table.runtime.inspect("u1")).running:
        await table.runtime.stop_container(container.id, 0)  # behind the agent's back
    await table.until(lambda: table.status.phase in ("Failed", "Succeeded"))
    await manager.close()


async def test_new_agent_adopts_what_runs():
    table = Table.make()
    first = await managed(table)
    pod = make_pod()
    first.changed(pod)
    await table.until(lambda: table.statuses.written and table.status.phase == "Running")
    before = table.status
    await first.close()

    known = core.Pod()
    known.CopyFrom(pod)
    known.status.CopyFrom(before)
    second = PodManager(table.context, node, relist_seconds=0.05)
    written = len(table.statuses.written)
    await second.start(lambda: [known])
    await asyncio.sleep(0.15)  # several looks: nothing may come of them
    assert starts(table) == ["c"]
    assert len(table.statuses.written) == written
    await second.close()


async def test_new_agent_makes_no_ready_pod_unready():
    table = Table.make()
    first = await managed(table)
    pod = make_pod()
    pod.spec.containers[0].readinessProbe.handler.exec.command.append("true")
    pod.spec.containers[0].readinessProbe.periodSeconds = 3600
    pod.spec.containers[0].startupProbe.handler.exec.command.append("true")
    first.changed(pod)
    await table.until(lambda: table.statuses.written and table.status.containerStatuses[0].ready)
    await first.close()

    known = core.Pod()
    known.CopyFrom(pod)
    known.status.CopyFrom(table.status)
    written = len(table.statuses.written)
    second = PodManager(table.context, node, relist_seconds=0.05)
    await second.start(lambda: [known])
    await asyncio.sleep(0.15)  # several looks: nothing may come of them
    assert len(table.statuses.written) == written
    await second.close()


async def test_what_runs_without_a_pod_is_ended_once_the_api_has_said_so():
    table = Table.make()
    first = await managed(table)
    first.changed(make_pod())
    await table.until(lambda: table.statuses.written and table.status.phase == "Running")
    await first.close()
    second = PodManager(table.context, node, relist_seconds=0.05)
    await second.start(list)
    await table.until(lambda: not table.runtime._pods)
    await second.close()


async def test_runtime_that_is_away_changes_nothing_and_comes_back():
    table = Table.make()
    manager = await managed(table)
    manager.changed(make_pod())
    await table.until(lambda: table.statuses.written and table.status.phase == "Running")
    written = len(table.statuses.written)
    working = table.runtime.list_pods, table.runtime.inspect

    async def away(*_):
        raise RuntimeUnavailable("connection refused")

    table.runtime.list_pods = table.runtime.inspect = away
    await table.until(lambda: "refused" in manager.runtime_trouble)
    second = make_pod(uid="u2", name="q")
    manager.changed(second)
    table.runtime.list_pods, table.runtime.inspect = working
    await table.until(lambda: len(starts(table)) == 2)
    await table.until(lambda: not manager.runtime_trouble)
    assert len(table.statuses.written) > written
    await manager.close()


async def test_missing_image_is_reported_and_backed_off():
    table = Table.make(images=[ImageRecord("sha256:1", tags=("x/z:1",))])
    worker = PodWorker(table.context, make_pod())
    worker.poke()
    await table.until(
        lambda: table.statuses.written and table.status.containerStatuses[0].state.waiting.reason == "ErrImagePull"
    )
    worker.poke()
    await table.until(lambda: table.status.containerStatuses[0].state.waiting.reason == "ImagePullBackOff")
    assert table.status.phase == "Pending"
    assert "Pulling" in table.events.reasons
    assert not starts(table)
    await worker.close()


async def test_pod_deleted_while_its_image_is_pulled_does_not_wait_for_the_pull():
    table = Table.make(images=[])
    pulling = asyncio.Event()

    async def pull(reference, auth=None):
        pulling.set()
        await asyncio.Event().wait()

    table.runtime.pull = pull
    worker = PodWorker(table.context, make_pod())
    worker.poke()
    await asyncio.wait_for(pulling.wait(), 5)
    worker.update(deleting(make_pod()))
    await table.until(lambda: table.statuses.finished == ["u1"])
    state = table.status.containerStatuses[0].state.terminated
    assert (state.exitCode, state.reason) == (137, "ContainerStatusUnknown")
    await worker.close()


async def test_shorter_grace_wins_over_one_under_way():
    table = Table.make(ignores_term=True)
    worker = PodWorker(table.context, make_pod())
    worker.poke()
    await table.until(lambda: table.statuses.written and table.status.phase == "Running")
    worker.update(deleting(make_pod(), grace=3600))
    await table.until(lambda: "Killing" in table.events.reasons)
    worker.update(deleting(make_pod(), grace=1))
    await table.until(lambda: table.statuses.finished == ["u1"])
    assert table.events.reasons.count("Killing") == 1
    await worker.close()


async def test_refused_pod_is_failed_with_the_reason_and_nothing_else():
    table = Table.make()
    worker = PodWorker(table.context, make_pod(), rejected=Ending("OutOfcpu", "no room", rejected=True))
    worker.poke()
    await table.until(lambda: bool(table.statuses.written))
    assert (table.status.phase, table.status.reason) == ("Failed", "OutOfcpu")
    assert not table.status.containerStatuses
    assert not table.runtime.calls
    await worker.close()


async def test_node_takes_no_more_pods_than_it_has_room_for():
    table = Table.make()
    manager = await managed(table)
    for number in range(3):
        manager.changed(make_pod(uid=f"u{number}", name=f"p{number}"))
    await table.until(lambda: len(starts(table)) == 2 and "OutOfpods" in table.events.reasons)
    await manager.close()


async def test_unexpected_failure_of_one_pod_is_tried_again(monkeypatch: pytest.MonkeyPatch):
    table = Table.make()
    working, failures = table.runtime.run_sandbox, []

    async def broken(spec):
        if not failures:
            failures.append(spec)
            raise ValueError("a bug")
        return await working(spec)

    monkeypatch.setattr(table.runtime, "run_sandbox", broken)
    worker = PodWorker(table.context, make_pod())
    worker.poke()
    await table.until(lambda: table.statuses.written and table.status.phase == "Running")
    assert failures
    await worker.close()


@pytest.mark.parametrize("labelled", [True, False])
async def test_the_node_is_read_again_before_a_pod_is_refused(labelled):
    table = Table.make()
    known = node()

    async def fresh():
        if labelled:
            known.metadata.labels["disk"] = "ssd"
        return known

    manager = PodManager(table.context, lambda: known, relist_seconds=0.05, fresh_node=fresh)
    await manager.start(list)
    pod = make_pod()
    pod.spec.nodeSelector["disk"] = "ssd"
    manager.changed(pod)
    await table.until(lambda: table.statuses.written and table.status.phase in ("Running", "Failed"))
    assert (table.status.phase, table.status.reason) == (("Running", "") if labelled else ("Failed", "NodeAffinity"))
    await manager.close()


async def test_a_pod_that_goes_while_the_node_is_read_again_is_forgotten():
    table = Table.make()
    going = asyncio.Event()

    async def fresh():
        await going.wait()
        return node()

    manager = PodManager(table.context, node, relist_seconds=0.05, fresh_node=fresh)
    await manager.start(list)
    pod = make_pod()
    pod.spec.nodeSelector["disk"] = "ssd"
    manager.changed(pod)
    manager.removed(pod)
    going.set()
    await asyncio.sleep(0)
    await table.until(lambda: not manager._judged_again)
    assert list(manager.workers) == []
    await manager.close()
