"""ServiceAccount: an account may limit its pods to the secrets that it lists."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from controlplane.apiserver.admission.service_account import ENFORCE, ServiceAccount
from controlplane.apiserver.request import Request, User
from wharfinger.api import codec, kinds
from wharfinger.api.errors import ForbiddenError
from wharfinger.api.types import core

KEY = "/registry/serviceaccounts/ns/robot"
LISTED = {"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "mine"}}]}
THEIRS: dict[str, Any] = {"name": "X", "valueFrom": {"secretKeyRef": {"name": "theirs", "key": "k"}}}
ALL_FROM: dict[str, Any] = {"secretRef": {"name": "theirs"}}


def step(value: str | None) -> ServiceAccount:
    account = core.ServiceAccount()
    account.metadata.name = "robot"
    account.secrets.add(name="mine")
    account.imagePullSecrets.add(name="registry")
    if value is not None:
        account.metadata.annotations[ENFORCE] = value
    return ServiceAccount(cast("Any", {KEY: SimpleNamespace(decoded=account)}), mounts=True)


def pod(**spec: Any) -> core.Pod:
    document = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"serviceAccountName": "robot", "containers": [LISTED], **spec},
    }  # fmt: skip
    return codec.from_json(document, core.Pod).message


def request(subresource: str = "") -> Request:
    return Request(User("me"), "create", kinds.of(core.Pod), "ns", "p", subresource)


CASES = [
    (
        {"volumes": [{"name": "v", "secret": {"secretName": "theirs"}}]},
        'volume with secret.secretName="theirs" is not allowed because service account robot does not reference that '
        "secret",
    ),
    ({"containers": [{**LISTED, "env": [THEIRS]}]}, 'container c with envVar X referencing secret.secretName="theirs"'),
    (
        {"initContainers": [{**LISTED, "name": "i", "env": [THEIRS]}]},
        'init container i with envVar X referencing secret.secretName="theirs"',
    ),
    (
        {"containers": [LISTED, {**LISTED, "name": "d", "envFrom": [ALL_FROM]}]},
        'container d with envFrom referencing secret.secretName="theirs"',
    ),
    (
        {"imagePullSecrets": [{"name": "registry"}, {"name": "other"}]},
        'imagePullSecrets[1].name="other" is not allowed because service account robot does not reference that '
        "imagePullSecret",
    ),
]


@pytest.mark.parametrize(("spec", "message"), CASES)
def test_other_secrets_are_refused(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ForbiddenError) as caught:
        step("true").admit(request(), pod(**spec), None)
    assert caught.value.message.startswith(f'pods "p" is forbidden: {message}')
    for value in (None, "false", "no"):
        assert step(value).admit(request(), pod(**spec), None) is None


def test_the_accounts_own_secrets_are_its_pods() -> None:
    secret = {"volumes": [{"name": "v", "secret": {"secretName": "mine"}}], "imagePullSecrets": [{"name": "registry"}]}
    made = pod(**secret)
    assert step("true").admit(request(), made, None) is None
    assert step("true").admit(request(), other := pod(), None) is None
    assert [one.name for one in other.spec.imagePullSecrets] == ["registry"]


def test_ephemeral_containers_are_looked_at_when_they_come() -> None:
    old = pod()
    new = pod(ephemeralContainers=[{"name": "debug", "image": "i", "env": [THEIRS]}])
    assert step("true").admit(request("status"), new, old) is None
    with pytest.raises(ForbiddenError, match=r"ephemeral container debug with envVar X referencing secret"):
        step("true").admit(request("ephemeralcontainers"), new, old)
    assert step(None).admit(request("ephemeralcontainers"), new, old) is None


def test_a_mirror_pod_has_no_secrets() -> None:
    made = pod(serviceAccountName="", volumes=[{"name": "v", "secret": {"secretName": "mine"}}])
    made.metadata.annotations["kubernetes.io/config.mirror"] = "x"
    with pytest.raises(ForbiddenError, match="a mirror pod may not reference secrets"):
        step(None).admit(request(), made, None)
