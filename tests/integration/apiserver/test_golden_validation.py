"""The recorded refusals of a real kube-apiserver: code, reason, and which fields are wrong why."""

from __future__ import annotations

import pytest

from tests.support.golden import Conversation, causes, shared
from wharfinger.client import Client

CASES = (
    "binding-and-podtemplate-invalid", "configmap-invalid", "cronjob-invalid", "daemonset-invalid", "job-invalid",
    "metadata-updates", "pod-containers", "pod-names-and-labels", "pod-probes", "pod-spec-fields", "pod-volumes",
    "poddisruptionbudget-invalid", "priorityclass-invalid", "replicationcontroller-invalid", "service-invalid",
    "statefulset-invalid",
)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_refusals_are_those_of_kubernetes(client: Client, name: str) -> None:
    path = shared() / "golden" / "api" / "cases" / "validation" / f"{name}.yaml"
    wrong = []
    for outcome in await Conversation(path, client).run():
        body = outcome.expected["body"]
        refused = outcome.expected["status"] >= 400
        want = (
            outcome.expected["status"],
            body.get("reason", "") if refused else "",
            causes(body) if refused else [],
        )
        got = (
            outcome.code,
            outcome.body.get("reason", "") if outcome.code >= 400 else "",
            causes(outcome.body) if outcome.code >= 400 else [],
        )
        if want != got:
            wrong.append(f"{outcome.step}: expected {want}, got {got}: {outcome.body.get('message', '')}")
    assert not wrong, "\n".join(wrong)
