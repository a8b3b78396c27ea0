"""``wharf auth`` and ``--as``, and what ``describe`` shows of rights, against a real apiserver."""

from __future__ import annotations

import json

from tests.integration.cli.conftest import Wharf

_ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [pods, pods/log], verbs: [get, list]}
- {apiGroups: [apps], resources: [deployments], resourceNames: [web], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: Group, name: readers, apiGroup: rbac.authorization.k8s.io}]
"""
_BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
"""
_JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}
"""


def test_can_i(wharf: Wharf) -> None:
    wharf("create", "-f", "-", stdin=_ROLE)
    jane = ("--as", "jane", "--as-group", "readers")
    assert wharf("auth", "can-i", "delete", "nodes") == "yes\n"
    assert wharf("auth", "can-i", "get", "pods", *jane) == "yes\n"
    assert wharf("auth", "can-i", "get", "po/log", *jane) == "yes\n"
    assert wharf("auth", "can-i", "get", "deploy/web", *jane) == "yes\n"
    assert wharf("auth", "can-i", "get", "/version", *jane) == "yes\n"
    for question in (("delete", "pods"), ("get", "deploy/other"), ("get", "/metrics"), ("list", "pods", "-A")):
        out, _ = wharf.run("auth", "can-i", *question, *jane, code=1)
        assert out == "no\n", question
    out, err = wharf.run("auth", "can-i", "get", "gadgets.acme.io", *jane, "-q", code=1)
    assert (out, err) == ("", "Warning: the server doesn't have a resource type 'gadgets.acme.io'\n")
    lines = wharf("auth", "can-i", "--list", *jane).splitlines()
    assert lines[0].split("   ")[0] == "Resources"
    shown = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in lines[1:]]
    assert ["pods", "[]", "[]", "[get list]"] in shown
    assert ["deployments.apps", "[]", "[web]", "[get]"] in shown
    assert ["[/version]", "[]", "[get]"] in shown


def test_acting_as_another(wharf: Wharf) -> None:
    wharf("create", "-f", "-", stdin=_ROLE)
    assert wharf("get", "pods", "--as", "jane", "--as-group", "readers") == ""
    err = wharf("get", "secrets", "--as", "jane", code=1)
    assert 'User "jane" cannot list resource "secrets" in API group ""' in err
    assert "--as-group and --as-uid need --as" in wharf("get", "pods", "--as-group", "readers", code=1)
    review = json.loads(wharf("auth", "whoami", "--as", "jane", "--as-uid", "7", "-o", "json"))
    assert review["status"]["userInfo"] == {"username": "jane", "uid": "7", "groups": ["system:authenticated"]}
    lines = wharf("auth", "whoami").splitlines()
    assert lines[0].split() == ["ATTRIBUTE", "VALUE"]
    assert lines[1].split() == ["Username", "admin"]


def test_rights_without_a_file(wharf: Wharf) -> None:
    assert wharf("create", "role", "reader", "--verb=get,list", "--resource=po,pods/log,deploy") == (
        "role.rbac.authorization.k8s.io/reader created\n"
    )
    rules = json.loads(wharf("get", "role", "reader", "-o", "json"))["rules"]
    assert rules == [
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]},
        {"verbs": ["get", "list"], "apiGroups": ["apps"], "resources": ["deployments"]},
    ]
    wharf("create", "rolebinding", "reader", "--role=reader", "--user=jane", "--serviceaccount=shop:robot")
    assert wharf("auth", "can-i", "list", "pods", "--as", "jane") == "yes\n"
    robot = "system:serviceaccount:shop:robot"
    assert wharf("auth", "can-i", "list", "pods", "--as", robot) == "yes\n"
    assert "exactly one of clusterrole or role" in wharf("create", "rolebinding", "x", "--user=jane", code=1)
    wharf("create", "quota", "small", "--hard=pods=10,requests.cpu=4", "--scopes=NotTerminating")
    spec = json.loads(wharf("get", "quota", "small", "-o", "json"))["spec"]
    assert spec == {"hard": {"pods": "10", "requests.cpu": "4"}, "scopes": ["NotTerminating"]}
    shown = wharf(
        "create", "clusterrole", "sum", "--aggregation-rule=a=b", "--dry-run=client", "-o", "json",
    )  # fmt: skip
    assert json.loads(shown)["aggregationRule"] == {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}


def test_describing_rights_and_budgets(wharf: Wharf) -> None:
    wharf("create", "-f", "-", stdin=_ROLE)
    wharf("create", "-f", "-", stdin=_BUDGET)
    lines = [line.split() for line in wharf("describe", "role", "reader").splitlines()]
    assert ["deployments.apps", "[]", "[web]", "[get]"] in lines
    assert ["pods/log", "[]", "[]", "[get", "list]"] in lines
    lines = [line.split() for line in wharf("describe", "rolebinding", "reader").splitlines()]
    assert ["Group", "readers"] in lines
    assert ["Name:", "reader"] in lines
    said = wharf("describe", "pdb", "web")
    assert "Min available:  1\nSelector:       app=web\nStatus:\n    Allowed disruptions:  0\n" in said
    wharf("create", "serviceaccount", "robot")
    assert "Mountable secrets:   <none>" in wharf("describe", "sa", "robot")


def test_what_nothing_acts_on_is_said(wharf: Wharf) -> None:
    out, err = wharf.run("create", "-f", "-", stdin=_JOB)
    assert out == "job.batch/once created\n"
    assert err == "Note: Job is only stored so far: no pods are made for it.\n"
    assert "Job is only stored so far" in wharf("describe", "job", "once")
    _, err = wharf.run("create", "configmap", "c")
    assert err == ""
