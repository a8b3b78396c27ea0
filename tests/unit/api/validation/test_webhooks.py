from __future__ import annotations

from typing import Any

import pytest

from tests.support.rules import build, creating, updating

KIND = "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
CLIENT = {"service": {"name": "s", "namespace": "n", "path": "/check"}}


def _webhook(**change: Any) -> dict[str, Any]:
    whole = {
        "name": "check.example.com",
        "clientConfig": CLIENT,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [RULE],
        **change,
    }
    return {key: value for key, value in whole.items() if value is not None}


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        ({}, []),
        ({"name": "check"}, ["name Invalid"]),
        ({"sideEffects": None}, ["sideEffects Required"]),
        ({"sideEffects": "Some"}, ["sideEffects NotSupported"]),
        ({"admissionReviewVersions": []}, ["admissionReviewVersions Required"]),
        ({"admissionReviewVersions": ["v7"]}, ["admissionReviewVersions Invalid"]),
        ({"timeoutSeconds": 31}, ["timeoutSeconds Invalid"]),
        ({"clientConfig": {}}, ["clientConfig Required"]),
        ({"clientConfig": {"url": "https://example.com/check"}}, []),
        ({"clientConfig": {"url": "http://example.com"}}, ["clientConfig.url Invalid"]),
        ({"clientConfig": {"url": "https://u:p@example.com"}}, ["clientConfig.url Invalid"]),
        ({"clientConfig": {"url": "https://["}}, ["clientConfig.url Required"]),
        ({"clientConfig": {"service": {"name": "", "namespace": "n"}}}, ["clientConfig.service.name Required"]),
        ({"rules": [{**RULE, "operations": ["*", "CREATE"]}]}, ["rules[0].operations Invalid"]),
        ({"rules": [{**RULE, "operations": ["READ"]}]}, ["rules[0].operations[0] NotSupported"]),
        ({"rules": [{**RULE, "resources": ["pods/*", "pods/status"]}]}, ["rules[0].resources[1] Invalid"]),
        ({"rules": [{**RULE, "resources": ["*", "pods"]}]}, ["rules[0].resources Invalid"]),
        ({"rules": [{**RULE, "apiVersions": [""]}]}, ["rules[0].apiVersions[0] Required"]),
    ],
)
def test_webhooks(change: dict[str, Any], causes: list[str]) -> None:
    config = build(KIND, {"metadata": {"name": "x"}, "webhooks": [_webhook(**change)]})
    assert creating(config) == [f"webhooks[0].{cause}" for cause in causes]


def test_names_of_webhooks_stand_once() -> None:
    config = build(KIND, {"metadata": {"name": "x"}, "webhooks": [_webhook(), _webhook()]})
    assert creating(config) == ["webhooks[1].name Duplicate"]


def test_policies() -> None:
    kind = "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy"
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]}
    assert creating(build(kind, {"metadata": {"name": "p"}, "spec": spec})) == []
    assert creating(build(kind, {"metadata": {"name": "p"}, "spec": {}})) == [
        "spec.matchConstraints Required",
        "spec.validations Required",
    ]
    kind += "Binding"
    spec = {"policyName": "p", "validationActions": ["Deny"]}
    assert creating(build(kind, {"metadata": {"name": "p"}, "spec": spec})) == []
    spec = {"validationActions": ["Deny", "Warn", "Deny"]}
    assert creating(build(kind, {"metadata": {"name": "p"}, "spec": spec})) == [
        "spec.policyName Required",
        "spec.validationActions[2] Duplicate",
        "spec.validationActions Invalid",
    ]


def test_api_services_are_named_after_what_they_serve() -> None:
    def service(name: str, **spec: Any) -> Any:
        body = {"group": "g.example", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1, **spec}
        return build("apiregistration.k8s.io/v1 APIService", {"metadata": {"name": name}, "spec": body})

    assert creating(service("v1.g.example")) == []
    assert creating(service("v2.g.example")) == ["metadata.name Invalid"]
    assert creating(service("v1.g.example", versionPriority=0)) == ["spec.versionPriority Invalid"]


def test_ranges_of_addresses_only_grow() -> None:
    def found(*cidrs: str) -> Any:
        spec = {"spec": {"cidrs": list(cidrs)}}
        return build("networking.k8s.io/v1 ServiceCIDR", {"metadata": {"name": "r"}, **spec})

    assert creating(found("10.0.0.0/24")) == []
    assert creating(found("10.0.0.0/24", "10.1.0.0/24")) == ["spec.cidrs Invalid"]
    assert creating(found("x")) == ["spec.cidrs[0] Invalid"]
    assert updating(found("10.0.0.0/24"), lambda new: new.spec.cidrs.append("fd00::/64")) == []
    assert updating(found("10.0.0.0/24"), lambda new: new.spec.cidrs.pop()) == ["spec.cidrs Invalid"]
