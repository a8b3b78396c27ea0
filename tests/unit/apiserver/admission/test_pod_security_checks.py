"""Each check of the Pod Security Standards: a pod that passes, and what is said of one that does not."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apiserver.admission.pod_security import Rule, read_policy
from controlplane.apiserver.admission.pod_security_checks import BASELINE, LATEST, RESTRICTED, violations
from wharfinger.api import codec
from wharfinger.api.types import core

_GOOD: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
    "capabilities": {"drop": ["ALL"]},
}


def _pod(spec: dict[str, Any], context: dict[str, Any] | None = None, **annotations: str) -> core.Pod:
    container = {"name": "c", "image": "x", "securityContext": context or {}, **spec.pop("container", {})}
    pod: core.Pod = codec.from_json(
        {"metadata": {"name": "p", "annotations": annotations}, "spec": {"containers": [container], **spec}}, core.Pod
    ).message
    return pod


def _said(pod: core.Pod, level: Any, minor: int = LATEST) -> str:
    return Rule(level, minor).objections(pod)


def test_a_plain_pod_is_baseline_and_a_careful_one_restricted() -> None:
    assert _said(_pod({}), "baseline") == ""
    assert _said(_pod({}, _GOOD), "restricted") == ""
    assert _said(_pod({}), "restricted") == (
        'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), '
        'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
        '"Localhost")'
    )


@pytest.mark.parametrize(
    ("spec", "context", "said"),
    [
        ({"hostNetwork": True, "hostPID": True}, {}, "host namespaces (hostNetwork=true, hostPID=true)"),
        ({}, {"privileged": True}, 'privileged (container "c" must not set securityContext.privileged=true)'),
        (
            {}, {"capabilities": {"add": ["NET_ADMIN", "CHOWN"]}},
            'non-default capabilities (container "c" must not include "NET_ADMIN" in securityContext.capabilities.add)',
        ),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, {}, 'hostPath volumes (volume "v")'),
        (
            {"container": {"ports": [{"containerPort": 80, "hostPort": 80}]}}, {},
            'hostPort (container "c" uses hostPort 80)',
        ),
        (
            {}, {"appArmorProfile": {"type": "Unconfined"}},
            'forbidden AppArmor profile (container "c" must not set AppArmor profile type to "Unconfined")',
        ),
        (
            {"securityContext": {"seLinuxOptions": {"type": "x", "user": "u"}}}, {},
            'seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "x"; user may not be set)',
        ),
        (
            {}, {"procMount": "Unmasked"},
            'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
        ),
        (
            {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, {},
            'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
        (
            {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, {},
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            {"container": {"livenessProbe": {"httpGet": {"host": "10.0.0.1", "port": 80}}}}, {},
            'probe or lifecycle host (container "c" uses probe or lifecycle host "10.0.0.1")',
        ),
        (
            {"securityContext": {"windowsOptions": {"hostProcess": True}}}, {},
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
    ],
)  # fmt: skip
def test_baseline(spec: dict[str, Any], context: dict[str, Any], said: str) -> None:
    pod = _pod(spec, context)
    assert _said(pod, "baseline") == said
    assert _said(pod, "privileged") == ""


@pytest.mark.parametrize(
    ("spec", "change", "said"),
    [
        (
            {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, {},
            'restricted volume types (volume "v" uses restricted volume type "hostPath")',
        ),
        ({}, {"runAsUser": 0}, 'runAsUser=0 (container "c" must not set runAsUser=0)'),
        (
            {}, {"runAsNonRoot": False},
            'runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)',
        ),
        (
            {}, {"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}},
            'unrestricted capabilities (container "c" must not include "CHOWN" in securityContext.capabilities.add)',
        ),
    ],
)  # fmt: skip
def test_restricted(spec: dict[str, Any], change: dict[str, Any], said: str) -> None:
    assert _said(_pod(spec, {**_GOOD, **change}), "restricted") == said


def test_versions_know_what_was_checked_then() -> None:
    pod = _pod({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}]}})
    assert violations(pod, "baseline", 31)
    assert not violations(pod, "baseline", 32)
    assert "runAsUser" not in _said(_pod({}, {**_GOOD, "runAsUser": 0}), "restricted", 22)
    old = _pod({}, **{"seccomp.security.alpha.kubernetes.io/pod": "unconfined"})
    assert violations(old, "baseline", 18)
    assert not violations(old, "baseline", 19)


def test_the_tables_stand_in_the_order_of_messages() -> None:
    for table in (BASELINE, RESTRICTED):
        assert list(table) == sorted(table, key=lambda name: name)
    assert {entry.replaces for entry in RESTRICTED.values()} - {""} <= set(BASELINE)


def test_labels() -> None:
    prefix = "pod-security.kubernetes.io/"
    policy, causes = read_policy({f"{prefix}enforce": "baseline", f"{prefix}enforce-version": "v1.30"})
    assert (str(policy.enforce), str(policy.warn), causes) == ("baseline:v1.30", "privileged:latest", [])
    policy, causes = read_policy({f"{prefix}enforce": "strict", f"{prefix}warn-version": "1.30"})
    assert str(policy.enforce) == "restricted:latest"
    assert [cause.field for cause in causes] == [
        f"metadata.labels[{prefix}enforce]", f"metadata.labels[{prefix}warn-version]",
    ]  # fmt: skip
