"""Roles and their bindings. Rules: "Using RBAC Authorization" in Kubernetes' documentation.

Their names may hold colons and capitals: only what would break a path is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.api.types import rbac
from wharfinger.api.validation import metadata, names
from wharfinger.api.validation.common import label_selector, one_of
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules

GROUP = "rbac.authorization.k8s.io"


def _rules(rules: Sequence[rbac.PolicyRule], errors: Errors, *, namespaced: bool) -> None:
    for index, rule in enumerate(rules):
        path = f"rules[{index}]"
        if not rule.verbs:
            errors.required(f"{path}.verbs", "verbs must contain at least one value")
        if rule.nonResourceURLs:
            urls = list(rule.nonResourceURLs)
            if namespaced:
                errors.invalid(f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
            if rule.apiGroups or rule.resources or rule.resourceNames:
                errors.invalid(f"{path}.nonResourceURLs", urls, "rules cannot apply to both regular resources and URLs")
            continue
        if not rule.apiGroups:
            errors.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.resources:
            errors.required(f"{path}.resources", "resource rules must supply at least one resource")


def _create_role(role: rbac.Role, errors: Errors) -> None:
    metadata.validate_kind(role.metadata, errors, namespaced=True, name=names.path_segment)
    _rules(role.rules, errors, namespaced=True)


def _update_role(role: rbac.Role, old: rbac.Role, errors: Errors) -> None:
    _create_role(role, errors)
    metadata.validate_kind_update(role.metadata, old.metadata, errors)


def _create_cluster_role(role: rbac.ClusterRole, errors: Errors) -> None:
    metadata.validate_kind(role.metadata, errors, namespaced=False, name=names.path_segment)
    _rules(role.rules, errors, namespaced=False)
    if role.HasField("aggregationRule"):
        path = "aggregationRule.clusterRoleSelectors"
        selectors = role.aggregationRule.clusterRoleSelectors
        if not selectors:
            errors.required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
        for index, selector in enumerate(selectors):
            label_selector(selector, errors, f"{path}[{index}]")


def _update_cluster_role(role: rbac.ClusterRole, old: rbac.ClusterRole, errors: Errors) -> None:
    _create_cluster_role(role, errors)
    metadata.validate_kind_update(role.metadata, old.metadata, errors)


def _reference(reference: rbac.RoleRef, errors: Errors, kinds: tuple[str, ...]) -> None:
    if reference.apiGroup != GROUP:
        errors.not_supported("roleRef.apiGroup", reference.apiGroup, (GROUP,))
    one_of(errors, "roleRef.kind", reference.kind, kinds)
    if not reference.name:
        errors.required("roleRef.name")
    else:
        errors.complaints("roleRef.name", reference.name, names.path_segment(reference.name))


def _subjects(subjects: Sequence[rbac.Subject], errors: Errors, *, namespaced: bool) -> None:
    for index, subject in enumerate(subjects):
        path = f"subjects[{index}]"
        if not subject.name:
            errors.required(f"{path}.name")
        if subject.kind == "ServiceAccount":
            if subject.name:
                errors.complaints(f"{path}.name", subject.name, names.dns1123_subdomain(subject.name))
            if subject.apiGroup:
                errors.not_supported(f"{path}.apiGroup", subject.apiGroup, ("",))
            if not namespaced and not subject.namespace:
                errors.required(f"{path}.namespace")
        elif subject.kind in ("User", "Group"):
            if subject.apiGroup != GROUP:
                errors.not_supported(f"{path}.apiGroup", subject.apiGroup, (GROUP,))
        else:
            errors.not_supported(f"{path}.kind", subject.kind, ("ServiceAccount", "User", "Group"))


def _create_binding(binding: rbac.RoleBinding, errors: Errors) -> None:
    metadata.validate_kind(binding.metadata, errors, namespaced=True, name=names.path_segment)
    _reference(binding.roleRef, errors, ("Role", "ClusterRole"))
    _subjects(binding.subjects, errors, namespaced=True)


def _update_binding(binding: rbac.RoleBinding, old: rbac.RoleBinding, errors: Errors) -> None:
    _create_binding(binding, errors)
    metadata.validate_kind_update(binding.metadata, old.metadata, errors)
    _same_role(binding.roleRef, old.roleRef, errors)


def _create_cluster_binding(binding: rbac.ClusterRoleBinding, errors: Errors) -> None:
    metadata.validate_kind(binding.metadata, errors, namespaced=False, name=names.path_segment)
    _reference(binding.roleRef, errors, ("ClusterRole",))
    _subjects(binding.subjects, errors, namespaced=False)


def _update_cluster_binding(binding: rbac.ClusterRoleBinding, old: rbac.ClusterRoleBinding, errors: Errors) -> None:
    _create_cluster_binding(binding, errors)
    metadata.validate_kind_update(binding.metadata, old.metadata, errors)
    _same_role(binding.roleRef, old.roleRef, errors)


def _same_role(new: rbac.RoleRef, old: rbac.RoleRef, errors: Errors) -> None:
    if (new.apiGroup, new.kind, new.name) != (old.apiGroup, old.kind, old.name):
        errors.invalid("roleRef", f"{new.kind}/{new.name}", "cannot change roleRef")


RULES = {
    rbac.Role: Rules(create=_create_role, update=_update_role),
    rbac.ClusterRole: Rules(create=_create_cluster_role, update=_update_cluster_role),
    rbac.RoleBinding: Rules(create=_create_binding, update=_update_binding),
    rbac.ClusterRoleBinding: Rules(create=_create_cluster_binding, update=_update_cluster_binding),
}
