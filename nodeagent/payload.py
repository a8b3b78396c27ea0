"""Volumes whose content comes from the API: config maps, secrets, fields of the pod, and several of them projected.

First everything is fetched and laid out in memory, then it is written in one swap: readers see the old files or the
new ones, never a mixture. The layout is kubelet's (a timestamped folder, the link ``..data`` to it, and a link for
each name at the top), so that programs which watch for the change of ``..data`` work.
https://kubernetes.io/docs/concepts/storage/projected-volumes/
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nodeagent.env import ConfigError, ConfigSource, pod_field, resource_field
from wharfinger.api.quantity import Quantity
from wharfinger.api.types import core

KINDS = ("configMap", "secret", "downwardAPI", "projected")
DEFAULT_MODE = 0o644
_DATA = "..data"
_TOKEN_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class File:
    """One file of a volume."""

    content: bytes
    mode: int


Payload = dict[str, File]
"""By path within the volume."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Where content comes from."""

    pod: core.Pod
    status: core.PodStatus
    source: ConfigSource
    allocatable: Mapping[str, Quantity]


async def collect(source: core.VolumeSource, kind: str, inputs: Inputs) -> Payload:
    """Return the files of a volume of one of KINDS. Raises ConfigError, which names what is missing."""
    if kind == "configMap":
        volume = source.configMap
        mode = _mode(volume.HasField("defaultMode"), volume.defaultMode)
        return await _config_map(volume.localObjectReference.name, volume.items, volume.optional, mode, inputs)
    if kind == "secret":
        held = source.secret
        mode = _mode(held.HasField("defaultMode"), held.defaultMode)
        return await _secret(held.secretName, held.items, held.optional, mode, inputs)
    if kind == "downwardAPI":
        mode = _mode(source.downwardAPI.HasField("defaultMode"), source.downwardAPI.defaultMode)
        return _downward(source.downwardAPI.items, mode, inputs)
    projected = source.projected
    mode = _mode(projected.HasField("defaultMode"), projected.defaultMode)
    result: Payload = {}
    for one in projected.sources:
        if one.HasField("configMap"):
            name = one.configMap.localObjectReference.name
            result |= await _config_map(name, one.configMap.items, one.configMap.optional, mode, inputs)
        elif one.HasField("secret"):
            name = one.secret.localObjectReference.name
            result |= await _secret(name, one.secret.items, one.secret.optional, mode, inputs)
        elif one.HasField("downwardAPI"):
            result |= _downward(one.downwardAPI.items, mode, inputs)
        elif one.HasField("serviceAccountToken"):
            wanted = one.serviceAccountToken
            seconds = wanted.expirationSeconds if wanted.HasField("expirationSeconds") else _TOKEN_SECONDS
            token = await inputs.source.token(inputs.pod, wanted.audience, seconds)
            # As a kubelet: whoever is in the pod's group reads it, so nobody else needs to.
            private = inputs.pod.spec.securityContext.HasField("fsGroup")
            result[_safe(wanted.path)] = File(token.encode(), 0o600 if private else mode)
        else:
            what = next((field.name for field, _ in one.ListFields()), "an empty source")
            raise ConfigError(f"projected source {what} is not supported by this node agent")
    return result


def _mode(given: bool, mode: int) -> int:
    return mode if given else DEFAULT_MODE


async def _config_map(name: str, items: Iterable[core.KeyToPath], optional: bool, mode: int, inputs: Inputs) -> Payload:
    namespace = inputs.pod.metadata.namespace
    found = await inputs.source.config_map(namespace, name)
    if found is None:
        if optional:
            return {}
        raise ConfigError(f'configmap "{name}" not found')
    data = {key: value.encode() for key, value in found.data.items()} | dict(found.binaryData)
    return _select(data, list(items), optional, mode, f"configmap {namespace}/{name}")


async def _secret(name: str, items: Iterable[core.KeyToPath], optional: bool, mode: int, inputs: Inputs) -> Payload:
    namespace = inputs.pod.metadata.namespace
    found = await inputs.source.secret(namespace, name)
    if found is None:
        if optional:
            return {}
        raise ConfigError(f'secret "{name}" not found')
    return _select(dict(found.data), list(items), optional, mode, f"secret {namespace}/{name}")


def _select(data: Mapping[str, bytes], items: list[core.KeyToPath], optional: bool, mode: int, what: str) -> Payload:
    if not items:
        return {key: File(value, mode) for key, value in data.items()}
    result: Payload = {}
    for item in items:
        if item.key in data:
            result[_safe(item.path)] = File(data[item.key], _mode(True, item.mode) if item.HasField("mode") else mode)
        elif not optional:
            raise ConfigError(f"{what} references non-existent key: {item.key}")
    return result


def _downward(items: Iterable[core.DownwardAPIVolumeFile], mode: int, inputs: Inputs) -> Payload:
    result: Payload = {}
    for item in items:
        if item.HasField("fieldRef"):
            text = pod_field(inputs.pod, item.fieldRef.fieldPath, inputs.status)
        else:
            text = resource_field(inputs.pod, core.Container(), item.resourceFieldRef, inputs.allocatable)
        result[_safe(item.path)] = File(text.encode(), item.mode if item.HasField("mode") else mode)
    return result


def _safe(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/"):
        raise ConfigError(f"path {path!r} must be relative and must not contain '..'")
    return path


def write(target: Path, payload: Payload, *, group: int | None = None) -> bool:
    """Let the volume at `target` hold exactly these files; return whether anything changed.

    With a `group` (the pod's fsGroup) all files belong to it and may be read by it. Raises OSError.
    """
    target.mkdir(parents=True, exist_ok=True)
    if group is not None:
        payload = {path: File(file.content, file.mode | 0o440) for path, file in payload.items()}
    data = target / _DATA
    if data.exists() and _read(data) == payload:
        return False
    stamp = time.strftime("%Y_%m_%d_%H_%M_%S", time.gmtime())
    fresh = target / f"..{stamp}.{secrets.randbelow(10**9):09d}"
    fresh.mkdir(mode=0o755)
    for path, file in payload.items():
        where = fresh / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_bytes(file.content)
        where.chmod(file.mode)
    if group is not None:
        for made in (fresh, *fresh.rglob("*")):
            os.chown(made, -1, group)
            if made.is_dir():
                made.chmod(0o2755)
    old = data.resolve() if data.is_symlink() else None
    swap = target / "..data_tmp"
    swap.unlink(missing_ok=True)
    swap.symlink_to(fresh.name)
    swap.replace(data)
    if group is not None:
        os.chown(data, -1, group, follow_symlinks=False)
    tops = {path.split("/")[0] for path in payload}
    for name in tops:
        link = target / name
        if not link.is_symlink():
            link.symlink_to(f"{_DATA}/{name}")
            if group is not None:
                os.chown(link, -1, group, follow_symlinks=False)
    for known in target.iterdir():
        if not known.name.startswith("..") and known.name not in tops:
            known.unlink()
    if old is not None and old != fresh:
        with contextlib.suppress(OSError):
            shutil.rmtree(old)
    return True


def _read(folder: Path) -> Payload:
    base = folder.resolve()
    return {
        str(path.relative_to(base)): File(path.read_bytes(), path.stat().st_mode & 0o7777)
        for path in base.rglob("*")
        if path.is_file()
    }
