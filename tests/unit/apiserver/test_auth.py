"""Users from credentials, and the rules of nodes and daemons."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cryptography import x509

from controlplane.apiserver.auth import certificates
from controlplane.apiserver.auth.authorizer import Authorizers
from controlplane.apiserver.auth.bearer import Bearer
from controlplane.apiserver.auth.nodegraph import references
from controlplane.apiserver.auth.nodes import Nodes
from controlplane.apiserver.auth.tokens import TokenFile
from controlplane.apiserver.request import Request, User, Verb
from wharfinger import pki
from wharfinger.api import kinds
from wharfinger.api.errors import ForbiddenError, UnauthorizedError
from wharfinger.api.types import core


def test_a_certificate_names_user_and_groups(tmp_path: Path) -> None:
    ca = pki.ensure_ca(tmp_path, "ca")
    made = pki.ensure_client(ca, tmp_path, "jane", name="jane", groups=["devs", "ops"])
    user = certificates.user_of(Path(made.cert_path).read_bytes())
    assert (user.name, set(user.groups)) == ("jane", {"devs", "ops", "system:authenticated"})


def test_a_certificate_that_ends_while_its_connection_lasts_is_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = pki.ensure_ca(tmp_path, "ca")
    pem = Path(pki.ensure_client(ca, tmp_path, "jane", name="jane").cert_path).read_bytes()
    assert certificates.user_of(pem).name == "jane"
    end = x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()
    monkeypatch.setattr(time, "time", lambda: end + 1)
    with pytest.raises(UnauthorizedError, match="expired"):
        certificates.user_of(pem)


def test_a_broken_certificate_is_nobody() -> None:
    with pytest.raises(UnauthorizedError):
        certificates.user_of(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")


def test_token_files(tmp_path: Path) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text('secret,jane,u1,"devs,ops"\nother,joe,u2\n\n')
    tokens = Bearer([TokenFile.load(file)])
    assert tokens.user_of("Bearer secret") == User("jane", ("devs", "ops", "system:authenticated"), "u1")
    assert tokens.user_of("bearer other").groups == ("system:authenticated",)
    for header in ("secret", "Basic secret", "Bearer", "Bearer ", "Bearer wrong"):
        with pytest.raises(UnauthorizedError):
            tokens.user_of(header)


@pytest.mark.parametrize("text", ["secret,jane\n", ",jane,u1\n", "secret,,u1\n", "a,b,c\na,d,e\n"])
def test_broken_token_files_name_the_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match="line"):
        TokenFile.load(file)


def _pod() -> core.Pod:
    pod = core.Pod()
    pod.metadata.name, pod.metadata.namespace = "mine", "default"
    pod.spec.serviceAccountName = "robot"
    pod.spec.volumes.add(name="v").volumeSource.secret.secretName = "in-volume"
    pod.spec.volumes.add(name="scratch").volumeSource.ephemeral.SetInParent()
    pod.spec.imagePullSecrets.add(name="for-pulling")
    container = pod.spec.containers.add(name="c")
    container.env.add(name="E").valueFrom.secretKeyRef.localObjectReference.name = "in-env"
    container.envFrom.add().configMapRef.localObjectReference.name = "settings"
    return pod


class _Graph:
    def pod_node(self, namespace: str, name: str) -> str | None:
        return {"mine": "n1", "theirs": "n2"}.get(name)

    def reaches(self, node: str, resource: str, namespace: str, name: str) -> bool:
        return (node, namespace) == ("n1", "default") and (resource, name) in references(_pod())


_NODE = User("system:node:n1", ("system:nodes",))
_ALL = Authorizers([Nodes(_Graph())])


def _may(user: User, verb: Verb, resource: str, name: str = "", *, selector: str = "", namespace: str = "") -> bool:
    resource, _, subresource = resource.partition("/")
    kind = next(kind for kind in kinds.KINDS if kind.resource == resource)
    where = namespace or ("default" if kind.namespaced else "")
    request = Request(user, verb, kind, where, name, subresource, field_selector=selector)
    try:
        _ALL.check(request)
    except ForbiddenError:
        return False
    return True


@pytest.mark.parametrize(
    ("verb", "resource", "name", "selector", "allowed"),
    [
        ("get", "nodes", "n1", "", True),
        ("get", "nodes", "n2", "", False),
        ("list", "nodes", "", "", False),
        ("watch", "nodes", "", "metadata.name=n1", True),
        ("watch", "nodes", "", "metadata.name=n1,metadata.name=n2", True),
        ("watch", "nodes", "", "metadata.name=n2", False),
        ("update", "nodes/status", "n1", "", True),
        ("delete", "nodes", "n1", "", False),
        ("list", "pods", "", "spec.nodeName=n1", True),
        ("list", "pods", "", "spec.nodeName=n10", False),
        ("list", "pods", "", "spec.nodeName!=n1", False),
        ("get", "pods", "mine", "", True),
        ("get", "pods", "theirs", "", False),
        ("patch", "pods/status", "mine", "", True),
        ("patch", "pods", "mine", "", False),
        ("list", "pods", "", "metadata.name=mine", True),
        ("watch", "pods", "", "metadata.name=theirs", False),
        ("create", "pods", "", "", True),  # mirror pods: NodeRestriction sees what it is
        ("create", "pods/binding", "mine", "", False),
        ("deletecollection", "pods", "", "spec.nodeName=n1", False),
        ("get", "secrets", "in-volume", "", True),
        ("get", "secrets", "in-env", "", True),
        ("get", "secrets", "for-pulling", "", True),
        ("get", "secrets", "elsewhere", "", False),
        ("watch", "secrets", "", "metadata.name=in-env", True),
        ("list", "secrets", "", "", False),
        ("update", "secrets", "in-env", "", False),
        ("get", "configmaps", "settings", "", True),
        ("get", "persistentvolumeclaims", "mine-scratch", "", True),
        ("get", "persistentvolumeclaims", "else", "", False),
        ("update", "persistentvolumeclaims/status", "mine-scratch", "", True),
        ("get", "csinodes", "n1", "", True),
        ("get", "csinodes", "n2", "", False),
        ("list", "resourceslices", "", "spec.nodeName=n1", True),
        ("list", "resourceslices", "", "", False),
        ("list", "services", "", "", True),
        ("create", "serviceaccounts/token", "robot", "", True),
        ("create", "serviceaccounts/token", "admin", "", False),
        ("create", "events", "", "", True),
        ("list", "events", "", "", False),
        ("get", "deployments", "web", "", False),
    ],
)
def test_what_an_agent_may(verb: Verb, resource: str, name: str, selector: str, allowed: bool) -> None:
    assert _may(_NODE, verb, resource, name, selector=selector) is allowed


def test_leases_of_an_agent() -> None:
    assert _may(_NODE, "update", "leases", "n1", namespace="kube-node-lease")
    assert not _may(_NODE, "update", "leases", "n2", namespace="kube-node-lease")
    assert not _may(_NODE, "update", "leases", "n1", namespace="kube-system")
    assert not _may(_NODE, "list", "leases", namespace="kube-node-lease")


def test_a_name_alone_makes_no_agent() -> None:
    assert not _may(User("system:node:n1"), "get", "nodes", "n1")


def test_masters_and_strangers() -> None:
    assert not _may(User("alice", ("devs",)), "get", "pods", "web")
    assert _may(User("root", ("system:masters",)), "delete", "nodes", "n1")


def test_a_mirror_pod_gives_its_node_nothing() -> None:
    pod = _pod()
    pod.metadata.annotations["kubernetes.io/config.mirror"] = "x"
    assert not references(pod)
