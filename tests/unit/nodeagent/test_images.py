"""Pulls that pods share."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from nodeagent.images import ImageProblem, Images
from nodeagent.pullsecrets import Login
from nodeagent.runtime import RuntimeFailure


class Registry:
    """A runtime that can do nothing but pull, as slowly as the test wants."""

    def __init__(self) -> None:
        self.logins: list[Any] = []
        self.answer = asyncio.Event()

    async def image(self, name: str) -> None:
        return None

    async def pull(self, name: str, login: Any) -> str:
        self.logins.append(login)
        await self.answer.wait()
        raise RuntimeFailure("no such image")


def _get(images: Images, pod: str, *logins: Login) -> asyncio.Task[Any]:
    getting = images.ensure("r.io/x:1", "Always", pod_uid=pod, say=lambda *_: None, logins=logins)
    return asyncio.ensure_future(getting)


async def test_a_pull_that_fails_when_nobody_waits_any_more_is_no_fault_of_ours() -> None:
    unheard: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    registry = Registry()
    images = Images(registry)  # type: ignore[arg-type]
    waiting = _get(images, "p1")
    while not registry.logins:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    registry.answer.set()
    while images._pulls:
        await asyncio.sleep(0)
    gc.collect()
    assert not unheard


async def test_a_wrong_password_does_not_share_in_the_pull_of_a_right_one() -> None:
    registry = Registry()
    images = Images(registry)  # type: ignore[arg-type]
    waiting = [_get(images, f"p{index}", Login("r.io", "amy", password)) for index, password in enumerate("abb")]
    while len(registry.logins) < 2:
        await asyncio.sleep(0)
    registry.answer.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(outcome, ImageProblem) for outcome in outcomes)
    assert len(registry.logins) == 2, "one for each password"
