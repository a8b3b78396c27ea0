"""Tokens of service accounts for pods: asked of the API for one pod each, kept, and renewed in good time.

A token is bound to its pod, so it ends with it; the API gives a node only tokens of pods that run on it. It is renewed
after four fifths of its life, or after a day, whatever comes first, and then stands in the pod's volume with the next
look at it; programs read the file anew. While the API is away the old token stays, up to its end.
"""

from __future__ import annotations

import logging
import random
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from nodeagent.env import ConfigError
from wharfinger.api import errors, kinds
from wharfinger.api.types import authentication, core

if TYPE_CHECKING:
    from wharfinger.client import Client

log = logging.getLogger(__name__)

_SHARE = 0.8
_LONGEST = 86_400.0
_JITTER = 10.0
_KEPT = 2048


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    renew_at: float
    """Monotonic seconds."""
    ends_at: float


class ServiceTokens:
    """Asks for tokens through a client."""

    def __init__(self, client: Client) -> None:
        self._accounts = client.raw(kinds.of(core.ServiceAccount))
        self._kept: OrderedDict[tuple[str, str, int], _Token] = OrderedDict()

    async def token(self, pod: core.Pod, audience: str, seconds: int) -> str:
        """Return a token of the pod's account for an audience (empty: the apiserver) that lives so many seconds.

        Raises ConfigError when there is none that still holds.
        """
        now = time.monotonic()
        key = (pod.metadata.uid, audience, seconds)
        kept = self._kept.get(key)
        if kept is not None and now < kept.renew_at:
            return kept.text
        try:
            fresh = await self._ask(pod, audience, seconds)
        except errors.StatusError as error:
            if kept is not None and now < kept.ends_at:
                log.warning("a token could not be renewed", extra={"pod": _name(pod), "error": error.message})
                return kept.text
            raise ConfigError(f"failed to fetch token: {error.message}") from error
        self._kept[key] = fresh
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return fresh.text

    async def _ask(self, pod: core.Pod, audience: str, seconds: int) -> _Token:
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [audience] if audience else [],
                "expirationSeconds": seconds,
                "boundObjectRef": {
                    "apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid,
                },
            },
        }  # fmt: skip
        answer = await self._accounts.create(
            orjson.dumps(asked),
            namespace=pod.metadata.namespace,
            name=pod.spec.serviceAccountName,
            subresource="token",
        )
        made = authentication.TokenRequest.FromString(answer.data)
        now = time.monotonic()
        # What is left is what was asked for: the host's clock may differ from the server's.
        life = float(made.spec.expirationSeconds)
        renew = min(life * _SHARE, _LONGEST) - random.uniform(0, _JITTER)
        return _Token(made.status.token, now + renew, now + life)


def _name(pod: core.Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
