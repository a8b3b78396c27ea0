from __future__ import annotations

from typing import Any

import pytest

from tests.support.rules import build, creating, updating

NAMED: dict[str, Any] = {"metadata": {"name": "x"}}


def _crd(**spec: Any) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object"}}
    body = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "ships", "singular": "ship", "kind": "Ship", "listKind": "ShipList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        **spec,
    }
    return {"metadata": {"name": "ships.example.com"}, "spec": body}


CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("v1 ConfigMap", {**NAMED, "data": {"a/b": "x"}}, ["data[a/b] Invalid"]),
    ("v1 ConfigMap", {**NAMED, "data": {"a": "x"}, "binaryData": {"a": "eA=="}}, ["data[a] Invalid"]),
    ("v1 ConfigMap", {**NAMED, "data": {"a": "x" * (1 << 20), "b": "y"}}, ["[] TooLong"]),
    ("v1 Secret", {**NAMED, "type": "kubernetes.io/tls"}, ["data[tls.crt] Required", "data[tls.key] Required"]),
    (
        "v1 Secret",
        {**NAMED, "type": "kubernetes.io/basic-auth"},
        ["data[username] Required", "data[password] Required"],
    ),
    ("v1 Namespace", {"metadata": {"name": "a.b"}}, ["metadata.name Invalid"]),
    ("v1 Node", {**NAMED, "spec": {"podCIDR": "10.0.0.0"}}, ["spec.podCIDRs[0] Invalid"]),
    (
        "v1 Node",
        {**NAMED, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}},
        ["metadata.taints[1] Duplicate"],
    ),
    (
        "coordination.k8s.io/v1 Lease",
        {**NAMED, "spec": {"leaseDurationSeconds": 0}},
        ["spec.leaseDurationSeconds Invalid"],
    ),
    (
        "scheduling.k8s.io/v1 PriorityClass",
        {"metadata": {"name": "system-x"}, "value": 1},
        ["metadata.name Forbidden"],
    ),
    ("scheduling.k8s.io/v1 PriorityClass", {**NAMED, "value": 2_000_000_000}, ["value Forbidden"]),
    (
        "rbac.authorization.k8s.io/v1 Role",
        {**NAMED, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": []}]},
        ["rules[0].verbs Required"],
    ),
    (
        "rbac.authorization.k8s.io/v1 ClusterRoleBinding",
        {**NAMED, "roleRef": {"apiGroup": "", "kind": "Role", "name": "r"}},
        ["roleRef.kind NotSupported"],
    ),
    (
        "policy/v1 PodDisruptionBudget",
        {**NAMED, "spec": {"minAvailable": 1, "maxUnavailable": 1}},
        ["spec Invalid"],
    ),
    ("storage.k8s.io/v1 StorageClass", NAMED, ["provisioner Required"]),
    ("node.k8s.io/v1 RuntimeClass", {**NAMED, "handler": "A_"}, ["handler Invalid"]),
    ("apiextensions.k8s.io/v1 CustomResourceDefinition", _crd(), []),
    (
        "apiextensions.k8s.io/v1 CustomResourceDefinition",
        _crd(scope="Global"),
        ["spec.scope NotSupported"],
    ),
]


@pytest.mark.parametrize(("kind", "body", "causes"), CASES)
def test_new_objects(kind: str, body: dict[str, Any], causes: list[str]) -> None:
    assert creating(build(kind, body)) == causes


def test_immutable_configuration_stays() -> None:
    for kind in ("v1 ConfigMap", "v1 Secret"):
        config = build(kind, {**NAMED, "immutable": True, "data": {"a": "eA=="}})
        assert updating(config, lambda new: new.data.clear()) == ["data Forbidden"]
        assert updating(config, lambda new: new.ClearField("immutable")) == ["immutable Forbidden"]
        assert updating(config, lambda new: new.metadata.labels.update({"a": "b"})) == []


def test_roles_of_bindings_stay() -> None:
    body = {**NAMED, "roleRef": {"apiGroup": "", "kind": "Role", "name": "r"}}
    binding = build("rbac.authorization.k8s.io/v1 RoleBinding", body)
    assert updating(binding, lambda new: setattr(new.roleRef, "name", "s")) == ["roleRef Invalid"]


def test_values_of_priorities_stay() -> None:
    priority = build("scheduling.k8s.io/v1 PriorityClass", {**NAMED, "value": 5})
    assert updating(priority, lambda new: setattr(new, "value", 6)) == ["value Forbidden"]
    assert updating(priority, lambda new: setattr(new, "description", "more")) == []


def test_statuses_of_nodes_are_written_freely() -> None:
    node = build("v1 Node", {**NAMED, "status": {"capacity": {"cpu": "4"}}})

    def report(new: Any) -> None:
        new.status.capacity["cpu"].string = "8"
        new.status.conditions.add(type="Ready", status="True")

    assert updating(node, report, "status") == []


def test_a_node_keeps_its_addresses_of_pods() -> None:
    node = build("v1 Node", {**NAMED, "spec": {"podCIDR": "10.0.0.0/24"}})

    def move(new: Any) -> None:
        new.spec.podCIDR = "10.0.1.0/24"
        new.spec.podCIDRs[:] = ["10.0.1.0/24"]

    assert updating(node, move) != []


def test_the_scope_of_an_established_definition_stays() -> None:
    definition = build("apiextensions.k8s.io/v1 CustomResourceDefinition", _crd())
    assert updating(definition, lambda new: setattr(new.spec, "scope", "Cluster")) == []
    definition.status.conditions.add(type="Established", status="True")
    assert "spec.scope Invalid" in updating(definition, lambda new: setattr(new.spec, "scope", "Cluster"))


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"resourceAttributes": {"verb": "get"}}, []),
        ({}, ["spec.resourceAttributes Invalid"]),
        (
            {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/", "verb": "get"}},
            ["spec.nonResourceAttributes Invalid"],
        ),
        (
            {"resourceAttributes": {"verb": "list", "fieldSelector": {}}},
            ["spec.resourceAttributes.fieldSelector.requirements Required"],
        ),
    ],
)
def test_access_reviews(spec: dict[str, Any], causes: list[str]) -> None:
    kind = "authorization.k8s.io/v1 SelfSubjectAccessReview"
    assert creating(build(kind, {"spec": spec})) == causes
    assert creating(build("authorization.k8s.io/v1 SubjectAccessReview", {"spec": {"user": "u", **spec}})) == causes
    assert "spec.user Invalid" in creating(build("authorization.k8s.io/v1 SubjectAccessReview", {"spec": spec}))
