from __future__ import annotations

import pytest

from nodeagent.env import ConfigError, environment, expand
from tests.unit.nodeagent.podkit import make_pod
from wharfinger.api.quantity import parse
from wharfinger.api.types import core


class Source:
    async def config_map(self, namespace, name):
        return core.ConfigMap(data={"k": "v", "bad=key": "x"}) if name == "cm" else None

    async def secret(self, namespace, name):
        return core.Secret(data={"s": b"\xff!"}) if name == "sec" else None


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("$(A)", "1"), ("$(B)", "$(B)"), ("$$(A)", "$(A)"), ("$$$(A)", "$1"), ("$A", "$A"), ("$(A", "$(A"),
        ("$(A)$(A)", "11"), ("$", "$"), ("$()", "$()"),
    ],
)  # fmt: skip
def test_expansion(text, result):
    assert expand(text, {"A": "1"}) == result


async def of(container, pod=None, status=None):
    pod = pod or make_pod()
    return await environment(
        pod, container, status=status or core.PodStatus(), source=Source(),
        allocatable={"cpu": parse("4"), "memory": parse("8Gi")}, services={"SVC": "x"},
    )  # fmt: skip


async def test_later_variables_see_earlier_ones_and_win_over_services():
    container = core.Container()
    container.env.add(name="A", value="1")
    container.env.add(name="B", value="$(A)-$(SVC)-$(C)")
    container.env.add(name="SVC", value="y")
    assert await of(container) == {"SVC": "y", "A": "1", "B": "1-x-$(C)"}


async def test_fields_and_amounts():
    pod = make_pod()
    pod.metadata.labels["a/b"] = "c"
    container = core.Container(name="c")
    container.resources.limits["cpu"].string = "1500m"
    for name, path in {"N": "metadata.name", "L": "metadata.labels['a/b']", "IP": "status.podIP"}.items():
        container.env.add(name=name).valueFrom.fieldRef.fieldPath = path
    container.env.add(name="CPU").valueFrom.resourceFieldRef.resource = "limits.cpu"
    memory = container.env.add(name="MEM").valueFrom.resourceFieldRef
    memory.resource, memory.divisor.string = "limits.memory", "1Mi"
    found = await of(container, pod, core.PodStatus(podIP="10.0.0.1"))
    assert found == {"SVC": "x", "N": "p", "L": "c", "IP": "10.0.0.1", "CPU": "2", "MEM": "8192"}


async def test_config_maps_and_secrets():
    container = core.Container()
    group = container.envFrom.add(prefix="P_")
    group.configMapRef.localObjectReference.name = "cm"
    key = container.env.add(name="S").valueFrom.secretKeyRef
    key.localObjectReference.name, key.key = "sec", "s"
    found = await of(container)
    assert found["P_k"] == "v"
    assert "P_bad=key" not in found
    assert found["S"].endswith("!")


@pytest.mark.parametrize(("name", "key"), [("no", "k"), ("cm", "no")])
async def test_missing_references_are_errors_unless_optional(name, key):
    container = core.Container()
    reference = container.env.add(name="A").valueFrom.configMapKeyRef
    reference.localObjectReference.name, reference.key = name, key
    with pytest.raises(ConfigError):
        await of(container)
    reference.optional = True
    assert await of(container) == {"SVC": "x"}
