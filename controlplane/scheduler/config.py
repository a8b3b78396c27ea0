"""The file given by ``--config``: a KubeSchedulerConfiguration (``kubescheduler.config.k8s.io/v1``).

Read strictly: an unknown key, an unknown plugin or a wrong type is an error that names its path. What kube-scheduler
knows and this scheduler does not need (volume plugins, binders, the number of threads) is accepted without effect, and
the log says so; what would change decisions and is not built (extenders) is refused.

How the lists of plugins come about is kube-scheduler's rule. ``multiPoint`` starts from the defaults; a plugin listed
there replaces the default of its name or comes last. At each extension point the plugins listed for it come in this
order: those that ``multiPoint`` has, too, then the rest of ``multiPoint``, then those that only the point has.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane.scheduler.plugins import WITHOUT_EFFECT, find
from controlplane.scheduler.profile import DEFAULT_PLUGINS, DEFAULT_SCHEDULER_NAME, POINTS, Enabled, Profile
from wharfinger.api import configfile
from wharfinger.api.configfile import ConfigError, Fields
from wharfinger.api.durations import parse as parse_duration
from wharfinger.api.errors import StatusError

log = logging.getLogger(__name__)

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"

_IDLE_POINTS = ("preFilter", "preScore", "reserve", "permit", "preBind", "bind", "postBind", "placementGenerate",
                "placementScore")  # fmt: skip
"""Extension points of kube-scheduler that are part of others here, or that no plugin here takes part in."""


@dataclass(slots=True)
class Configuration:
    """What a file says."""

    profiles: list[Profile] = field(default_factory=list)
    flags: dict[str, Any] = field(default_factory=dict)
    """Flags that it stands for, by the names of the options."""
    initial_backoff: float | None = None
    max_backoff: float | None = None
    """Seconds."""


def load(path: Path) -> Configuration:
    """Read a file. Raises ConfigError that names it and the path."""
    return configfile.load(path, lambda text: read(configfile.document(text)))


def read(data: Any) -> Configuration:
    """Read a configuration as plain values. Raises ConfigError that names the path."""
    top = _Reader(data)
    version, kind = top.take("apiVersion", str, ""), top.take("kind", str, "")
    if (version, kind) != (API_VERSION, KIND):
        raise ConfigError(f"apiVersion, kind: {version!r}, {kind!r} are not {API_VERSION!r}, {KIND!r}")
    result = Configuration()
    for name in ("parallelism", "enableProfiling", "enableContentionProfiling", "delayCacheUntilActive"):
        if top.take(name, object, None) is not None:
            log.info("configuration without effect", extra={"key": name})
    _percentage(top)
    result.initial_backoff = _seconds(top, "podInitialBackoffSeconds")
    result.max_backoff = _seconds(top, "podMaxBackoffSeconds")
    if (result.initial_backoff or 1) > (result.max_backoff or 10):
        raise ConfigError("podMaxBackoffSeconds: must not be below podInitialBackoffSeconds")
    if top.take("extenders", list, []):
        raise ConfigError("extenders: not supported")
    _read_election(top.sub("leaderElection"), result.flags)
    _read_connection(top.sub("clientConnection"), result.flags)
    for reader in top.items("profiles"):
        result.profiles.append(_read_profile(reader))
    top.end()
    names = [profile.scheduler_name for profile in result.profiles]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ConfigError(f"profiles[{index}].schedulerName: {name!r} has a profile already")
    if not result.profiles:
        result.profiles.append(Profile())
    return result


def _percentage(reader: _Reader) -> None:
    value = reader.take("percentageOfNodesToScore", int, None)
    if value is None:
        return
    if not 0 <= value <= 100:
        raise reader.error("percentageOfNodesToScore", f"{value} is not within 0 to 100")
    if value not in (0, 100):
        log.info("all nodes are looked at and scored, whatever percentageOfNodesToScore", extra={"value": value})


def _seconds(reader: _Reader, name: str) -> float | None:
    value: int | None = reader.take(name, int, None)
    if value is not None and value < 1:
        raise reader.error(name, f"{value} is less than 1")
    return value


def _read_election(reader: _Reader, flags: dict[str, Any]) -> None:
    for name, flag in (
        ("leaseDuration", "leader_elect_lease_duration"),
        ("renewDeadline", "leader_elect_renew_deadline"),
        ("retryPeriod", "leader_elect_retry_period"),
    ):
        text = reader.take(name, str, None)
        if text is not None:
            try:
                flags[flag] = parse_duration(text) / 1e9
            except ValueError as error:
                raise reader.error(name, f"{text!r} is no duration such as 15s") from error
    for name, type_, flag in (
        ("leaderElect", bool, "leader_elect"),
        ("resourceNamespace", str, "leader_elect_resource_namespace"),
        ("resourceName", str, "leader_elect_resource_name"),
    ):
        value = reader.take(name, type_, None)
        if value is not None:
            flags[flag] = value
    lock = reader.take("resourceLock", str, "leases")
    if lock != "leases":
        raise reader.error("resourceLock", f"{lock!r}, only 'leases' is supported")
    reader.end()


def _read_connection(reader: _Reader, flags: dict[str, Any]) -> None:
    kubeconfig = reader.take("kubeconfig", str, "")
    if kubeconfig:
        flags["kubeconfig"] = kubeconfig
    for name in ("acceptContentTypes", "contentType", "qps", "burst"):
        reader.take(name, object, None)
    reader.end()


def _read_profile(reader: _Reader) -> Profile:
    name = reader.take("schedulerName", str, DEFAULT_SCHEDULER_NAME)
    _percentage(reader)
    arguments: dict[str, Mapping[str, Any]] = {}
    paths: dict[str, str] = {}
    for entry in reader.items("pluginConfig"):
        plugin = _plugin_name(entry)
        values = entry.take("args", dict, {})
        if plugin in arguments:
            raise entry.error("name", f"{plugin!r} has arguments already")
        arguments[plugin], paths[plugin] = values, entry.at("args")
        entry.end()
    enabled, points = _read_plugins(reader.sub("plugins"))
    reader.end()
    for plugin, values in arguments.items():
        if plugin not in WITHOUT_EFFECT:
            try:
                find(plugin)(values)
            except (ValueError, StatusError) as error:
                raise ConfigError(f"{paths[plugin]}: {error}") from error
            except (TypeError, KeyError, AttributeError) as error:
                raise ConfigError(f"{paths[plugin]}: not of the form that {plugin} takes: {error}") from error
    try:
        return Profile(scheduler_name=name, enabled=enabled, points=points, arguments=arguments)
    except ValueError as error:
        raise ConfigError(f"{reader.path or 'profiles'}: {error}") from error


@dataclass(slots=True)
class _Set:
    """What is said of the plugins of one point."""

    enabled: list[Enabled] = field(default_factory=list)
    disabled: set[str] = field(default_factory=set)

    def removes(self, name: str) -> bool:
        return "*" in self.disabled or name in self.disabled


def _read_plugins(reader: _Reader) -> tuple[list[Enabled], dict[str, list[Enabled]]]:
    multi = _read_set(reader.sub("multiPoint"))
    sets = {point: _read_set(reader.sub(point)) for point in POINTS}
    for point in _IDLE_POINTS:
        _read_set(reader.sub(point))
    reader.end()
    replaced = {plugin.name: plugin for plugin in multi.enabled}
    merged = [replaced.get(plugin.name, plugin) for plugin in DEFAULT_PLUGINS if not multi.removes(plugin.name)]
    there = {plugin.name for plugin in merged}
    merged += [plugin for plugin in multi.enabled if plugin.name not in there]
    return merged, {point: _at_point(merged, entry) for point, entry in sets.items()}


def _at_point(merged: Sequence[Enabled], said: _Set) -> list[Enabled]:
    common = {plugin.name for plugin in merged}
    listed = {plugin.name for plugin in said.enabled}
    return [
        *(plugin for plugin in said.enabled if plugin.name in common),
        *(plugin for plugin in merged if plugin.name not in listed and not said.removes(plugin.name)),
        *(plugin for plugin in said.enabled if plugin.name not in common),
    ]


def _read_set(reader: _Reader) -> _Set:
    result = _Set()
    for entry in reader.items("enabled"):
        name = _plugin_name(entry)
        weight = entry.take("weight", int, 0)
        if weight < 0:
            raise entry.error("weight", f"{weight} is negative")
        if name not in WITHOUT_EFFECT:
            result.enabled.append(Enabled(name, weight or 1))
        entry.end()
    for entry in reader.items("disabled"):
        result.disabled.add(_plugin_name(entry, star=True))
        entry.take("weight", int, 0)
        entry.end()
    reader.end()
    return result


def _plugin_name(reader: _Reader, *, star: bool = False) -> str:
    name: str = reader.take("name", str, "")
    if not name:
        raise reader.error("name", "must be given")
    if (star and name == "*") or name in WITHOUT_EFFECT:
        return name
    try:
        find(name)
    except ValueError as error:
        raise reader.error("name", f"{error}") from error
    return name


class _Reader(Fields):
    """Errors show what stands in the file: nothing of it is a secret."""

    unknown = "unknown key"

    @staticmethod
    def unfit(value: Any, kind: type) -> str:
        """Return what is said of a value of the wrong type."""
        text = repr(value)
        return f"{text if len(text) <= 60 else text[:57] + '...'} is no {_WORDS[kind]}"


_WORDS: Mapping[type, str] = {int: "whole number", str: "text", bool: "boolean", list: "list", dict: "mapping"}
