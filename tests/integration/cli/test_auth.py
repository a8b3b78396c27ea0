"""``wharf auth`` and ``--as``, against a real apiserver."""

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
