"""The roles and bindings that a cluster begins with, made from ``bootstrap_roles.yaml`` beside this module.

They are brought up to date at every start of an apiserver, as Kubernetes does it: what is missing is added, what people
added stays, and an object whose annotation ``rbac.authorization.kubernetes.io/autoupdate`` is ``false`` is left alone.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from controlplane.apiserver.auth.policy import Rule, of_messages, uncovered
from wharfinger.api.types import rbac

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_FILE = Path(__file__).with_suffix(".yaml")
GROUP = "rbac.authorization.k8s.io"
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_LABEL = "kubernetes.io/bootstrapping"
_AGGREGATE = f"{GROUP}/aggregate-to-"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

RoleObject = rbac.ClusterRole | rbac.Role
BindingObject = rbac.ClusterRoleBinding | rbac.RoleBinding


@cache
def _document() -> Mapping[str, Any]:
    document: dict[str, Any] = yaml.load(_FILE.read_text(encoding="utf-8"), _LOADER)
    own = document["own"]
    for section, entries in own.items():
        document[section] = {**document[section], **entries}
    return document


def _rule(entry: Mapping[str, Any]) -> Rule:
    names = ("verbs", "groups", "resources", "names", "urls")
    return Rule(*(tuple(entry.get(name, ())) for name in names))


@cache
def rules_of(name: str) -> tuple[Rule, ...]:
    """Return the rules that a cluster role begins with. Raises KeyError for none of ours."""
    roles = _document()["clusterRoles"]
    entry = roles[name] or {}
    rules = [_rule(item) for item in entry.get("rules", ())]
    if prefix := entry.get("sum-of"):
        for other in roles:
            if other.startswith(prefix):
                rules += [rule for rule in rules_of(other) if rule not in rules]
    return tuple(rules)


def roles() -> Iterator[RoleObject]:
    """Make the roles."""
    document = _document()
    for name, entry in document["clusterRoles"].items():
        role = rbac.ClusterRole()
        _head(role.metadata, name)
        if into := entry.get("aggregated-to"):
            role.metadata.labels[_AGGREGATE + into] = "true"
        if of := entry.get("aggregates"):
            role.aggregationRule.clusterRoleSelectors.add(matchLabels={_AGGREGATE + of: "true"})
        role.rules.extend(rule.to_message() for rule in rules_of(name))
        yield role
    for where, entry in document["roles"].items():
        namespace, _, name = where.partition("/")
        local = rbac.Role()
        _head(local.metadata, name, namespace)
        local.rules.extend(_rule(item).to_message() for item in entry["rules"])
        yield local


def bindings() -> Iterator[BindingObject]:
    """Make the bindings."""
    document = _document()
    for name, entry in document["clusterRoleBindings"].items():
        binding = rbac.ClusterRoleBinding()
        _head(binding.metadata, name)
        _bind(binding, "ClusterRole", name, entry)
        yield binding
    for where, entry in document["roleBindings"].items():
        namespace, _, name = where.partition("/")
        local = rbac.RoleBinding()
        _head(local.metadata, name, namespace)
        _bind(local, "Role", name, entry)
        yield local


def _head(metadata: Any, name: str, namespace: str = "") -> None:
    metadata.name, metadata.namespace = name, namespace
    metadata.labels[_LABEL] = "rbac-defaults"
    metadata.annotations[AUTOUPDATE] = "true"


def _bind(binding: BindingObject, kind: str, name: str, entry: Mapping[str, Any]) -> None:
    binding.roleRef.apiGroup, binding.roleRef.kind = GROUP, kind
    binding.roleRef.name = entry.get("role", name)
    for text in entry["subjects"]:
        sort, _, who = text.partition(":")
        if sort == "account":
            namespace, _, account = who.partition("/")
            binding.subjects.add(kind="ServiceAccount", namespace=namespace, name=account)
        else:
            binding.subjects.add(kind=sort.capitalize(), apiGroup=GROUP, name=who)


def reconciled(wanted: RoleObject | BindingObject, found: RoleObject | BindingObject) -> Any:
    """Return what a stored object should become: itself with what is missing of `wanted`.

    A binding to another role cannot be brought up to date: see :func:`refers_elsewhere`.
    """
    new: Any = type(found)()
    new.CopyFrom(found)
    if found.metadata.annotations.get(AUTOUPDATE) == "false":
        return new
    _add_missing(new.metadata.labels, wanted.metadata.labels)
    _add_missing(new.metadata.annotations, wanted.metadata.annotations)
    if isinstance(wanted, rbac.ClusterRoleBinding | rbac.RoleBinding):
        known = {_subject(subject) for subject in new.subjects}
        new.subjects.extend(subject for subject in wanted.subjects if _subject(subject) not in known)
        return new
    if isinstance(wanted, rbac.ClusterRole) and wanted.HasField("aggregationRule"):
        selectors = new.aggregationRule.clusterRoleSelectors
        mine = [selector for selector in wanted.aggregationRule.clusterRoleSelectors if selector not in selectors]
        selectors.extend(mine)
        return new
    missing = uncovered(of_messages(new.rules), of_messages(wanted.rules))
    new.rules.extend(rule.to_message() for rule in missing)
    return new


def refers_elsewhere(wanted: BindingObject, found: BindingObject) -> bool:
    """Whether a stored binding is to another role than it should be, which only making it anew can change."""
    if found.metadata.annotations.get(AUTOUPDATE) == "false":
        return False
    return (wanted.roleRef.kind, wanted.roleRef.name) != (found.roleRef.kind, found.roleRef.name)


def _add_missing(own: Any, wanted: Mapping[str, str]) -> None:
    for name, value in wanted.items():
        if name not in own:
            own[name] = value


def _subject(subject: rbac.Subject) -> Sequence[str]:
    return (subject.kind, subject.apiGroup, subject.namespace, subject.name)
