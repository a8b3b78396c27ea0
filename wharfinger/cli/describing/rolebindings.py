"""RoleBindings and ClusterRoleBindings: which role, and who has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.api.types import rbac
from wharfinger.cli.describing import common

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client


async def describe(client: Client, obj: rbac.RoleBinding | rbac.ClusterRoleBinding, out: Layout) -> None:
    """Write a binding."""
    out.field(0, "Name", obj.metadata.name)
    common.labels_and_annotations(out, obj.metadata)
    common.deletion(out, obj.metadata)
    out.line(0, "Role:")
    out.field(1, "Kind", obj.roleRef.kind)
    out.field(1, "Name", obj.roleRef.name)
    out.line(0, "Subjects:")
    out.line(1, "Kind", "Name", "Namespace")
    out.line(1, "----", "----", "---------")
    for subject in obj.subjects:
        out.line(1, subject.kind, subject.name, subject.namespace)
