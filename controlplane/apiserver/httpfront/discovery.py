"""What is served: the legacy documents (one a group version) and the aggregated ones (all at once).

Both are made from the kinds of the schema. The order of groups and the marks of storage versions are those of
Kubernetes: clients prefer the first group that knows a short name, and caches compare the marks.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from controlplane.apiserver.registry.conversion import CONVERSIONS
from wharfinger.api import kinds
from wharfinger.api.custom import CustomKind, versions
from wharfinger.api.types import meta

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wharfinger.api.kinds import Kind

_GROUPS = (
    "", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
    "autoscaling", "batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io",
    "storage.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io",
    "coordination.k8s.io", "node.k8s.io", "discovery.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io",
)  # fmt: skip
_ALTER = ("get", "patch", "update")
_CALL = ("create", "get")
_PROXY = ("create", "delete", "get", "patch", "update")
_SUBRESOURCES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    # name: group, version and kind of what travels (empty: the resource's own kind), verbs
    "scale": ("autoscaling", "v1", "Scale", _ALTER),
    "status": ("", "", "", _ALTER),
    "approval": ("", "", "", _ALTER),
    "ephemeralcontainers": ("", "", "", _ALTER),
    "resize": ("", "", "", _ALTER),
    "finalize": ("", "", "", ("update",)),
    "log": ("", "", "", ("get",)),
    "binding": ("", "", "Binding", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
    "exec": ("", "", "PodExecOptions", _CALL),
    "attach": ("", "", "PodAttachOptions", _CALL),
    "portforward": ("", "", "PodPortForwardOptions", _CALL),
}
"""Subresources whose handling is not built yet are named all the same: they answer with an error that says so."""


def _subresource(kind: Kind, name: str) -> tuple[str, str, str, tuple[str, ...]]:
    if name == "proxy":
        return "", "", f"{kind.kind}ProxyOptions", _PROXY
    group, version, travels, verbs = _SUBRESOURCES[name]
    return group, version, travels or kind.kind, verbs


def _subresources(kind: Kind) -> Sequence[str]:
    """Return a kind's subresources in the order in which Kubernetes names them."""
    return sorted(kind.subresources) if kind.described else kind.subresources


def _storage_hash(kind: Kind) -> str:
    """Return the mark of the version that a kind is stored in; empty for kinds that are not stored."""
    if not kind.stored:
        return ""
    if isinstance(kind, CustomKind):
        text = f"{kind.group}/{kind.storage_version}/{kind.kind}"
    else:
        stored = next(
            item
            for item in kinds.KINDS
            if item.etcd_prefix == kind.etcd_prefix and (item.group, item.version, item.resource) not in CONVERSIONS
        )
        text = f"{stored.group}/{stored.version}/{stored.kind}"
    return b64encode(sha256(text.encode()).digest()[:8]).decode()


_SINGULAR = {"Endpoints": "endpoints"}


class Discovery:
    """The documents for a set of kinds."""

    def __init__(self, served: Iterable[Kind]) -> None:
        self._kinds: dict[tuple[str, str], list[Kind]] = {}
        for kind in sorted(served, key=lambda kind: kind.resource):
            self._kinds.setdefault((kind.group, kind.version), []).append(kind)

    def groups(self) -> list[str]:
        """Return the groups in their order, without the core group."""
        known = {group for group, _ in self._kinds if group}
        return [group for group in _GROUPS if group in known] + sorted(known.difference(_GROUPS))

    def versions(self, group: str) -> list[str]:
        """Return the versions of a group, the preferred one first."""
        return sorted((version for known, version in self._kinds if known == group), key=versions.priority)

    def group_versions(self) -> list[tuple[str, str]]:
        """Return all that is served."""
        return [(group, version) for group in ("", *self.groups()) for version in self.versions(group)]

    def kinds(self, group: str, version: str) -> list[Kind]:
        """Return the kinds of a group version by name; empty when there is none."""
        return self._kinds.get((group, version), [])

    # --- legacy ---------------------------------------------------------------------------------------------------

    @staticmethod
    def api_versions(address: str) -> meta.APIVersions:
        """Return the document at /api."""
        made = meta.APIVersions(versions=["v1"])
        made.serverAddressByClientCIDRs.add(clientCIDR="0.0.0.0/0", serverAddress=address)
        return made

    def api_group(self, group: str) -> meta.APIGroup | None:
        """Return the document of one group; None when it is not served."""
        versions = self.versions(group)
        if not versions:
            return None
        made = meta.APIGroup(name=group)
        for version in versions:
            made.versions.add(groupVersion=f"{group}/{version}", version=version)
        made.preferredVersion.CopyFrom(made.versions[0])
        return made

    def api_group_list(self) -> meta.APIGroupList:
        """Return the document at /apis."""
        made = meta.APIGroupList()
        for group in self.groups():
            one = self.api_group(group)
            if one is not None:
                made.groups.append(one)
        return made

    def api_resource_list(self, group: str, version: str) -> meta.APIResourceList | None:
        """Return the document of a group version; None when it is not served."""
        found = self.kinds(group, version)
        if not found:
            return None
        made = meta.APIResourceList(groupVersion=f"{group}/{version}" if group else version)
        for kind in found:
            made.resources.append(
                meta.APIResource(
                    name=kind.resource,
                    singularName=_SINGULAR.get(kind.kind, kind.singular),
                    namespaced=kind.namespaced,
                    kind=kind.kind,
                    verbs=meta.Verbs(items=kind.verbs),
                    shortNames=kind.short_names,
                    categories=kind.categories,
                    storageVersionHash=_storage_hash(kind),
                )
            )
            for name in _subresources(kind):
                sub_group, sub_version, travels, verbs = _subresource(kind, name)
                made.resources.append(
                    meta.APIResource(
                        name=f"{kind.resource}/{name}",
                        singularName="",
                        namespaced=kind.namespaced,
                        kind=travels,
                        verbs=meta.Verbs(items=verbs),
                        group=sub_group,
                        version=sub_version,
                    )
                )
        return made

    # --- aggregated -----------------------------------------------------------------------------------------------

    def aggregated(self, api_version: str, *, core: bool) -> dict[str, Any]:
        """Return the aggregated document of the core group or of all others."""
        items = []
        for group in [""] if core else self.groups():
            versions = [
                {
                    "version": version,
                    "resources": [_aggregated_resource(kind) for kind in self.kinds(group, version)],
                    "freshness": "Current",
                }
                for version in self.versions(group)
            ]
            items.append({"metadata": {"name": group} if group else {}, "versions": versions})
        return {"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": items}


def _response_kind(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}


def _aggregated_resource(kind: Kind) -> dict[str, Any]:
    made: dict[str, Any] = {
        "resource": kind.resource,
        "responseKind": _own_kind(kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": _SINGULAR.get(kind.kind, kind.singular),
        "verbs": list(kind.verbs),
    }
    optional: tuple[tuple[str, Sequence[Any]], ...] = (
        ("shortNames", kind.short_names),
        ("categories", kind.categories),
        ("subresources", [_aggregated_subresource(kind, name) for name in _subresources(kind)]),
    )
    made.update({name: list(value) for name, value in optional if value})
    return made


def _aggregated_subresource(kind: Kind, name: str) -> dict[str, Any]:
    group, version, travels, verbs = _subresource(kind, name)
    response = _response_kind(group, version, travels) if group or travels != kind.kind else _own_kind(kind)
    return {"subresource": name, "responseKind": response, "verbs": list(verbs)}


def _own_kind(kind: Kind) -> dict[str, str]:
    """Return what answers are; as in Kubernetes, group and version are named for custom kinds alone."""
    return _response_kind("", "", kind.kind) if kind.described else _response_kind(kind.group, kind.version, kind.kind)
