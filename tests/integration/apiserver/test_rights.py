"""Rights that guard rights: escalation, default roles that mend themselves, what nodes may write, modes."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.apiserver.auth.bootstrap_roles import AUTOUPDATE, GROUP
from tests.integration.apiserver.objects import node, pod
from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd
from wharfinger.api import errors
from wharfinger.api.types import core, rbac
from wharfinger.client import Client


def _role(name: str, namespace: str, *rules: rbac.PolicyRule) -> rbac.Role:
    made = rbac.Role(rules=rules)
    made.metadata.name, made.metadata.namespace = name, namespace
    return made


def _binding(name: str, namespace: str, kind: str, role: str, user: str) -> rbac.RoleBinding:
    made = rbac.RoleBinding()
    made.metadata.name, made.metadata.namespace = name, namespace
    made.roleRef.apiGroup, made.roleRef.kind, made.roleRef.name = GROUP, kind, role
    made.subjects.add(kind="User", name=user, apiGroup=GROUP)
    return made


def _rule(resources: list[str], *verbs: str, group: str = "", names: list[str] | None = None) -> rbac.PolicyRule:
    return rbac.PolicyRule(verbs=verbs, apiGroups=[group], resources=resources, resourceNames=names)


async def _give(client: Client, user: str, namespace: str, name: str, *rules: rbac.PolicyRule) -> None:
    await client.resource(rbac.Role).create(_role(name, namespace, *rules))
    await client.resource(rbac.RoleBinding).create(_binding(name, namespace, "Role", name, user))
    await client.resource(rbac.RoleBinding).get(name, namespace=namespace)  # the cache has it


async def test_nobody_gives_away_more_than_they_have(server: Apiserver, client: Client, namespace: str) -> None:
    await _give(
        client, "chief", namespace, "chief",
        _rule(["roles", "rolebindings"], "create", "update", "patch", group=GROUP),
        _rule(["pods"], "get"),
    )  # fmt: skip
    async with server.client("chief", []) as chief:
        roles, bindings = chief.resource(rbac.Role), chief.resource(rbac.RoleBinding)
        small = await roles.create(_role("small", namespace, _rule(["pods"], "get")))
        await bindings.create(_binding("small", namespace, "Role", "small", "joe"))
        held = r'attempting to grant RBAC permissions not currently held:\n\{APIGroups:\[""\], Resources:\["secrets"\]'
        with pytest.raises(errors.ForbiddenError, match=held):
            await roles.create(_role("big", namespace, _rule(["pods", "secrets"], "get")))
        with pytest.raises(errors.ForbiddenError):
            await roles.patch("small", patch={"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]},
                              namespace=namespace)  # fmt: skip
        small.metadata.labels["touched"] = "yes"
        await roles.update(small)  # what grants no more is no escalation
        with pytest.raises(errors.ForbiddenError):
            await bindings.create(_binding("admin", namespace, "ClusterRole", "cluster-admin", "chief"))
        with pytest.raises(errors.NotFoundError):
            await bindings.create(_binding("ghost", namespace, "Role", "ghost", "chief"))
        await _give(
            client, "chief", namespace, "exceptions",
            _rule(["clusterroles"], "bind", group=GROUP, names=["view"]),
            _rule(["roles"], "escalate", group=GROUP, names=["special"]),
        )  # fmt: skip
        await bindings.create(_binding("viewer", namespace, "ClusterRole", "view", "joe"))
        await roles.create(_role("special", namespace, _rule(["secrets"], "get")))
        with pytest.raises(errors.ForbiddenError):
            await roles.create(_role("other", namespace, _rule(["secrets"], "get")))


async def test_default_roles_are_mended_at_the_start(etcd: Etcd, tmp_path: Path) -> None:
    with Apiserver(etcd.endpoint, folder=tmp_path) as server:
        async with server.client() as client:
            roles = client.resource(rbac.ClusterRole)
            bindings = client.resource(rbac.ClusterRoleBinding)
            for name in ("system:discovery", "system:basic-user"):
                role = await roles.get(name)
                del role.rules[:]
                role.rules.add(verbs=["get"], apiGroups=["acme.io"], resources=["gadgets"])
                if name == "system:basic-user":
                    role.metadata.annotations[AUTOUPDATE] = "false"
                await roles.update(role)
            await bindings.delete("system:public-info-viewer")
        server.stop()
        server.start()
        async with server.client() as client:
            roles = client.resource(rbac.ClusterRole)
            mended = await roles.get("system:discovery")
            assert list(mended.rules[0].apiGroups) == ["acme.io"]
            assert "/version" in {url for rule in mended.rules for url in rule.nonResourceURLs}
            assert len((await roles.get("system:basic-user")).rules) == 1
            await client.resource(rbac.ClusterRoleBinding).get("system:public-info-viewer")


async def test_what_a_node_may_write(server: Apiserver, client: Client, namespace: str) -> None:
    name = f"node-{namespace}"
    async with server.client(f"system:node:{name}", ["system:nodes"]) as agent:
        nodes, pods = agent.resource(core.Node), agent.resource(core.Pod)
        for label in ("node-restriction.kubernetes.io/x", "foo.k8s.io/x"):
            labelled = node(name)
            labelled.metadata.labels[label] = "y"
            with pytest.raises(errors.ForbiddenError, match="not allowed to set the following labels"):
                await nodes.create(labelled)
        mine = node(name)
        mine.metadata.labels.update({"kubernetes.io/os": "linux", "acme.io/rack": "7"})
        mine = await nodes.create(mine)
        mine.spec.taints.add(key="k", effect="NoSchedule")
        with pytest.raises(errors.ForbiddenError, match="not allowed to modify taints"):
            await nodes.update(mine)

        mirror = pod("static", namespace, node=name)
        with pytest.raises(errors.ForbiddenError, match="can only create mirror pods"):
            await pods.create(mirror)
        mirror.metadata.annotations["kubernetes.io/config.mirror"] = "x"
        with pytest.raises(errors.ForbiddenError, match="single owner reference"):
            await pods.create(mirror)
        mirror.metadata.ownerReferences.add(
            apiVersion="v1", kind="Node", name=name, uid=mine.metadata.uid, controller=True
        )
        mirror.spec.volumes.add(name="v").volumeSource.secret.secretName = "grab"
        with pytest.raises(errors.ForbiddenError, match="a mirror pod may not reference secrets"):
            await pods.create(mirror)
        del mirror.spec.volumes[:]
        made = await pods.create(mirror)
        made.metadata.labels["app"] = "web"
        with pytest.raises(errors.ForbiddenError, match="cannot update labels through pod status"):
            await pods.update_status(made)
        await pods.delete("static", namespace=namespace, grace_period_seconds=0)


async def test_modes(etcd: Etcd, tmp_path: Path) -> None:
    with Apiserver(etcd.endpoint, "--authorization-mode", "AlwaysAllow", folder=tmp_path) as server:
        async with server.client("anybody", []) as client:
            await client.resource(core.Secret).list()
    with pytest.raises(RuntimeError, match="--authorization-mode: 'ABAC' is not known"):
        Apiserver(etcd.endpoint, "--authorization-mode", "ABAC", folder=tmp_path).start()
