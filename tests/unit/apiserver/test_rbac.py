"""Roles, bindings and what follows from them, without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.apiserver.auth import bootstrap_roles
from controlplane.apiserver.auth.attributes import Attributes, of_request
from controlplane.apiserver.auth.authorizer import Authorizers
from controlplane.apiserver.auth.escalation import Escalation
from controlplane.apiserver.auth.policy import EVERYTHING, Rule, compacted, uncovered
from controlplane.apiserver.auth.rbac import RBAC
from controlplane.apiserver.auth.rolebook import RoleBook
from controlplane.apiserver.request import Request, User
from controlplane.controllers.role_aggregation import rules_for
from wharfinger.api import codec, kinds, validation
from wharfinger.api.errors import ForbiddenError
from wharfinger.api.types import core, rbac


class FakeCache:
    """As much of the watch cache as the role book needs."""

    def __init__(self, *objects: Any) -> None:
        self.entries: dict[str, Any] = {}
        self.listeners: list[tuple[str, Any]] = []
        for obj in objects:
            self.put(obj)

    def put(self, obj: Any) -> None:
        key = kinds.of(obj).etcd_key(obj.metadata.name, obj.metadata.namespace)
        self.entries[key] = SimpleNamespace(key=key, decoded=obj)
        self._tell(key)

    def remove(self, obj: Any) -> None:
        key = kinds.of(obj).etcd_key(obj.metadata.name, obj.metadata.namespace)
        del self.entries[key]
        self._tell(key)

    def _tell(self, key: str) -> None:
        for prefix, changed in self.listeners:
            if key.startswith(prefix):
                changed(key)

    def listen(self, prefix: str, changed: Any) -> None:
        self.listeners.append((prefix, changed))
        changed(prefix)

    def get(self, key: str) -> Any:
        return self.entries.get(key)

    def list(self, prefix: str) -> Any:
        return SimpleNamespace(entries=[entry for key, entry in self.entries.items() if key.startswith(prefix)])


def _role(name: str, *rules: dict[str, Any], namespace: str = "dev", cluster: bool = False) -> Any:
    metadata = {"name": name} if cluster else {"name": name, "namespace": namespace}
    return codec.from_json(
        {"metadata": metadata, "rules": list(rules)}, rbac.ClusterRole if cluster else rbac.Role
    ).message


def _binding(name: str, role: Any, *subjects: dict[str, str], namespace: str = "") -> Any:
    kind = type(role).DESCRIPTOR.name
    made: Any = codec.from_json(
        {
            "metadata": {"name": name, "namespace": namespace},
            "subjects": list(subjects),
            "roleRef": {"kind": kind, "name": role.metadata.name},
        },
        rbac.RoleBinding if namespace else rbac.ClusterRoleBinding,
    ).message
    return made


_PODS = _role("pods", {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]})
_NAMED = _role("named", {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get"]})
_ALL = _role(
    "all",
    {"apiGroups": ["*"], "resources": ["*/scale"], "verbs": ["*"]},
    {"nonResourceURLs": ["/logs/*", "/metrics"], "verbs": ["get"]},
    cluster=True,
)
_CACHE_OBJECTS = (
    _PODS,
    _NAMED,
    _ALL,
    _binding("b1", _PODS, {"kind": "User", "name": "jane"}, namespace="dev"),
    _binding("b2", _NAMED, {"kind": "Group", "name": "devs"}, namespace="dev"),
    _binding("b3", _ALL, {"kind": "ServiceAccount", "name": "bot", "namespace": "dev"}),
)
_JANE, _DEV = User("jane"), User("joe", ("devs",))
_BOT = User("system:serviceaccount:dev:bot", ("system:serviceaccounts",))


def _ask(user: User, verb: str, resource: str, name: str = "", namespace: str = "dev", group: str = "") -> Attributes:
    resource, _, subresource = resource.partition("/")
    return Attributes(user, verb, group, resource, subresource, namespace, name)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (_ask(_JANE, "get", "pods", "x"), 'RoleBinding "b1/dev" of Role "pods" to User "jane"'),
        (_ask(_JANE, "get", "pods/log", "x"), 'RoleBinding "b1/dev" of Role "pods" to User "jane"'),
        (_ask(_JANE, "get", "pods/exec", "x"), ""),
        (_ask(_JANE, "delete", "pods", "x"), ""),
        (_ask(_JANE, "get", "pods", "x", namespace="other"), ""),
        (_ask(_JANE, "list", "pods", namespace=""), ""),
        (_ask(_JANE, "get", "pods", "x", group="apps"), ""),
        (_ask(_DEV, "get", "secrets", "a"), 'RoleBinding "b2/dev" of Role "named" to Group "devs"'),
        (_ask(_DEV, "get", "secrets", "c"), ""),
        (_ask(_DEV, "get", "secrets"), ""),
        (
            _ask(_BOT, "patch", "deployments/scale", "x", group="apps"),
            'ClusterRoleBinding "b3" of ClusterRole "all" to ServiceAccount "bot/dev"',
        ),
        (_ask(_BOT, "patch", "deployments", "x", group="apps"), ""),
        (
            Attributes(_BOT, "get", path="/logs/kern"),
            'ClusterRoleBinding "b3" of ClusterRole "all" to ServiceAccount "bot/dev"',
        ),
        (Attributes(_BOT, "post", path="/metrics"), ""),
        (Attributes(_BOT, "get", path="/metrics/slis"), ""),
    ],
)
def test_decisions(asked: Attributes, reason: str) -> None:
    rights = RBAC(RoleBook(FakeCache(*_CACHE_OBJECTS)))  # type: ignore[arg-type]
    for _ in range(2):  # worked out, and remembered
        verdict = rights.authorize(asked)
        assert (verdict.allowed, verdict.reason) == ((True, f"RBAC: allowed by {reason}") if reason else (None, ""))


def test_changes_hold_at_once() -> None:
    cache = FakeCache(*_CACHE_OBJECTS)
    rights = RBAC(RoleBook(cache))  # type: ignore[arg-type]
    asked = _ask(_JANE, "get", "pods", "x")
    assert rights.authorize(asked).allowed
    cache.remove(_PODS)
    verdict = rights.authorize(asked)
    assert (verdict.allowed, verdict.reason) == (None, 'RBAC: role.rbac.authorization.k8s.io "pods" not found')
    cache.put(_PODS)
    assert rights.authorize(asked).allowed
    cache.remove(_binding("b1", _PODS, namespace="dev"))
    assert not rights.authorize(asked).allowed


def test_a_watch_of_one_name_is_about_that_object() -> None:
    rights = Authorizers([RBAC(RoleBook(FakeCache(*_CACHE_OBJECTS)))])  # type: ignore[arg-type]
    rule = _role("watch", {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["watch"]})
    cache = FakeCache(rule, _binding("w", rule, {"kind": "User", "name": "jane"}, namespace="dev"))
    rights = Authorizers([RBAC(RoleBook(cache))])  # type: ignore[arg-type]
    for selector, allowed in (("metadata.name=a", True), ("metadata.name=b", False), ("metadata.name!=a", False)):
        request = Request(_JANE, "watch", kinds.of(core.Secret), "dev", field_selector=selector)
        assert bool(rights.decide(of_request(request)).allowed) is allowed


@pytest.mark.parametrize(
    ("owned", "wanted", "missing"),
    [
        (EVERYTHING, [Rule(("get",), ("",), ("pods",)), Rule(("get",), urls=("/x",))], 0),
        ([Rule(("get", "list"), ("", "apps"), ("pods", "jobs"))], [Rule(("list",), ("apps",), ("pods",))], 0),
        ([Rule(("get",), ("",), ("pods",))], [Rule(("get", "list"), ("",), ("pods", "secrets"))], 3),
        ([Rule(("get",), ("",), ("pods",), ("a",))], [Rule(("get",), ("",), ("pods",))], 1),
        ([Rule(("get",), ("",), ("pods",), ("a",))], [Rule(("get",), ("",), ("pods",), ("a", "b"))], 1),
        ([Rule(("get",), ("",), ("*/scale",))], [Rule(("get",), ("",), ("x/scale", "x"))], 1),
        ([Rule(("*",), ("",), ("pods",))], [Rule(("*",), ("*",), ("pods",))], 1),
        ([Rule(("get",), urls=("/logs/*",))], [Rule(("get",), urls=("/logs/a", "/log"))], 1),
    ],
)
def test_what_one_may_give_away(owned: list[Rule], wanted: list[Rule], missing: int) -> None:
    assert len(uncovered(owned, wanted)) == missing


def _many(count: int, letter: str) -> tuple[str, ...]:
    return tuple(f"{letter}{number}" for number in range(count))


def test_rules_of_very_many_parts_are_not_taken_apart() -> None:
    # 10^12 parts in a few kilobytes: taking them apart would stop the server for days.
    huge = Rule(_many(1000, "v"), _many(1000, "g"), _many(1000, "r"), _many(1000, "n"))
    read = Rule(("get",), ("",), ("pods",))
    assert uncovered([read], [huge, read]) == [huge]
    assert uncovered([Rule(("*",), ("*",), ("*",))], [huge]) == []
    assert uncovered([huge], [huge]) == []
    assert uncovered([Rule(*(_many(1000, letter) for letter in "vgr"), _many(999, "n"))], [huge]) == [huge]


def test_rules_for_reading_are_joined() -> None:
    parts = uncovered([], [Rule(("get", "list"), ("",), ("pods",))])
    assert [rule.compact() for rule in compacted(parts)] == [
        '{APIGroups:[""], Resources:["pods"], Verbs:["get", "list"]}'
    ]


def test_default_roles_stay_what_they_are_and_get_what_they_lack() -> None:
    roles = {role.metadata.name: role for role in bootstrap_roles.roles() if isinstance(role, rbac.ClusterRole)}
    for role in roles.values():
        assert bootstrap_roles.reconciled(role, role) == role
    changed = rbac.ClusterRole()
    changed.CopyFrom(roles["system:discovery"])
    del changed.rules[:]
    changed.rules.add(verbs=["get"], apiGroups=["acme.io"], resources=["things"])
    mended = bootstrap_roles.reconciled(roles["system:discovery"], changed)
    assert mended.rules[0].apiGroups == ["acme.io"]
    assert len(mended.rules) > 1
    changed.metadata.annotations[bootstrap_roles.AUTOUPDATE] = "false"
    assert bootstrap_roles.reconciled(roles["system:discovery"], changed) == changed


def test_default_bindings_are_to_roles_that_are_there() -> None:
    names = {
        (type(role).DESCRIPTOR.name, role.metadata.namespace, role.metadata.name) for role in bootstrap_roles.roles()
    }
    for binding in bootstrap_roles.bindings():
        namespace = binding.metadata.namespace if binding.roleRef.kind == "Role" else ""
        assert (binding.roleRef.kind, namespace, binding.roleRef.name) in names


def test_daemons_have_what_they_need_and_no_more() -> None:
    cache = FakeCache(*bootstrap_roles.roles(), *bootstrap_roles.bindings())
    rights = Authorizers([RBAC(RoleBook(cache))])  # type: ignore[arg-type]

    def may(user: str, verb: str, resource: str, namespace: str = "default", group: str = "", name: str = "x") -> bool:
        return bool(rights.decide(_ask(User(user), verb, resource, name, namespace, group)).allowed)

    scheduler, manager = "system:kube-scheduler", "system:kube-controller-manager"
    assert may(scheduler, "create", "pods/binding")
    assert may(scheduler, "update", "leases", "kube-system", "coordination.k8s.io", "kube-scheduler")
    assert not may(scheduler, "update", "leases", "default", "coordination.k8s.io", "other")
    assert not may(scheduler, "create", "pods")
    assert not may(scheduler, "get", "secrets")
    assert may(manager, "create", "pods")
    assert may(manager, "delete", "things", group="acme.io")
    assert may(manager, "escalate", "clusterroles", "", "rbac.authorization.k8s.io")
    assert not may(manager, "create", "clusterrolebindings", "", "rbac.authorization.k8s.io")


def test_the_sum_of_roles() -> None:
    def part(name: str, label: str, *resources: str) -> rbac.ClusterRole:
        made: rbac.ClusterRole = _role(
            name, *({"apiGroups": [""], "resources": [one], "verbs": ["get"]} for one in resources), cluster=True
        )
        made.metadata.labels[label] = "true"
        return made

    total = rbac.ClusterRole()
    total.metadata.name = "sum"
    for label in ("two", "one"):
        total.aggregationRule.clusterRoleSelectors.add(matchLabels={label: "true"})
    roles = [part("b", "one", "pods", "secrets"), part("a", "one", "nodes"), part("c", "two", "pods"), total]
    assert [rule.resources[0] for rule in rules_for(total, roles)] == ["pods", "nodes", "secrets"]


@pytest.mark.parametrize(
    ("namespace", "kind"), [("dev", "clusterrole"), ("dev", ""), ("", "Role"), ("", "clusterrole")]
)
def test_a_binding_to_what_is_no_kind_of_role_is_left_to_validation(namespace: str, kind: str) -> None:
    """It names the field and what would be right, where a search for such a role could only say 404."""
    everything = _role("all", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, cluster=True)
    book = RoleBook(FakeCache(everything))  # type: ignore[arg-type]
    binding = _binding("b", everything, {"kind": "User", "name": "jane"}, namespace=namespace)
    request = Request(User("jane"), "create", kinds.of(binding), namespace, "b")
    step = Escalation(Authorizers([RBAC(book)]), book)
    with pytest.raises(ForbiddenError):
        step.admit(request, binding, None)
    binding.roleRef.kind = kind
    assert step.admit(request, binding, None) is None
    assert any(cause.field == "roleRef.kind" for cause in validation.validate_create(binding))
