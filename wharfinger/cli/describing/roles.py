"""Roles and ClusterRoles: what they allow, a resource or path a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wharfinger.api.types import rbac
from wharfinger.cli.describing import common

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client

_HEADER = ("Resources", "Non-Resource URLs", "Resource Names", "Verbs")


async def describe(client: Client, obj: rbac.Role | rbac.ClusterRole, out: Layout) -> None:
    """Write a role's rules."""
    out.field(0, "Name", obj.metadata.name)
    common.labels_and_annotations(out, obj.metadata)
    common.deletion(out, obj.metadata)
    out.line(0, "PolicyRule:")
    out.line(1, *_HEADER)
    out.line(1, *("-" * len(name) for name in _HEADER))
    for row in rows(obj.rules):
        out.line(1, *row)


def rows(rules: Sequence[rbac.PolicyRule]) -> list[tuple[str, str, str, str]]:
    """Return a line for each resource, or path, with all verbs that some rule allows there."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for rule in rules:
        names = [f"[{name}]" for name in rule.resourceNames] or ["[]"]
        for group in rule.apiGroups:
            for resource in rule.resources:
                plural, slash, subresource = resource.partition("/")
                shown = f"{plural}.{group}{slash}{subresource}" if group else resource
                for name in names:
                    _add(found, (shown, "[]", name), rule.verbs)
        for url in rule.nonResourceURLs:
            _add(found, ("", f"[{url}]", "[]"), rule.verbs)
    return [(*key, f"[{' '.join(found[key])}]") for key in sorted(found, key=_order)]


def _add(found: dict[tuple[str, str, str], list[str]], key: tuple[str, str, str], verbs: Sequence[str]) -> None:
    known = found.setdefault(key, [])
    known += [verb for verb in verbs if verb not in known]


def _order(key: tuple[str, str, str]) -> tuple[bool, str, tuple[str, str, str]]:
    """Resources of the core group come first, then the others group by group, paths last."""
    resource = key[0]
    return (not resource, resource.partition("/")[0].partition(".")[2], key)
