import asyncio

import pytest

from wharfinger.client import WorkQueue


async def test_repeats_merge_into_one() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for _ in range(3):
        queue.add("a")
    queue.add("b")
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_is_never_worked_on_twice_at_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    assert len(queue) == 0, "still being worked on"
    queue.done("a")
    assert await asyncio.wait_for(queue.get(), 1) == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_back_off_doubles_up_to_a_limit_and_is_forgotten() -> None:
    queue: WorkQueue[str] = WorkQueue(base=0.01, maximum=0.05)
    assert [queue.retry("a") for _ in range(5)] == [0.01, 0.02, 0.04, 0.05, 0.05]
    assert queue.failures("a") == 5
    queue.forget("a")
    assert queue.failures("a") == 0
    assert queue.retry("a") == 0.01
    assert await asyncio.wait_for(queue.get(), 1) == "a"


async def test_the_earlier_of_two_times_counts() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 0.01)
    queue.add_after("a", 3600)
    assert await asyncio.wait_for(queue.get(), 1) == "a"
    queue.done("a")
    queue.add_after("a", 3600)
    queue.add_after("a", 0.01)
    assert await asyncio.wait_for(queue.get(), 1) == "a"
    queue.close()


async def test_adding_at_once_cancels_the_timer() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 0.02)
    queue.add("a")
    assert await queue.get() == "a"
    queue.done("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 0.1)


async def test_a_cancelled_worker_does_not_swallow_a_wake_up() -> None:
    queue: WorkQueue[str] = WorkQueue()
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert await asyncio.wait_for(second, 1) == "a"
