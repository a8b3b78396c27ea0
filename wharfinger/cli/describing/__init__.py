"""What ``wharf describe`` shows of each kind: one module a kind, one line in the table; others in a general form.

A describer gets the object and everything it needs from the API as :class:`Source`, and writes into a
:class:`~wharfinger.cli.describing.layout.Layout`.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wharfinger.api.kinds import Kind
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client

Describer = Callable[["Client", Any, "Layout"], Awaitable[None]]

_DESCRIBERS: dict[tuple[str, str], str] = {
    ("", "Pod"): "pods",
    ("", "Node"): "nodes",
    ("", "Namespace"): "namespaces",
    ("", "Service"): "services",
    ("apps", "ReplicaSet"): "replicasets",
    ("apps", "Deployment"): "deployments",
    ("", "Secret"): "secrets",
    ("", "ConfigMap"): "configmaps",
    ("", "ServiceAccount"): "serviceaccounts",
    ("policy", "PodDisruptionBudget"): "budgets",
    ("rbac.authorization.k8s.io", "Role"): "roles",
    ("rbac.authorization.k8s.io", "ClusterRole"): "roles",
    ("rbac.authorization.k8s.io", "RoleBinding"): "rolebindings",
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): "rolebindings",
}


def describer_for(kind: Kind) -> Describer:
    """Return the describer of a kind."""
    module = _DESCRIBERS.get((kind.group, kind.kind), "generic")
    found: Describer = importlib.import_module(f"{__name__}.{module}").describe
    return found
