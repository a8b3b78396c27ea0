from __future__ import annotations

import asyncio

import pytest

from nodeagent.statuswriter import StatusWriter
from tests.unit.nodeagent.podkit import make_pod
from wharfinger.api import errors
from wharfinger.api.types import core


class Api:
    """Stands for client and write stream: one pod, and errors on demand."""

    def __init__(self, pod):
        self.pod = core.Pod()
        self.pod.CopyFrom(pod)
        self.fail = []
        self.writes = []
        self.deleted = []
        self.gate = asyncio.Event()
        self.gate.set()

    def resource(self, message):
        return self

    async def get(self, name, *, namespace):
        copy = core.Pod()
        copy.CopyFrom(self.pod)
        return copy

    async def update(self, pod, *, subresource):
        await self.gate.wait()
        if self.fail:
            raise self.fail.pop(0)
        if pod.metadata.resourceVersion != self.pod.metadata.resourceVersion:
            raise errors.conflict("pods", "p", "changed")
        self.writes.append(pod.status.phase)
        self.touch(pod.status)
        return await self.get("p", namespace="default")

    async def delete(self, message, name, *, namespace, grace_period_seconds, uid):
        self.deleted.append((name, grace_period_seconds, uid))

    def touch(self, status=None):
        self.pod.metadata.resourceVersion = str(int(self.pod.metadata.resourceVersion) + 1)
        if status is not None:
            self.pod.status.CopyFrom(status)


def status(phase):
    result = core.PodStatus(phase=phase)
    result.conditions.add(type="Ready", status="True")
    return result


@pytest.fixture
def pod():
    return make_pod()


async def settled(writer):
    await writer.settle(5)
    await asyncio.sleep(0)


async def test_same_status_is_not_written_again(pod):
    api = Api(pod)
    writer = StatusWriter(api, writer=api)
    writer.write(pod, pod.status)
    await settled(writer)
    assert api.writes == []
    for _ in range(3):
        writer.write(pod, status("Running"))
        await settled(writer)
    assert api.writes == ["Running"]


async def test_only_the_newest_of_several_is_written(pod):
    api = Api(pod)
    api.gate.clear()
    writer = StatusWriter(api, writer=api)
    for phase in ("Running", "Unknown", "Failed"):
        writer.write(pod, status(phase))
        await asyncio.sleep(0)
    api.gate.set()
    await settled(writer)
    assert api.writes == ["Running", "Failed"]


async def test_conflict_keeps_what_others_wrote(pod):
    api = Api(pod)
    api.pod.status.conditions.add(type="example.test/gate", status="True")
    api.touch()
    writer = StatusWriter(api, writer=api)
    writer.write(pod, status("Running"))
    await settled(writer)
    assert {one.type for one in api.pod.status.conditions} == {"Ready", "example.test/gate"}
    assert api.pod.status.phase == "Running"


async def test_trouble_is_tried_again(pod):
    api = Api(pod)
    api.fail = [errors.ServiceUnavailableError("away"), errors.InternalError("odd")]
    writer = StatusWriter(api, writer=api)
    writer.write(pod, status("Running"))
    await settled(writer)
    assert api.writes == ["Running"]


async def test_last_status_comes_before_the_removal(pod):
    api = Api(pod)
    writer = StatusWriter(api, writer=api)
    writer.write(pod, status("Failed"), finish=True)
    await settled(writer)
    assert api.writes == ["Failed"]
    assert api.deleted == [("p", 0, "u1")]


async def test_pod_of_the_same_name_made_anew_is_left_alone(pod):
    api = Api(pod)
    api.pod.metadata.uid = "u2"
    api.touch()
    writer = StatusWriter(api, writer=api)
    writer.write(pod, status("Failed"), finish=True)
    await settled(writer)
    assert api.writes == []
    assert api.deleted == []
