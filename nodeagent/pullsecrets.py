"""Logins to image registries from the secrets that pods name in imagePullSecrets.

https://kubernetes.io/docs/tasks/configure-pod-container/pull-image-private-registry/
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from nodeagent.env import ConfigError, ConfigSource
from wharfinger.api.types import core

_DOCKER_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")


@dataclass(frozen=True, slots=True)
class Login:
    """One entry of a registry configuration."""

    registry: str
    """Host, with a port or path where given; the host may hold ``*``."""
    username: str
    password: str = field(repr=False)

    def fits(self, image: str) -> bool:
        """Whether the login is meant for an image's registry."""
        host, path = _split(image)
        wanted_host, _, wanted_path = self.registry.partition("/")
        same = fnmatchcase(host, wanted_host) or (host in _DOCKER_HUB and wanted_host in _DOCKER_HUB)
        hub = wanted_host in _DOCKER_HUB
        return same and (hub or not wanted_path or path == wanted_path or path.startswith(f"{wanted_path}/"))

    def auth(self) -> dict[str, str]:
        """Return it as the runtime takes it."""
        return {"username": self.username, "password": self.password}


def _split(image: str) -> tuple[str, str]:
    first, slash, rest = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return first, rest
    return "docker.io", image


async def logins_of(pod: core.Pod, source: ConfigSource) -> tuple[list[Login], list[str]]:
    """Return a pod's logins, and the names of secrets that could not be had."""
    logins: list[Login] = []
    missing: list[str] = []
    for reference in pod.spec.imagePullSecrets:
        try:
            secret = await source.secret(pod.metadata.namespace, reference.name)
        except ConfigError:
            secret = None
        if secret is None:
            missing.append(reference.name)
        else:
            logins += parse(secret)
    return logins, missing


def parse(secret: core.Secret) -> list[Login]:
    """Return the logins in a secret of one of the two docker types; nothing from any other or a broken one."""
    try:
        if ".dockerconfigjson" in secret.data:
            entries = json.loads(secret.data[".dockerconfigjson"]).get("auths") or {}
        elif ".dockercfg" in secret.data:
            entries = json.loads(secret.data[".dockercfg"])
        else:
            return []
        found = [_login(registry, entry) for registry, entry in entries.items()]
    except (ValueError, AttributeError):
        return []
    return [login for login in found if login is not None]


def _login(registry: str, entry: Mapping[str, Any]) -> Login | None:
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    if not username and entry.get("auth"):
        try:
            username, _, password = base64.b64decode(entry["auth"]).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
    registry = registry.removeprefix("https://").removeprefix("http://").rstrip("/")
    return Login(registry.removesuffix("/v1").removesuffix("/v2"), username, password) if username else None
