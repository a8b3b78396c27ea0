"""What is to be recorded of which request: ``audit.k8s.io/v1`` ``Policy``, with kube-apiserver's rules of matching.

The first rule that matches decides; no rule: nothing is recorded. A rule of resources or namespaces matches no path,
one of paths no resource. In lists of users, groups, verbs and namespaces ``*`` has no meaning, as in Kubernetes; among
resources it has: ``*``, ``pods/*``, ``*/status``. A namespace counts as being in itself, and what has no namespace is
in the namespace "".

Unlike kube-apiserver, which then reads on more leniently, this refuses unknown fields: a policy that means less than
its author believes is found out when the log is needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from controlplane.apiserver.auth.policy import url_covers
from wharfinger.api import configfile
from wharfinger.api.configfile import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from controlplane.apiserver.auth.attributes import Attributes
    from wharfinger.api.configfile import Fields

API_VERSION = "audit.k8s.io/v1"
STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")
_REMEMBERED = 10_000
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Level(IntEnum):
    """How much is recorded; each includes those before it."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3

    @property
    def text(self) -> str:
        """As policies and events write it."""
        return _LEVELS[self]


_LEVELS = {
    Level.NONE: "None",
    Level.METADATA: "Metadata",
    Level.REQUEST: "Request",
    Level.REQUEST_RESPONSE: "RequestResponse",
}
_BY_TEXT = {text: level for level, text in _LEVELS.items()}


@dataclass(frozen=True, slots=True)
class Decision:
    """What is recorded of a request."""

    level: Level = Level.NONE
    omitted: frozenset[str] = frozenset()
    """Stages without an event."""
    omit_managed_fields: bool = False


@dataclass(frozen=True, slots=True)
class Resources:
    """One group of a rule's resources; without names of resources all of the group's."""

    group: str = ""
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def match(self, asked: Attributes) -> bool:
        """Whether the request's resource is meant."""
        if self.group != asked.group:
            return False
        if not self.resources:
            return True
        if self.names and asked.name not in self.names:
            return False
        full, subresource = asked.full_resource, asked.subresource
        return any(
            one in (full, "*")
            or (bool(subresource) and one.startswith("*/") and one[2:] == subresource)
            or (one.endswith("/*") and one[:-2] == asked.resource)
            for one in self.resources
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: empty lists match everything."""

    decision: Decision
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    resources: tuple[Resources, ...] = ()
    namespaces: frozenset[str] = frozenset()
    urls: tuple[str, ...] = ()

    def match(self, asked: Attributes) -> bool:
        """Whether the rule is about a request."""
        if self.users and asked.user.name not in self.users:
            return False
        if self.groups and self.groups.isdisjoint(asked.user.groups):
            return False
        if self.verbs and asked.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            if asked.path or (self.namespaces and asked.namespace not in self.namespaces):
                return False
            return not self.resources or any(one.match(asked) for one in self.resources)
        if self.urls:
            return bool(asked.path) and any(url_covers(url, asked.path) for url in self.urls)
        return True


class Policy:
    """All rules, and what was decided of late."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        self._named = any(one.names for rule in rules for one in rule.resources)
        self._known: dict[tuple[object, ...], Decision] = {}

    def decide(self, asked: Attributes) -> Decision:
        """Return what the first rule that matches says."""
        user = asked.user
        key = (
            user.name, user.groups, asked.verb, asked.group, asked.resource, asked.subresource, asked.namespace,
            asked.path, asked.name if self._named else "",
        )  # fmt: skip
        found = self._known.get(key)
        if found is None:
            found = next((rule.decision for rule in self.rules if rule.match(asked)), _NOTHING)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = found
        return found


_NOTHING = Decision()


def load(path: Path) -> Policy:
    """Read a policy's file. Raises ConfigError that names the file and the field."""
    return configfile.load(path, lambda text: read(configfile.parse(text, api_version=API_VERSION, kind="Policy")))


def read(top: Fields) -> Policy:
    """Read a policy. Raises ConfigError."""
    omitted = _stages(top)
    managed = bool(top.flag("omitManagedFields"))
    rules = tuple(_rule(fields, omitted, managed) for fields in top.items("rules"))
    top.end()
    if not rules:
        raise ConfigError("rules: must hold at least one rule")
    return Policy(rules)


def _rule(fields: Fields, omitted: frozenset[str], managed: bool) -> Rule:
    level = _BY_TEXT[fields.choice("level", tuple(_BY_TEXT))]
    own = fields.flag("omitManagedFields")
    rule = Rule(
        Decision(level, omitted | _stages(fields), managed if own is None else own),
        users=frozenset(fields.texts("users")),
        groups=frozenset(fields.texts("userGroups")),
        verbs=frozenset(fields.texts("verbs")),
        resources=tuple(map(_resources, fields.items("resources"))),
        namespaces=frozenset(fields.texts("namespaces")),
        urls=_urls(fields),
    )
    if rule.urls and (rule.resources or rule.namespaces):
        raise fields.error("nonResourceURLs", "a rule is about resources and namespaces or about paths, not both")
    fields.end()
    return rule


def _stages(fields: Fields) -> frozenset[str]:
    stages = fields.texts("omitStages")
    for number, stage in enumerate(stages):
        if stage not in STAGES:
            raise fields.error(f"omitStages[{number}]", f"{stage!r}: must be one of {', '.join(STAGES)}")
    return frozenset(stages)


def _urls(fields: Fields) -> tuple[str, ...]:
    urls = fields.texts("nonResourceURLs")
    for number, url in enumerate(urls):
        if url != "*" and not url.startswith("/"):
            raise fields.error(f"nonResourceURLs[{number}]", f"{url!r}: must begin with '/', or be '*'")
        if "*" in url[:-1]:
            raise fields.error(f"nonResourceURLs[{number}]", f"{url!r}: '*' may only stand at the end")
    return urls


def _resources(fields: Fields) -> Resources:
    one = Resources(fields.text("group"), fields.texts("resources"), fields.texts("resourceNames"))
    if one.group and (len(one.group) > 253 or not _GROUP.fullmatch(one.group)):
        raise fields.error("group", f"{one.group!r}: must be the name of an API group without a version; '' is core")
    if one.names and not one.resources:
        raise fields.error("resourceNames", "needs at least one of resources beside it")
    fields.end()
    return one
