"""Roles and ClusterRoles: what they allow, a resource or path a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wharfinger.api.types import rbac
from wharfinger.cli.describing import common
from wharfinger.cli.rights import HEADER, Rows, add_verbs, qualified

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client


async def describe(client: Client, obj: rbac.Role | rbac.ClusterRole, out: Layout) -> None:
    """Write a role's rules."""
    out.field(0, "Name", obj.metadata.name)
    common.labels_and_annotations(out, obj.metadata)
    common.deletion(out, obj.metadata)
    out.line(0, "PolicyRule:")
    out.line(1, *HEADER)
    out.line(1, *("-" * len(name) for name in HEADER))
    for row in rows(obj.rules):
        out.line(1, *row)


def rows(rules: Sequence[rbac.PolicyRule]) -> list[tuple[str, str, str, str]]:
    """Return a line for each resource, or path, with all verbs that some rule allows there."""
    found: Rows = {}
    for rule in rules:
        names = [f"[{name}]" for name in rule.resourceNames] or ["[]"]
        for group in rule.apiGroups:
            for resource in rule.resources:
                for name in names:
                    add_verbs(found, (qualified(resource, group), "[]", name), rule.verbs)
        for url in rule.nonResourceURLs:
            add_verbs(found, ("", f"[{url}]", "[]"), rule.verbs)
    return [(*key, f"[{' '.join(found[key])}]") for key in sorted(found, key=_order)]


def _order(key: tuple[str, str, str]) -> tuple[bool, str, tuple[str, str, str]]:
    """Resources of the core group come first, then the others group by group, paths last."""
    resource = key[0]
    return (not resource, resource.partition("/")[0].partition(".")[2], key)
