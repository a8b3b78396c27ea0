"""Getting a container's image onto the node, by its pull policy and with back-off.

One pull an image at a time, shared by all who wait for it; a pod that is deleted stops waiting, the pull goes on.
https://kubernetes.io/docs/concepts/containers/images/
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from nodeagent.backoff import Backoff
from nodeagent.memory import Waiting
from nodeagent.pullsecrets import Login
from nodeagent.runtime import ImageRecord, Runtime, RuntimeFailure, RuntimeUnavailable

log = logging.getLogger(__name__)

_REFERENCE = re.compile(
    r"(?:(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?(?::\d+)?|\[[0-9a-fA-F:]+\](?::\d+)?)/)?"
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
    r"(?::[\w][\w.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)

_Key = tuple[str, tuple[Login, ...]]
"""Of a pull: the image, and the logins to be tried."""
Say = Callable[[str, str, str], None]
"""Records an event about the container: type, reason, message."""


class ImageProblem(Exception):  # noqa: N818  (it is a state to report, not a bug)
    """Raised when the image cannot be had now; carries what the container waits for."""

    def __init__(self, waiting: Waiting) -> None:
        super().__init__(waiting.message)
        self.waiting = waiting


def normal_name(image: str) -> str:
    """Return an image's name with the tag that is meant when none is given. Raises ValueError when it is no name."""
    if not _REFERENCE.fullmatch(image):
        raise ValueError("couldn't parse image reference: invalid reference format")
    last = image.rpartition("/")[2]
    return image if ":" in last or "@" in last else f"{image}:latest"


def default_policy(image: str) -> str:
    """Return the policy of a container that names none: always for the tag latest."""
    tag = normal_name(image).rpartition("/")[2]
    return "Always" if tag.endswith(":latest") and "@" not in tag else "IfNotPresent"


@dataclass(slots=True)
class _Pull:
    task: asyncio.Task[str]
    began: float


class Images:
    """The images of a node."""

    def __init__(self, runtime: Runtime, *, clock: Callable[[], float] = time.time) -> None:
        self._runtime = runtime
        self._clock = clock
        self._backoff = Backoff()
        self._failed_at: dict[str, tuple[float, str]] = {}
        self._pulls: dict[_Key, _Pull] = {}
        """By image and who asks: what one may have, another may not."""

    def retry_at(self, pod_uid: str, image: str) -> float | None:
        """Return when a failed pull may be tried again; None when it has not failed."""
        key = f"{pod_uid}/{image}"
        failed = self._failed_at.get(key)
        return self._backoff.ready_at(key, failed[0]) if failed else None

    def forget(self, pod_uid: str) -> None:
        """Drop what is remembered for a pod that is gone."""
        for key in [key for key in self._failed_at if key.startswith(f"{pod_uid}/")]:
            del self._failed_at[key]
            self._backoff.reset(key)

    async def ensure(
        self, image: str, policy: str, *, pod_uid: str, say: Say, logins: Sequence[Login] = ()
    ) -> ImageRecord:
        """Return the image, pulled when the policy wants that. Raises ImageProblem, RuntimeUnavailable.

        `logins` are tried one after the other where they fit the image's registry.
        """
        try:
            name = normal_name(image)
        except ValueError as error:
            text = f'Failed to apply default image tag "{image}": {error}'
            say("Warning", "InspectFailed", text)
            raise ImageProblem(Waiting("InvalidImageName", text)) from error
        policy = policy or default_policy(name)
        try:
            present = await self._runtime.image(name)
        except RuntimeUnavailable:
            raise
        except RuntimeFailure as error:
            text = f'Failed to inspect image "{image}": {error}'
            say("Warning", "InspectFailed", text)
            raise ImageProblem(Waiting("ImageInspectError", text)) from error
        if present is not None and policy != "Always":
            say("Normal", "Pulled", f'Container image "{image}" already present on machine')
            return present
        if policy == "Never":
            text = f'Container image "{image}" is not present with pull policy of Never'
            say("Warning", "ErrImageNeverPull", text)
            raise ImageProblem(Waiting("ErrImageNeverPull", text))
        return await self._pull(image, name, pod_uid=pod_uid, say=say, logins=logins)

    async def _pull(self, image: str, name: str, *, pod_uid: str, say: Say, logins: Sequence[Login]) -> ImageRecord:
        key = f"{pod_uid}/{image}"
        now = self._clock()
        failed = self._failed_at.get(key)
        if failed is not None and self._backoff.ready_at(key, failed[0]) > now:
            text = f'Back-off pulling image "{image}"'
            say("Normal", "BackOff", text)
            raise ImageProblem(Waiting("ImagePullBackOff", f"{text}: ErrImagePull: {failed[1]}"))
        say("Normal", "Pulling", f'Pulling image "{image}"')
        fitting = [login for login in logins if login.fits(name)]
        one_pull = (name, tuple(fitting))  # with the passwords: a wrong one must not share in a right one's pull
        pull = self._pulls.get(one_pull)
        if pull is None:
            task = asyncio.ensure_future(self._pull_with(name, fitting))
            pull = self._pulls[one_pull] = _Pull(task, time.monotonic())
            task.add_done_callback(partial(self._pulled, one_pull))
        try:
            await asyncio.shield(pull.task)
            present = await self._runtime.image(name)
        except RuntimeUnavailable:
            raise
        except RuntimeFailure as error:
            text = f'failed to pull image "{image}": {error}'
            say("Warning", "Failed", f"F{text[1:]}")
            self._backoff.attempt(key, failed_at=failed[0] if failed else now, now=now)
            self._failed_at[key] = (self._clock(), str(error))
            raise ImageProblem(Waiting("ErrImagePull", text)) from error
        if present is None:
            text = f'image "{image}" was pulled but is not on the node'
            say("Warning", "Failed", text)
            raise ImageProblem(Waiting("ErrImagePull", text))
        self._failed_at.pop(key, None)
        self._backoff.reset(key)
        seconds = time.monotonic() - pull.began
        text = f'Successfully pulled image "{image}" in {seconds:.3f}s. Image size: {present.size} bytes.'
        say("Normal", "Pulled", text)
        return present

    def _pulled(self, one_pull: _Key, task: asyncio.Task[str]) -> None:
        del self._pulls[one_pull]
        if not task.cancelled() and (error := task.exception()) is not None:
            # Whoever waits is told; the pods that did may be gone by now.
            log.debug("a pull failed", extra={"image": one_pull[0], "error": str(error)})

    async def _pull_with(self, name: str, logins: Sequence[Login]) -> str:
        """Pull with each login until one is let in; without any, as anybody. Raises RuntimeFailure."""
        for login in logins[:-1]:
            try:
                return await self._runtime.pull(name, login.auth())
            except RuntimeUnavailable:
                raise
            except RuntimeFailure as error:
                log.debug("pull refused, trying the next login", extra={"image": name, "error": str(error)})
        return await self._runtime.pull(name, logins[-1].auth() if logins else None)
