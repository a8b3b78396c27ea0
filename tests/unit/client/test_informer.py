"""The informer against a scripted resource client: what a server may do to a watch, in order."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from wharfinger.api import errors, kinds
from wharfinger.api.types import core
from wharfinger.client import Event, Informer, ObjectList


def pod(name: str, version: int, *, uid: str = "", node: str = "") -> core.Pod:
    obj = core.Pod()
    obj.metadata.name, obj.metadata.namespace = name, "default"
    obj.metadata.uid, obj.metadata.resourceVersion = uid or name, str(version)
    obj.spec.nodeName = node
    return obj


class Scripted:
    """Answers lists and watches from two scripts; a watch script is batches, then an error or the end."""

    def __init__(self, lists: list[list[core.Pod]], watches: list[list[Any]]) -> None:
        self.kind = kinds.of(core.Pod)
        self.lists = lists
        self.watches = watches
        self.since: list[str] = []
        self.done = asyncio.Event()

    async def list(self, **_: Any) -> ObjectList[core.Pod]:
        items = self.lists.pop(0)
        return ObjectList(
            items=items, resource_version=str(max((int(i.metadata.resourceVersion) for i in items), default=1))
        )

    async def watch(self, *, resource_version: str, **_: Any) -> AsyncIterator[Sequence[Event[core.Pod]]]:
        self.since.append(resource_version)
        if not self.watches:
            self.done.set()
            await asyncio.Event().wait()
        for step in self.watches.pop(0):
            if isinstance(step, Exception):
                raise step
            if step == "hang":
                await asyncio.Event().wait()
            yield step


def change(type_: Any, obj: core.Pod) -> Event[core.Pod]:
    return Event(type_, obj, obj.metadata.resourceVersion)


async def follow(client: Scripted, **options: Any) -> tuple[Informer[core.Pod], list[str]]:
    """Run an informer through the whole script; return it and what its handlers were told."""
    told: list[str] = []
    informer: Informer[core.Pod] = Informer(client, **options)  # type: ignore[arg-type]
    informer.add_handler(
        on_add=lambda new: told.append(f"+{new.metadata.name}@{new.metadata.resourceVersion}"),
        on_update=lambda old, new: told.append(
            f"{new.metadata.name}@{old.metadata.resourceVersion}>{new.metadata.resourceVersion}"
        ),
        on_delete=lambda old: told.append(f"-{old.metadata.name}"),
    )
    informer.add_index("node", lambda obj: [obj.spec.nodeName] if obj.spec.nodeName else [])
    await informer.start()
    async with asyncio.timeout(5):
        await client.done.wait()
    await informer.stop()
    return informer, told


async def test_events_are_applied_in_order_and_the_watch_resumes_at_the_last() -> None:
    client = Scripted(
        [[pod("a", 5)]],
        [
            [[change("ADDED", pod("b", 6)), change("MODIFIED", pod("a", 7))], [change("DELETED", pod("b", 8))]],
            [[change("MODIFIED", pod("a", 9))]],
        ],
    )
    informer, told = await follow(client)
    assert told == ["+a@5", "+b@6", "a@5>7", "-b", "a@7>9"]
    assert client.since == ["5", "8", "9"]
    assert [item.metadata.name for item in informer.items()] == ["a"]


async def test_events_that_are_sent_again_are_taken_once() -> None:
    client = Scripted([[pod("a", 5)]], [[[change("MODIFIED", pod("a", 6))], [change("MODIFIED", pod("a", 6))]]])
    _, told = await follow(client)
    assert told == ["+a@5", "a@5>6"]


async def test_a_bookmark_moves_the_resume_point() -> None:
    client = Scripted([[pod("a", 5)]], [[[Event("BOOKMARK", core.Pod(), "42")]]])
    await follow(client)
    assert client.since == ["5", "42"]


async def test_a_watch_that_is_too_old_is_replaced_by_a_list_and_the_difference_is_told() -> None:
    client = Scripted(
        [[pod("a", 5), pod("b", 5), pod("c", 5)], [pod("a", 5), pod("b", 9, uid="other"), pod("d", 9)]],
        [[errors.ExpiredError("too old resource version")]],
    )
    informer, told = await follow(client)
    assert told == ["+a@5", "+b@5", "+c@5", "-b", "+b@9", "+d@9", "-c"]
    assert informer.generation == 2


async def test_a_lost_connection_resumes_without_a_list() -> None:
    client = Scripted([[pod("a", 5)]], [[errors.ServiceUnavailableError("gone")], [[change("DELETED", pod("a", 6))]]])
    informer, told = await follow(client)
    assert told == ["+a@5", "-a"]
    assert client.since == ["5", "5", "6"]
    assert informer.generation == 1


async def test_a_stream_that_stands_still_is_opened_again() -> None:
    client = Scripted([[pod("a", 5)]], [["hang"]])
    await follow(client, progress_deadline=0.05)
    assert client.since[:2] == ["5", "5"]


async def test_a_watch_that_is_refused_time_and_again_is_not_asked_for_in_a_busy_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("wharfinger.client.informer.asyncio.sleep", note)
    monkeypatch.setattr("wharfinger.client.informer.random.uniform", lambda low, high: 1.0)
    old = errors.ExpiredError("too old resource version")
    client = Scripted(
        [[pod("a", 5)]] * 4, [[old], [old], [old], [], [errors.ServiceUnavailableError("away")], [[]], [old]]
    )
    client.lists.append([pod("a", 5)])
    await follow(client)
    assert pauses == [0.2, 0.5, 1.0, 2.0, 0.2]  # the first attempt and the one after a batch go on at once


async def test_a_fault_while_following_is_survived_by_a_new_list() -> None:
    client = Scripted([[pod("a", 5)], [pod("a", 6)]], [[ValueError("bytes that are no pod")]])
    informer, told = await follow(client)
    assert told == ["+a@5", "a@5>6"]
    assert client.since == ["5", "6"]
    assert informer.generation == 2


async def test_indexes_follow_changes() -> None:
    client = Scripted(
        [[pod("a", 5, node="n1"), pod("b", 5)]],
        [[[change("MODIFIED", pod("a", 6, node="n2")), change("MODIFIED", pod("b", 7, node="n2"))]]],
    )
    informer, _ = await follow(client)
    assert informer.by_index("node", "n1") == []
    assert {obj.metadata.name for obj in informer.by_index("node", "n2")} == {"a", "b"}


async def test_a_handler_that_fails_does_not_stop_the_others() -> None:
    client = Scripted([[pod("a", 5)]], [[[change("MODIFIED", pod("a", 6))]]])
    informer: Informer[core.Pod] = Informer(client)  # type: ignore[arg-type]
    told: list[SimpleNamespace] = []

    def fails(_: core.Pod) -> None:
        raise RuntimeError("a bug")

    informer.add_handler(on_add=fails)
    informer.add_handler(on_add=lambda obj: told.append(SimpleNamespace(name=obj.metadata.name)))
    await informer.start()
    async with asyncio.timeout(5):
        await client.done.wait()
    await informer.stop()
    assert told == [SimpleNamespace(name="a")]


async def test_a_server_that_went_back_is_listed_again() -> None:
    """A watch cannot go on at a version that a restored store has not reached: it might never, or mean another."""
    behind = errors.TimeoutError_(
        "Too large resource version: 9, current: 3",
        causes=[errors.FieldError("", "ResourceVersionTooLarge", "Too large resource version")],
    )
    client = Scripted([[pod("a", 8), pod("b", 9)], [pod("a", 3)]], [[behind], []])
    informer, told = await follow(client)
    assert told == ["+a@8", "+b@9", "a@8>3", "-b"]
    assert client.since[:2] == ["9", "3"]
    assert [obj.metadata.name for obj in informer.items()] == ["a"]


async def test_handlers_of_deletions_get_the_transformed_object_too() -> None:
    told: list[str] = []
    client = Scripted([[pod("a", 5), pod("b", 6)]], [[[change("DELETED", pod("a", 7))]], []])

    def named(obj: core.Pod) -> core.Pod:
        obj.metadata.annotations["seen"] = "yes"
        return obj

    informer: Informer[core.Pod] = Informer(client, transform=named)  # type: ignore[arg-type]
    informer.add_handler(on_delete=lambda old: told.append(old.metadata.annotations.get("seen", "no")))
    await informer.start()
    async with asyncio.timeout(5):
        await client.done.wait()
    await informer.stop()
    assert told == ["yes"]
