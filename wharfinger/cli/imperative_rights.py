"""Roles, bindings and quotas without a file: ``wharf create role reader --verb=get,list --resource=pods``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wharfinger.cli.failures import CommandError
from wharfinger.cli.reporting import needs
from wharfinger.cli.targets import find_kind

Flags = Mapping[str, Any]

_API = "rbac.authorization.k8s.io"
_VERSION = f"{_API}/v1"


def split(values: Iterable[str]) -> list[str]:
    """Return the values of a flag that may be repeated or hold several with commas between, each once."""
    return list(dict.fromkeys(part for value in values for part in value.split(",") if part))


def role(name: str, flags: Flags) -> dict[str, Any]:
    """Make a Role."""
    return {"apiVersion": _VERSION, "kind": "Role", "metadata": {"name": name}, "rules": _rules(flags)}


def cluster_role(name: str, flags: Flags) -> dict[str, Any]:
    """Make a ClusterRole: of rules, of paths, or as the sum of others."""
    document: dict[str, Any] = {"apiVersion": _VERSION, "kind": "ClusterRole", "metadata": {"name": name}}
    if labels := split(flags["aggregation_rules"]):
        needs(not flags["verbs"], "--aggregation-rule and --verb may not be given together: the sum has no own rules")
        matching = dict(_pair(label, "--aggregation-rule") for label in labels)
        return {**document, "rules": [], "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": matching}]}}
    urls = split(flags["non_resource_urls"])
    rules = _rules(flags) if flags["resources"] or not urls else []
    if urls:
        verbs = split(flags["verbs"])
        needs(bool(verbs), "at least one verb must be specified")
        rules.append({"verbs": verbs, "nonResourceURLs": urls})
    return {**document, "rules": rules}


def _rules(flags: Flags) -> list[dict[str, Any]]:
    """Return a rule for each API group that resources are of."""
    verbs, wanted = split(flags["verbs"]), split(flags["resources"])
    needs(bool(verbs), "at least one verb must be specified")
    needs(bool(wanted), "at least one resource must be specified")
    names = split(flags["resource_names"])
    by_group: dict[str, list[str]] = {}
    for text in wanted:
        word, _, subresource = text.partition("/")
        group, resource = _resource(word)
        by_group.setdefault(group, []).append(f"{resource}/{subresource}" if subresource else resource)
    return [
        {"verbs": verbs, "apiGroups": [group], "resources": resources, **({"resourceNames": names} if names else {})}
        for group, resources in by_group.items()
    ]


def _resource(word: str) -> tuple[str, str]:
    if word == "*":
        return "*", "*"
    try:
        kind = find_kind(word)
    except CommandError:
        name, _, group = word.partition(".")
        return group, name  # rights may be about what this server does not have
    return kind.group, kind.resource


def role_binding(name: str, flags: Flags) -> dict[str, Any]:
    """Make a RoleBinding."""
    needs(bool(flags["role"]) != bool(flags["clusterrole"]), "exactly one of clusterrole or role must be specified")
    kind = "Role" if flags["role"] else "ClusterRole"
    return _binding("RoleBinding", name, kind, flags["role"] or flags["clusterrole"], flags)


def cluster_role_binding(name: str, flags: Flags) -> dict[str, Any]:
    """Make a ClusterRoleBinding."""
    needs(bool(flags["clusterrole"]), 'required flag(s) "clusterrole" not set')
    return _binding("ClusterRoleBinding", name, "ClusterRole", flags["clusterrole"], flags)


def _binding(kind: str, name: str, role_kind: str, role_name: str, flags: Flags) -> dict[str, Any]:
    subjects: list[dict[str, str]] = []
    for word, values in (("User", flags["users"]), ("Group", flags["groups"])):
        subjects += [{"kind": word, "apiGroup": _API, "name": value} for value in split(values)]
    for text in split(flags["serviceaccounts"]):
        namespace, colon, account = text.partition(":")
        needs(bool(colon and namespace and account), "serviceaccount must be <namespace>:<name>")
        subjects.append({"kind": "ServiceAccount", "namespace": namespace, "name": account})
    return {
        "apiVersion": _VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "subjects": subjects,
        "roleRef": {"apiGroup": _API, "kind": role_kind, "name": role_name},
    }


def quota(name: str, flags: Flags) -> dict[str, Any]:
    """Make a ResourceQuota."""
    hard = dict(_pair(text, "--hard") for text in split(flags["hard"]))
    scopes = split(flags["scopes"])
    spec: dict[str, Any] = {**({"hard": hard} if hard else {}), **({"scopes": scopes} if scopes else {})}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec}


def _pair(text: str, flag: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    needs(bool(key and equals), f"invalid argument {text!r} for {flag}: expected key=value")
    return key, value
