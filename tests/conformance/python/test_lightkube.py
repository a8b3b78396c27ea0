"""The package `lightkube`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.python.objects import SECONDS

lightkube = pytest.importorskip("lightkube", reason="needs the extra `test` (pip install -e .[test])")

from lightkube.core.exceptions import ApiError  # noqa: E402
from lightkube.models import apps_v1, autoscaling_v1, core_v1, meta_v1  # noqa: E402
from lightkube.resources import apps_v1 as lk_apps  # noqa: E402
from lightkube.resources import core_v1 as lk_core  # noqa: E402
from lightkube.types import CascadeType, PatchType  # noqa: E402


@pytest.fixture(scope="module")
def light(kubeconfig: Path) -> Iterator[Any]:
    with lightkube.Client(config=lightkube.KubeConfig.from_file(kubeconfig), field_manager="light") as made:
        yield made


def _light_map(name: str, namespace: str, **data: str) -> Any:
    meta = meta_v1.ObjectMeta(name=name, namespace=namespace, labels={"app": "x"})
    return lk_core.ConfigMap(metadata=meta, data=data or {"k": "v"})


def test_lightkube_does_its_verbs(light: Any, namespace: str) -> None:
    made = light.create(_light_map("a", namespace))
    assert made.metadata.uid
    made.data["k"] = "2"
    assert light.replace(made).data == {"k": "2"}
    for number in range(5):
        light.create(_light_map(f"c{number}", namespace))
    chunks = light.list(lk_core.ConfigMap, namespace=namespace, chunk_size=2, labels={"app": "x"})
    assert [item.metadata.name for item in chunks] == ["a", "c0", "c1", "c2", "c3", "c4"]
    everywhere = light.list(lk_core.ConfigMap, namespace="*", fields={"metadata.namespace": namespace})
    assert len(list(everywhere)) == 6
    with pytest.raises(ApiError) as missing:
        light.get(lk_core.ConfigMap, "nobody", namespace=namespace)
    assert (missing.value.status.code, missing.value.status.reason) == (404, "NotFound")
    with pytest.raises(ApiError) as exists:
        light.create(_light_map("a", namespace))
    assert exists.value.status.reason == "AlreadyExists"
    light.delete(lk_core.ConfigMap, "a", namespace=namespace, cascade=CascadeType.BACKGROUND, grace_period=0)
    light.deletecollection(lk_core.ConfigMap, namespace=namespace)
    assert list(light.list(lk_core.ConfigMap, namespace=namespace)) == []


def test_lightkube_patches_and_applies(light: Any, namespace: str) -> None:
    light.create(_light_map("a", namespace))
    for kind, patch in (
        (PatchType.STRATEGIC, {"data": {"s": "1"}}),
        (PatchType.MERGE, {"data": {"m": "1"}}),
        (PatchType.JSON, [{"op": "add", "path": "/data/j", "value": "1"}]),
    ):
        patched = light.patch(lk_core.ConfigMap, "a", patch, namespace=namespace, patch_type=kind)
    assert patched.data == {"k": "v", "s": "1", "m": "1", "j": "1"}
    wanted = _light_map("b", namespace)
    wanted.apiVersion, wanted.kind = "v1", "ConfigMap"
    assert light.apply(wanted).metadata.managedFields[0].manager == "light"
    wanted.data = {"k": "other"}
    with pytest.raises(ApiError) as conflict:
        light.apply(wanted, field_manager="second")
    assert conflict.value.status.code == 409
    assert light.apply(wanted, field_manager="second", force=True).data == {"k": "other"}


def test_lightkube_subresources(light: Any, namespace: str) -> None:
    template = core_v1.PodTemplateSpec(
        metadata=meta_v1.ObjectMeta(labels={"app": "web"}),
        spec=core_v1.PodSpec(containers=[core_v1.Container(name="main", image="registry.example/web:1")]),
    )
    spec = apps_v1.DeploymentSpec(selector=meta_v1.LabelSelector(matchLabels={"app": "web"}), template=template)
    light.create(lk_apps.Deployment(metadata=meta_v1.ObjectMeta(name="web", namespace=namespace), spec=spec))
    scale = lk_apps.Deployment.Scale(
        metadata=meta_v1.ObjectMeta(name="web", namespace=namespace), spec=autoscaling_v1.ScaleSpec(replicas=4)
    )
    assert light.replace(scale).spec.replicas == 4
    assert light.get(lk_apps.Deployment.Scale, "web", namespace=namespace).spec.replicas == 4
    status = {"status": {"observedGeneration": 2}}
    told = light.patch(lk_apps.Deployment.Status, "web", status, namespace=namespace)
    assert told.status.observedGeneration == 2


def test_lightkube_watches_and_waits(light: Any, namespace: str) -> None:
    nothing = light.list(lk_core.ConfigMap, namespace=namespace)
    assert list(nothing) == []
    before = nothing.resourceVersion
    light.create(_light_map("a", namespace))
    light.patch(lk_core.ConfigMap, "a", {"data": {"k": "2"}}, namespace=namespace, patch_type=PatchType.MERGE)
    light.delete(lk_core.ConfigMap, "a", namespace=namespace)
    events = light.watch(lk_core.ConfigMap, namespace=namespace, resource_version=before, server_timeout=int(SECONDS))
    seen = [next(events)[0] for _ in range(3)]
    assert seen == ["ADDED", "MODIFIED", "DELETED"]
    pod = core_v1.PodSpec(containers=[core_v1.Container(name="main", image="registry.example/web:1")])
    light.create(lk_core.Pod(metadata=meta_v1.ObjectMeta(name="p", namespace=namespace), spec=pod))
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    later = threading.Timer(0.3, lambda: light.patch(lk_core.Pod.Status, "p", ready, namespace=namespace))
    later.start()
    try:
        waited = light.wait(lk_core.Pod, "p", for_conditions=["Ready"], namespace=namespace)
    finally:
        later.join()
    assert waited.metadata.name == "p"
