"""Rules of roles as values: what one allows, and whether some allow all that others do.

Semantics and names follow "Using RBAC Authorization" in Kubernetes' documentation: ``*`` stands for everything,
``*/scale`` for one subresource of all resources, a URL may end in ``*``, and a rule with names never allows what has no
name yet (create) or many (list).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wharfinger.api.types import rbac

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ALL = "*"
MAX_PARTS = 5_000
"""Combinations of verb, group, resource and name that are looked at one by one: enough for any role that people write,
and some ten milliseconds."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One PolicyRule."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Empty: all."""
    urls: tuple[str, ...] = ()

    def on_resource(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Whether the rule allows the verb on such a resource, if the name is right."""
        if ALL not in self.verbs and verb not in self.verbs:
            return False
        if ALL not in self.groups and group not in self.groups:
            return False
        resources = self.resources
        if ALL in resources:
            return True
        if not subresource:
            return resource in resources
        return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources

    def on_path(self, verb: str, path: str) -> bool:
        """Whether the rule allows the verb on a path that is no resource."""
        if ALL not in self.verbs and verb not in self.verbs:
            return False
        return any(url_covers(url, path) for url in self.urls)

    def to_message(self) -> rbac.PolicyRule:
        """Return it as it is stored."""
        return rbac.PolicyRule(
            verbs=self.verbs,
            apiGroups=self.groups,
            resources=self.resources,
            resourceNames=self.names,
            nonResourceURLs=self.urls,
        )

    def compact(self) -> str:
        """Return it as messages name it: ``{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}``."""
        parts = (
            ("APIGroups", self.groups), ("Resources", self.resources), ("ResourceNames", self.names),
            ("NonResourceURLs", self.urls), ("Verbs", self.verbs),
        )  # fmt: skip
        shown = (
            f"{name}:[{', '.join(f'{chr(34)}{item}{chr(34)}' for item in items)}]" for name, items in parts if items
        )
        return "{" + ", ".join(shown) + "}"


EVERYTHING = (Rule((ALL,), (ALL,), (ALL,)), Rule((ALL,), urls=(ALL,)))


def of_message(rule: rbac.PolicyRule) -> Rule:
    """Read a stored rule."""
    return Rule(
        tuple(rule.verbs),
        tuple(rule.apiGroups),
        tuple(rule.resources),
        tuple(rule.resourceNames),
        tuple(rule.nonResourceURLs),
    )


def of_messages(rules: Iterable[rbac.PolicyRule]) -> tuple[Rule, ...]:
    """Read stored rules."""
    return tuple(of_message(rule) for rule in rules)


def uncovered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """Return the parts of `wanted` that `owned` does not allow, each with one verb, group, resource and name.

    Rules of more than :data:`MAX_PARTS` parts together, which a few kilobytes can hold, are not taken apart: each must
    be allowed by one rule of `owned` as it stands, or is missing as a whole.
    """
    missing: list[Rule] = []
    left = MAX_PARTS
    for rule in wanted:
        if any(_covers_all(own, rule) for own in owned):
            continue
        left -= _parts(rule)
        if left < 0:
            missing.append(rule)
        else:
            missing += [part for part in _atoms(rule) if not any(_covers(own, part) for own in owned)]
    return missing


def _parts(rule: Rule) -> int:
    resources = len(rule.groups) * len(rule.resources) * max(1, len(rule.names))
    return len(rule.verbs) * (len(rule.urls) + resources)


def _covers_all(own: Rule, rule: Rule) -> bool:
    """Whether one rule allows all that another does, dimension by dimension: what is so needs no taking apart."""
    if ALL not in own.verbs and not _has_all(own.verbs, rule.verbs):
        return False
    if not all(any(url_covers(one, url) for one in own.urls) for url in rule.urls):
        return False
    if not (rule.groups and rule.resources):
        return True
    if ALL not in own.groups and not _has_all(own.groups, rule.groups):
        return False
    if ALL not in own.resources and not _has_all(own.resources, rule.resources):
        return False
    return not own.names or (bool(rule.names) and _has_all(own.names, rule.names))


def _has_all(own: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return set(own).issuperset(wanted)


def _atoms(rule: Rule) -> Iterator[Rule]:
    """Split a rule into parts that one rule alone must cover."""
    for verb, url in itertools.product(rule.verbs, rule.urls):
        yield Rule((verb,), urls=(url,))
    for group, resource, verb in itertools.product(rule.groups, rule.resources, rule.verbs):
        if not rule.names:
            yield Rule((verb,), (group,), (resource,))
        for name in rule.names:
            yield Rule((verb,), (group,), (resource,), (name,))


def _covers(own: Rule, part: Rule) -> bool:
    if ALL not in own.verbs and part.verbs[0] not in own.verbs:
        return False
    if part.urls:
        return any(url_covers(url, part.urls[0]) for url in own.urls)
    if ALL not in own.groups and part.groups[0] not in own.groups:
        return False
    if ALL not in own.resources and part.resources[0] not in own.resources:
        _, _, subresource = part.resources[0].partition("/")
        if not subresource or f"*/{subresource}" not in own.resources:
            return False
    return not own.names or bool(part.names and part.names[0] in own.names)


def url_covers(own: str, url: str) -> bool:
    """Whether one URL of a rule covers another, or a path."""
    return own in (ALL, url) or (own.endswith("*") and url.startswith(own.rstrip("*")))


def compacted(rules: Iterable[Rule]) -> list[Rule]:
    """Join rules that differ in their verbs alone, and drop what is said twice: for people to read."""
    joined: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for rule in rules:
        key = (rule.groups, rule.resources, rule.names, rule.urls)
        verbs = joined.setdefault(key, [])
        verbs += [verb for verb in rule.verbs if verb not in verbs]
    return [Rule(tuple(verbs), *key) for key, verbs in joined.items()]
