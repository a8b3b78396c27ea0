"""The status of PodGroups: written when it is news, and only the last of several changes."""

from __future__ import annotations

import asyncio
from typing import Any

from controlplane.scheduler.gangs import Gang, Group
from controlplane.scheduler.groupreporter import GroupReporter, Standing, says, status_of
from wharfinger.api import defaults
from wharfinger.api.types import gangs


class Client:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        self.wrote = asyncio.Event()

    def resource(self, _: object) -> Client:
        return self

    async def patch(self, name: str, *, patch: dict[str, Any], **_: Any) -> None:
        self.written.append({"name": name, **patch})
        self.wrote.set()


def gang() -> Gang:
    made = Gang("default/train")
    made.group = Group(uid="g", generation=3, min_member=2, timeout=60.0)
    made.placed.update(("default/a", "default/b"))
    return made


DONE = Standing("Scheduled", "Scheduled", "2 members have a node or are done")


async def test_only_the_last_change_is_written_and_only_news() -> None:
    client = Client()
    reporter = GroupReporter(client)  # type: ignore[arg-type]
    one = gang()
    reporter.note(one, Standing("Pending", "NotTried", "not yet"))
    reporter.note(one, DONE)
    reporter.start()
    async with asyncio.timeout(5):
        await client.wrote.wait()
    await reporter.close()
    (written,) = client.written
    condition = written["status"]["conditions"][0]
    assert (written["name"], written["metadata"], written["status"]["scheduled"]) == ("train", {"uid": "g"}, 2)
    assert (condition["status"], condition["observedGeneration"]) == ("True", 3)
    assert condition["lastTransitionTime"].endswith("Z")


def test_a_group_that_says_so_already_is_left_alone() -> None:
    one = gang()
    assert one.group is not None
    status = status_of(one, one.group, DONE)
    assert not says(one.group, status)
    message = gangs.PodGroup()
    message.metadata.uid, message.metadata.generation = "g", 3
    defaults.apply(message)
    message.status.phase, message.status.members, message.status.scheduled = "Scheduled", 2, 2
    message.status.observedGeneration = 3
    message.status.conditions.add(type="Scheduled", status="True", reason="Scheduled", message=DONE.message)
    assert says(Group.of(message), status)
