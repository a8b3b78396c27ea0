"""What the agent remembers of a pod between two looks at it, and cannot read from the runtime.

All of it may be lost with the process: a restarted agent begins with the status that the API holds and goes on.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from nodeagent.backoff import Backoff
from wharfinger.api.types import core


class Stage(enum.Enum):
    """Where a pod is in its life on the node; it only moves forward."""

    ACTIVE = "active"
    """Containers are started and restarted."""
    TERMINATING = "terminating"
    """Nothing is started any more; what runs is being ended."""
    TERMINATED = "terminated"
    """Nothing runs and nothing will."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container does not run: reason and message of its waiting state."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a pod's life ends before its containers did: reason and message of the pod's status."""

    reason: str
    message: str = ""
    rejected: bool = False
    """It was never started: its status is nothing but this."""


@dataclass(frozen=True, slots=True)
class Unhealthy:
    """Why a running container must be restarted."""

    probe: str
    message: str


@dataclass(slots=True)
class PodMemory:
    """See the module."""

    status: core.PodStatus
    """The last status, at first the API's."""
    stage: Stage = Stage.ACTIVE
    ending: Ending | None = None
    waiting: dict[str, Waiting] = field(default_factory=dict)
    """By container name, from the last attempt to start it."""
    backoff: Backoff = field(default_factory=Backoff)
    ready: dict[str, bool] = field(default_factory=dict)
    """Last verdict of the readiness probe by container id."""
    started: dict[str, bool] = field(default_factory=dict)
    """Last verdict of the startup probe by container id."""
    unhealthy: dict[str, Unhealthy] = field(default_factory=dict)
    """By container id."""
    containers_gone: bool = False
    """In TERMINATING: whether nothing runs any more, sandbox included."""
