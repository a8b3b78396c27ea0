"""``wharf create token`` and ``kubectl create token`` make tokens that the server takes."""

from __future__ import annotations

import base64
import json

from tests.conformance.conftest import Stage


def test_a_token_for_a_pod(stage: Stage) -> None:
    namespace = stage.namespace("tok")
    stage.pod(namespace, "p", "sleep", "3600")
    bound = ("--bound-object-kind=Pod", "--bound-object-name=p")
    token = stage.wharf("-n", namespace, "create", "token", "default", "--duration=20m", *bound).strip()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["exp"] - claims["iat"] == 1200
    assert claims["kubernetes.io"]["pod"]["name"] == "p"
    who = json.loads(stage.wharf("auth", "whoami", "-o", "json", "--token", token))
    assert who["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:default"
    whole = json.loads(stage.wharf("-n", namespace, "create", "token", "default", "--audience=vault", "-o", "json"))
    assert (whole["kind"], whole["spec"]["audiences"]) == ("TokenRequest", ["vault"])
    assert whole["status"]["token"]
