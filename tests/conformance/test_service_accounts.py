"""A pod's token: mounted as in Kubernetes, good for what its account may do, and only while the pod is there."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tests.conformance.conftest import Stage

MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def ask(stage: Stage, path: str, token: str) -> tuple[int, dict[str, object]]:
    """GET something with a token; return the code and the answer."""
    context = ssl.create_default_context(cafile=str(stage.cluster.pki / "ca.crt"))
    url = f"https://127.0.0.1:{stage.cluster.port('apiserver-https')}{path}"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def said(stage: Stage, namespace: str, pod: str, count: int) -> list[str]:
    """Return the words of a pod's log, once they are all there."""
    words: list[str] = []

    def complete() -> bool:
        words[:] = stage.wharf("-n", namespace, "logs", pod).split()
        return len(words) == count

    _wait(complete, "the pod to speak")
    return words


def test_the_token_of_a_pod(stage: Stage) -> None:
    namespace = stage.namespace("sa")
    name = stage.pod(
        namespace, "p", "sh", "-c", f"cd {MOUNT} && cat namespace && echo && cat token && echo && sleep 3600"
    )
    shown, token = said(stage, namespace, name, 2)
    assert shown == namespace
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["sub"] == f"system:serviceaccount:{namespace}:default"
    assert claims["kubernetes.io"]["pod"]["name"] == name
    assert claims["kubernetes.io"]["node"]["name"] == "node-1"
    assert claims["kubernetes.io"]["warnafter"] - claims["iat"] == 3607
    assert claims["exp"] - claims["iat"] == 365 * 24 * 3600, "for programs that never read it anew"

    own = f"/api/v1/namespaces/{namespace}/pods/{name}"
    code, refused = ask(stage, own, token)
    assert (code, refused["reason"]) == (403, "Forbidden"), "a plain account may read nothing"
    account = f"{namespace}:default"
    stage.wharf("create", "-f", "-", text=json.dumps(binding(namespace, account)))
    _wait(lambda: ask(stage, own, token)[0] == 200, "the binding to count")
    assert ask(stage, f"/api/v1/namespaces/{namespace}/secrets", token)[0] == 403
    assert ask(stage, own, token + "x")[0] == 401

    stage.wharf("-n", namespace, "delete", "pod", name)
    _wait(lambda: ask(stage, own, token)[0] == 401, "the token to end with its pod")


def binding(namespace: str, account: str) -> dict[str, object]:
    """Let the account see what `view` shows, in its namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "view", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": account.split(":")[1], "namespace": namespace}],
    }  # fmt: skip


def test_the_keys_can_be_found_and_the_files_not_be_read(stage: Stage) -> None:
    namespace = stage.namespace("sa")
    name = stage.pod(namespace, "p", "sh", "-c", f"cat {MOUNT}/token && echo && sleep 3600")
    (token,) = said(stage, namespace, name, 1)
    code, found = ask(stage, "/.well-known/openid-configuration", token)
    assert (code, found.get("issuer")) == (200, "https://kubernetes.default.svc"), found
    keys = ask(stage, "/openid/v1/jwks", token)[1]["keys"]
    header = json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))
    assert header["kid"] in [key["kid"] for key in keys]  # type: ignore[attr-defined]
    for path in Path(stage.cluster.directory).rglob("pods/*"):
        if path.parent.name == "pods" and path.is_dir():
            assert path.stat().st_mode & 0o007 == 0, f"{path} is open to other users of the host"


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.2)
