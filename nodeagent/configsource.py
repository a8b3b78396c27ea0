"""Config maps and secrets for pods, read from the API and kept for a short while.

A node may read only those that its pods name; the API enforces that. Kept for a minute, so that fifty pods with the
same config map cost one read; a container that starts sees a change at most that late (kubelet's cache behaves alike).
"""

from __future__ import annotations

import time
from typing import TypeVar

from google.protobuf.message import Message

from nodeagent.env import ConfigError
from nodeagent.servicetokens import ServiceTokens
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.client import Client

M = TypeVar("M", bound=Message)

KEEP_SECONDS = 60.0
MISSING_SECONDS = 1.0
MAX_KEPT = 512


class ApiConfigSource:
    """Reads through a client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: dict[tuple[str, str, str], tuple[float, Message | None]] = {}
        self._tokens = ServiceTokens(client)

    async def config_map(self, namespace: str, name: str) -> core.ConfigMap | None:
        """Return a config map; None when there is none. Raises ConfigError when the API cannot be asked."""
        return await self._get(core.ConfigMap, namespace, name)

    async def secret(self, namespace: str, name: str) -> core.Secret | None:
        """Return a secret; None when there is none. Raises ConfigError when the API cannot be asked."""
        return await self._get(core.Secret, namespace, name)

    async def token(self, pod: core.Pod, audience: str, seconds: int) -> str:
        """Return a token of the pod's account. Raises ConfigError when there is none to be had."""
        return await self._tokens.token(pod, audience, seconds)

    async def _get(self, message: type[M], namespace: str, name: str) -> M | None:
        key = (message.DESCRIPTOR.name, namespace, name)
        now = time.monotonic()
        kept = self._kept.get(key)
        if kept is not None and kept[0] > now:
            return kept[1]  # type: ignore[return-value]
        found: M | None
        try:
            found = await self._client.resource(message).get(name, namespace=namespace)
        except errors.NotFoundError:
            found = None
        except errors.StatusError as error:
            raise ConfigError(f"{key[0].lower()} {namespace}/{name} cannot be read: {error}") from error
        if len(self._kept) >= MAX_KEPT:
            self._kept = {one: value for one, value in self._kept.items() if value[0] > now}
        self._kept[key] = (now + (KEEP_SECONDS if found is not None else MISSING_SECONDS), found)
        return found
