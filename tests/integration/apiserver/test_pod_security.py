"""A namespace's labels decide what its pods may be."""

from __future__ import annotations

import json

import pytest

from tests.integration.apiserver.objects import pod
from wharfinger.api import codec, errors, kinds
from wharfinger.api.types import apps, core
from wharfinger.client import Client

_PREFIX = "pod-security.kubernetes.io/"


async def _label(client: Client, namespace: str, **levels: str) -> list[str]:
    """Label a namespace and return the warnings."""
    labels = {f"{_PREFIX}{mode.replace('_', '-')}": level for mode, level in levels.items()}
    raw = client.raw(kinds.of(core.Namespace))
    return list((await raw.patch(namespace, patch={"metadata": {"labels": labels}})).warnings)


async def test_levels(client: Client, namespace: str) -> None:
    pods = client.resource(core.Pod)
    bare = pod("bare", namespace)
    await pods.create(bare)
    assert await _label(client, namespace, enforce="baseline") == []
    warnings = await _label(client, namespace, enforce="restricted", enforce_version="v1.30")
    assert warnings[0] == (
        f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "restricted:v1.30"'
    )
    assert warnings[1].startswith("bare: allowPrivilegeEscalation != false (")
    await client.resource(core.Namespace).get(namespace)  # the cache has the labels
    bare.metadata.name = "other"
    with pytest.raises(errors.ForbiddenError, match=r'violates PodSecurity "restricted:v1\.30": allowPrivilegeEsc'):
        await pods.create(bare)
    context = bare.spec.containers[0].securityContext
    context.allowPrivilegeEscalation, context.runAsNonRoot = False, True
    context.seccompProfile.type = "RuntimeDefault"
    context.capabilities.drop.append("ALL")
    await pods.create(bare)


async def test_workloads_are_only_warned_about(client: Client, namespace: str) -> None:
    await _label(client, namespace, warn="restricted", enforce="restricted")
    await client.resource(core.Namespace).get(namespace)
    made = apps.Deployment()
    made.metadata.name = "web"
    made.spec.selector.matchLabels["app"] = made.spec.template.metadata.labels["app"] = "web"
    made.spec.template.spec.containers.add(name="c", image="x", securityContext=core.SecurityContext(privileged=True))
    raw = client.raw(kinds.of(apps.Deployment))
    answer = await raw.create(json.dumps(codec.to_json(made)).encode(), namespace=namespace)
    [text] = [text for text in answer.warnings if "PodSecurity" in text]
    assert text.startswith('would violate PodSecurity "restricted:latest": privileged (container "c" must not set')


async def test_labels_must_make_sense(client: Client, namespace: str) -> None:
    with pytest.raises(errors.InvalidError, match="must be one of privileged, baseline, restricted"):
        await _label(client, namespace, enforce="strict")
