"""Which rule decides: kube-apiserver's way of matching, and errors that name the field."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.apiserver.audit import policy
from controlplane.apiserver.audit.policy import Level
from controlplane.apiserver.auth.attributes import Attributes
from controlplane.apiserver.request import User
from wharfinger.api import configfile
from wharfinger.api.configfile import ConfigError

HEAD = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"
ALICE = User("alice", ("devs", "system:authenticated"))


def read(text: str) -> policy.Policy:
    return policy.read(configfile.parse((HEAD + text).encode(), api_version=policy.API_VERSION, kind="Policy"))


def rule(text: str) -> policy.Policy:
    """A policy of one rule, given as flow-style fields."""
    return read(f"rules: [{{level: Metadata, {text}}}]")


def matches(text: str, verb: str = "get", resource: str = "pods", **more: str) -> bool:
    asked = Attributes(ALICE, verb, resource="" if "path" in more else resource, **more)
    return rule(text).decide(asked).level is Level.METADATA


@pytest.mark.parametrize(
    ("text", "more", "wanted"),
    [
        ("users: [alice]", {}, True),
        ("users: [bob]", {}, False),
        ("users: ['*']", {}, False),
        ("userGroups: [ops, devs]", {}, True),
        ("userGroups: [ops]", {}, False),
        ("verbs: [get]", {}, True),
        ("verbs: ['*']", {}, False),
        ("namespaces: [a]", {"namespace": "a"}, True),
        ("namespaces: [a]", {"namespace": "b"}, False),
        ("namespaces: ['']", {"resource": "nodes"}, True),
        ("namespaces: ['']", {"path": "/healthz"}, False),
        ("resources: [{group: '', resources: [pods]}]", {}, True),
        ("resources: [{resources: [pods]}]", {"subresource": "log"}, False),
        ("resources: [{resources: [pods/log]}]", {"subresource": "log"}, True),
        ("resources: [{resources: [pods/*]}]", {"subresource": "log"}, True),
        ("resources: [{resources: [pods/*]}]", {}, True),
        ("resources: [{resources: ['*/log']}]", {"subresource": "log"}, True),
        ("resources: [{resources: ['*/log']}]", {}, False),
        ("resources: [{resources: ['*']}]", {"subresource": "log"}, True),
        ("resources: [{group: apps}]", {"group": "apps", "resource": "deployments"}, True),
        ("resources: [{group: apps}]", {}, False),
        ("resources: [{resources: [pods], resourceNames: [web]}]", {"name": "web"}, True),
        ("resources: [{resources: [pods], resourceNames: [web]}]", {"name": "db"}, False),
        ("resources: [{resources: [pods], resourceNames: [web]}]", {}, False),
        ("nonResourceURLs: [/healthz]", {"path": "/healthz"}, True),
        ("nonResourceURLs: [/health*]", {"path": "/healthz/etcd"}, True),
        ("nonResourceURLs: ['*']", {"path": "/metrics"}, True),
        ("nonResourceURLs: ['*']", {}, False),
        ("nonResourceURLs: [/healthz]", {"path": "/healthz/etcd"}, False),
        ("", {"path": "/healthz"}, True),
    ],
)
def test_matching(text: str, more: dict[str, str], wanted: bool) -> None:
    assert matches(text, **more) is wanted


def test_the_first_rule_decides_and_none_means_nothing() -> None:
    found = read("rules: [{level: None, users: [alice]}, {level: Request, verbs: [get]}]")
    assert found.decide(Attributes(ALICE, "get", resource="pods")).level is Level.NONE
    assert found.decide(Attributes(User("bob"), "get", resource="pods")).level is Level.REQUEST
    assert found.decide(Attributes(User("bob"), "list", resource="pods")).level is Level.NONE


def test_stages_add_up_and_managed_fields_are_overridden() -> None:
    found = read(
        "omitStages: [RequestReceived]\nomitManagedFields: true\n"
        "rules: [{level: Metadata, omitStages: [Panic], omitManagedFields: false, verbs: [get]}, {level: Metadata}]"
    )
    got = found.decide(Attributes(ALICE, "get", resource="pods"))
    assert got.omitted == {"RequestReceived", "Panic"}
    assert not got.omit_managed_fields
    assert found.decide(Attributes(ALICE, "list", resource="pods")).omit_managed_fields


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("rules: []", "rules: "),
        ("rules: [{users: [a]}]", "rules[0].level: is required"),
        ("rules: [{level: Everything}]", "rules[0].level: 'Everything'"),
        ("rules: [{level: None}, {level: None, user: [a]}]", "rules[1].user: there is no such field"),
        ("rules: [{level: None, users: a}]", "rules[0].users: must be a list"),
        ("rules: [{level: None, users: [1]}]", "rules[0].users[0]: must be text"),
        ("rules: [{level: None, omitStages: [Begin]}]", "rules[0].omitStages[0]"),
        ("omitStages: [Begin]\nrules: [{level: None}]", "omitStages[0]"),
        ("rules: [{level: None, nonResourceURLs: [healthz]}]", "rules[0].nonResourceURLs[0]"),
        ("rules: [{level: None, nonResourceURLs: ['/*/x']}]", "rules[0].nonResourceURLs[0]"),
        ("rules: [{level: None, nonResourceURLs: [/x], namespaces: [a]}]", "rules[0].nonResourceURLs"),
        ("rules: [{level: None, resources: [{group: apps/v1}]}]", "rules[0].resources[0].group"),
        ("rules: [{level: None, resources: [{resourceNames: [a]}]}]", "rules[0].resources[0].resourceNames"),
    ],
)
def test_errors_name_the_field(text: str, path: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(text)
    assert str(raised.value).startswith(path)


def test_errors_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("apiVersion: v1\nkind: Policy\n")
    with pytest.raises(ConfigError, match=r"policy\.yaml: apiVersion: 'v1'"):
        policy.load(file)
    file.write_text(HEAD + "rules: [{level: Non}]")
    with pytest.raises(ConfigError, match=r"policy\.yaml: rules\[0\]\.level"):
        policy.load(file)


DEFAULT = Path(__file__).parents[4] / "ansible/roles/apiserver/files/audit-policy.yaml"
SCHEDULER = User("system:kube-scheduler", ("system:authenticated",))
NODE = User("system:node:n1", ("system:nodes", "system:authenticated"))


@pytest.mark.parametrize(
    ("user", "verb", "group", "resource", "more", "wanted"),
    [
        (ALICE, "create", "", "secrets", {"namespace": "a"}, Level.METADATA),
        (ALICE, "update", "", "configmaps", {"namespace": "kube-system"}, Level.METADATA),
        (ALICE, "get", "", "secrets", {"namespace": "a", "name": "s"}, Level.METADATA),
        (NODE, "get", "", "secrets", {"namespace": "a", "name": "s"}, Level.METADATA),
        (SCHEDULER, "list", "", "secrets", {}, Level.METADATA),
        (NODE, "create", "", "serviceaccounts", {"subresource": "token", "namespace": "a"}, Level.METADATA),
        (NODE, "create", "authentication.k8s.io", "tokenreviews", {}, Level.METADATA),
        (ALICE, "create", "", "pods", {"namespace": "a", "subresource": "exec"}, Level.METADATA),
        (ALICE, "create", "rbac.authorization.k8s.io", "clusterrolebindings", {}, Level.REQUEST),
        (
            ALICE,
            "update",
            "certificates.k8s.io",
            "certificatesigningrequests",
            {"subresource": "approval"},
            Level.REQUEST,
        ),
        (ALICE, "create", "certificates.k8s.io", "certificatesigningrequests", {}, Level.REQUEST),
        (ALICE, "create", "", "namespaces", {}, Level.REQUEST),
        (SCHEDULER, "update", "coordination.k8s.io", "leases", {"namespace": "kube-system"}, Level.NONE),
        (SCHEDULER, "create", "", "pods", {"subresource": "binding", "namespace": "a"}, Level.METADATA),
        (NODE, "update", "coordination.k8s.io", "leases", {"namespace": "kube-node-lease"}, Level.NONE),
        (NODE, "watch", "", "pods", {}, Level.NONE),
        (ALICE, "watch", "", "pods", {}, Level.METADATA),
        (ALICE, "get", "", "", {"path": "/readyz/etcd"}, Level.NONE),
        (ALICE, "get", "", "", {"path": "/apis/apps/v1"}, Level.NONE),
        (ALICE, "update", "", "", {"path": "/wharfinger.v1.Etcd/Compact"}, Level.METADATA),
        (ALICE, "create", "", "events", {"namespace": "a"}, Level.NONE),
    ],
)
def test_the_policy_of_the_playbooks(
    user: User, verb: str, group: str, resource: str, more: dict[str, str], wanted: Level
) -> None:
    decision = policy.load(DEFAULT).decide(Attributes(user, verb, group, resource, **more))
    assert decision.level is wanted
    assert "RequestReceived" in decision.omitted or not decision.level
