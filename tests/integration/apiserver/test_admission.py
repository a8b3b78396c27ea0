"""Admission: what is completed, and what is refused, before validation."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.integration.apiserver.objects import pod
from wharfinger.api import errors
from wharfinger.api.types import core, node, scheduling
from wharfinger.client import Client


def _class(name: str, value: int, *, default: bool = False, policy: str = "") -> scheduling.PriorityClass:
    made = scheduling.PriorityClass(value=value, globalDefault=default)
    if policy:
        made.preemptionPolicy = policy
    made.metadata.name = name
    return made


@pytest_asyncio.fixture
async def high(client: Client, namespace: str) -> AsyncIterator[str]:
    """A priority class of 700 that never preempts."""
    classes = client.resource(scheduling.PriorityClass)
    name = f"{namespace}-high"
    await classes.create(_class(name, 700, policy="Never"))
    yield name
    await classes.delete(name)


async def test_priority_comes_from_the_class(client: Client, namespace: str, high: str) -> None:
    pods = client.resource(core.Pod)
    wanted = pod("a", namespace)
    wanted.spec.priorityClassName = high
    made = await pods.create(wanted)
    assert (made.spec.priority, made.spec.preemptionPolicy) == (700, "Never")
    wanted = pod("b", namespace)
    wanted.spec.priorityClassName = "system-node-critical"
    assert (await pods.create(wanted)).spec.priority == 2_000_001_000


async def test_priority_may_not_be_chosen(client: Client, namespace: str, high: str) -> None:
    unknown, other, plain, policy = (pod(name, namespace) for name in ("a", "b", "c", "d"))
    unknown.spec.priorityClassName = "no-such-class"
    other.spec.priorityClassName, other.spec.priority = high, 701
    plain.spec.priority = 5
    policy.spec.priorityClassName, policy.spec.preemptionPolicy = high, "PreemptLowerPriority"
    for wrong in (unknown, other, plain, policy):
        with pytest.raises(errors.ForbiddenError):
            await client.resource(core.Pod).create(wrong)


async def test_there_is_one_default_class(client: Client, namespace: str) -> None:
    classes = client.resource(scheduling.PriorityClass)
    await classes.create(_class(f"{namespace}-default", -7, default=True))
    try:
        with pytest.raises(errors.ForbiddenError, match="only one can be"):
            await classes.create(_class(f"{namespace}-second", 8, default=True))
        made = await client.resource(core.Pod).create(pod("a", namespace))
        assert (made.spec.priorityClassName, made.spec.priority) == (f"{namespace}-default", -7)
    finally:
        await classes.delete(f"{namespace}-default")
    assert (await client.resource(core.Pod).create(pod("b", namespace))).spec.priority == 0


async def test_own_tolerations_are_kept(client: Client, namespace: str) -> None:
    wanted = pod("a", namespace)
    wanted.spec.tolerations.add(key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute")
    made = await client.resource(core.Pod).create(wanted)
    assert [(item.key, item.HasField("tolerationSeconds")) for item in made.spec.tolerations] == [
        ("node.kubernetes.io/not-ready", False),
        ("node.kubernetes.io/unreachable", True),
    ]
    everything = pod("b", namespace)
    everything.spec.tolerations.add(operator="Exists")
    assert len((await client.resource(core.Pod).create(everything)).spec.tolerations) == 1


async def test_accounts_must_exist(client: Client, namespace: str) -> None:
    wanted = pod("a", namespace)
    wanted.spec.serviceAccountName = "robot"
    with pytest.raises(errors.ForbiddenError, match='serviceaccount "robot" not found'):
        await client.resource(core.Pod).create(wanted)
    account = core.ServiceAccount()
    account.metadata.name, account.metadata.namespace = "robot", namespace
    await client.resource(core.ServiceAccount).create(account)
    assert (await client.resource(core.Pod).create(wanted)).spec.serviceAccount == "robot"


async def test_runtime_classes_are_put_into_the_pod(client: Client, namespace: str) -> None:
    heavy = node.RuntimeClass(handler="runc")
    heavy.metadata.name = f"{namespace}-heavy"
    heavy.overhead.podFixed["cpu"].string = "250m"
    heavy.scheduling.nodeSelector["heavy"] = "yes"
    heavy.scheduling.tolerations.add(key="heavy", operator="Exists")
    await client.resource(node.RuntimeClass).create(heavy)
    wanted = pod("a", namespace)
    wanted.spec.runtimeClassName = heavy.metadata.name
    made = await client.resource(core.Pod).create(wanted)
    assert made.spec.overhead["cpu"].string == "250m"
    assert dict(made.spec.nodeSelector) == {"heavy": "yes"}
    assert "heavy" in [item.key for item in made.spec.tolerations]
    alone, unknown, clash = pod("b", namespace), pod("c", namespace), pod("d", namespace)
    alone.spec.overhead["cpu"].string = "1"
    unknown.spec.runtimeClassName = "no-such-class"
    clash.spec.runtimeClassName = heavy.metadata.name
    clash.spec.nodeSelector["heavy"] = "no"
    for wrong in (alone, unknown, clash):
        with pytest.raises(errors.ForbiddenError, match="pod rejected"):
            await client.resource(core.Pod).create(wrong)
