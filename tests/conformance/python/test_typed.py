"""The package `kubernetes`: its typed clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.python.objects import config_map, deployment, pod
from tests.support.apiserver import Apiserver

kubernetes = pytest.importorskip("kubernetes", reason="needs the extra `test` (pip install -e .[test])")

from kubernetes import client as k8s  # noqa: E402
from kubernetes import utils  # noqa: E402
from kubernetes.client.exceptions import ApiException  # noqa: E402


def test_objects_go_through_their_life(core: Any, namespace: str) -> None:
    made = core.create_namespaced_config_map(namespace, config_map("a"))
    assert made.metadata.uid
    assert made.metadata.creation_timestamp.tzinfo is not None
    read = core.read_namespaced_config_map("a", namespace)
    assert (read.kind, read.api_version, read.data) == ("ConfigMap", "v1", {"k": "v"})
    read.data = {"k": "2"}
    replaced = core.replace_namespaced_config_map("a", namespace, read)
    assert int(replaced.metadata.resource_version) > int(made.metadata.resource_version)
    listed = core.list_namespaced_config_map(namespace, label_selector="app in (x, y)")
    assert [item.metadata.name for item in listed.items] == ["a"]
    gone = core.delete_namespaced_config_map("a", namespace)
    assert (gone["kind"], gone["status"], gone["details"]["name"]) == ("Status", "Success", "a")
    assert core.list_namespaced_config_map(namespace).items == []


def test_errors_are_exceptions_with_a_status(core: Any, namespace: str) -> None:
    with pytest.raises(ApiException) as missing:
        core.read_namespaced_pod("nobody", namespace)
    status = json.loads(missing.value.body)
    assert (missing.value.status, missing.value.reason) == (404, "Not Found")
    assert (status["kind"], status["reason"], status["details"]["name"]) == ("Status", "NotFound", "nobody")
    core.create_namespaced_config_map(namespace, config_map("a"))
    with pytest.raises(ApiException) as exists:
        core.create_namespaced_config_map(namespace, config_map("a"))
    assert (exists.value.status, json.loads(exists.value.body)["reason"]) == (409, "AlreadyExists")
    stale = core.read_namespaced_config_map("a", namespace)
    core.patch_namespaced_config_map("a", namespace, {"data": {"n": "1"}})
    with pytest.raises(ApiException) as conflict:
        core.replace_namespaced_config_map("a", namespace, stale)
    assert (conflict.value.status, json.loads(conflict.value.body)["reason"]) == (409, "Conflict")
    with pytest.raises(ApiException) as invalid:
        core.create_namespaced_pod(namespace, pod("Bad_Name"))
    status = json.loads(invalid.value.body)
    assert (invalid.value.status, status["reason"]) == (422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.name"
    with pytest.raises(ApiException) as unknown:
        core.patch_namespaced_config_map("a", namespace, {"dat": {}}, field_validation="Strict")
    assert (unknown.value.status, json.loads(unknown.value.body)["reason"]) == (422, "Invalid")


def test_whoever_has_no_rights_is_told_so(server: Apiserver, namespace: str) -> None:
    settings = k8s.Configuration(host=f"https://127.0.0.1:{server.secure_port}")
    settings.ssl_ca_cert = str(server.folder / "ca.crt")
    settings.api_key["authorization"] = settings.api_key["BearerToken"] = "Bearer alice-token"
    with k8s.ApiClient(settings) as alice, pytest.raises(ApiException) as refused:
        k8s.CoreV1Api(alice).list_namespaced_secret(namespace)
    assert (refused.value.status, json.loads(refused.value.body)["reason"]) == (403, "Forbidden")
    settings.api_key["authorization"] = settings.api_key["BearerToken"] = "Bearer nobody's"
    with k8s.ApiClient(settings) as nobody, pytest.raises(ApiException) as unknown:
        k8s.CoreV1Api(nobody).list_namespaced_secret(namespace)
    assert unknown.value.status == 401


def test_lists_come_in_pages(core: Any, namespace: str) -> None:
    for number in range(7):
        core.create_namespaced_config_map(namespace, config_map(f"c{number}"))
    page = core.list_namespaced_config_map(namespace, limit=3)
    first, names = page.metadata.resource_version, [item.metadata.name for item in page.items]
    assert page.metadata.remaining_item_count == 4
    core.create_namespaced_config_map(namespace, config_map("c9-late"))
    while getattr(page.metadata, "_continue"):  # noqa: B009  (private by its name only)
        token = getattr(page.metadata, "_continue")  # noqa: B009
        page = core.list_namespaced_config_map(namespace, limit=3, _continue=token)
        assert page.metadata.resource_version == first
        names += [item.metadata.name for item in page.items]
    assert names == [f"c{number}" for number in range(7)]
    fields = core.list_namespaced_config_map(namespace, field_selector="metadata.name=c3")
    assert [item.metadata.name for item in fields.items] == ["c3"]


PATCHES: list[tuple[str, Any]] = [
    ("application/strategic-merge-patch+json", {"metadata": {"annotations": {"by": "strategic"}}}),
    ("application/merge-patch+json", {"metadata": {"annotations": {"by": "merge"}}}),
    ("application/json-patch+json", [{"op": "add", "path": "/metadata/annotations", "value": {"by": "json"}}]),
]


@pytest.mark.parametrize(("content_type", "patch"), PATCHES, ids=lambda value: str(value)[:32])
def test_patches(core: Any, namespace: str, content_type: str, patch: Any) -> None:
    core.create_namespaced_config_map(namespace, config_map("a"))
    patched = core.patch_namespaced_config_map("a", namespace, patch, _content_type=content_type)
    assert content_type.split("/")[1].startswith(patched.metadata.annotations["by"])
    assert patched.data == {"k": "v"}


def test_patches_without_a_type_go_by_their_shape(core: Any, apps: Any, namespace: str) -> None:
    """A list is a JSON patch; a dict is a strategic merge, so the container is found by its name."""
    apps.create_namespaced_deployment(namespace, deployment("web"))
    image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "registry.example/web:2"}]}}}}
    changed = apps.patch_namespaced_deployment("web", namespace, image)
    assert [c.image for c in changed.spec.template.spec.containers] == ["registry.example/web:2"]
    assert changed.metadata.generation == 2
    steps = [{"op": "test", "path": "/spec/replicas", "value": 5}, {"op": "remove", "path": "/spec/replicas"}]
    with pytest.raises(ApiException) as failed:
        apps.patch_namespaced_deployment("web", namespace, steps)
    assert failed.value.status == 422


def test_server_side_apply(core: Any, namespace: str) -> None:
    kind = "application/apply-patch+yaml"
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "mine"}}

    def apply(manager: str, **more: Any) -> Any:
        return core.patch_namespaced_config_map(
            "a", namespace, wanted, field_manager=manager, _content_type=kind, **more
        )

    made = apply("one")
    assert [(owner.manager, owner.operation) for owner in made.metadata.managed_fields] == [("one", "Apply")]
    wanted["data"] = {"k": "theirs"}
    with pytest.raises(ApiException) as conflict:
        apply("two")
    causes = json.loads(conflict.value.body)["details"]["causes"]
    assert (conflict.value.status, causes[0]["reason"], causes[0]["field"]) == (409, "FieldManagerConflict", ".data.k")
    assert apply("two", force=True).data == {"k": "theirs"}


def test_deletes_take_options(core: Any, apps: Any, namespace: str) -> None:
    made = core.create_namespaced_pod(namespace, pod("p"))
    wrong = k8s.V1DeleteOptions(preconditions=k8s.V1Preconditions(uid="00000000-0000-0000-0000-000000000000"))
    with pytest.raises(ApiException) as refused:
        core.delete_namespaced_pod("p", namespace, body=wrong)
    assert refused.value.status == 409
    trial = core.delete_namespaced_pod("p", namespace, dry_run="All")
    assert trial.metadata.uid == made.metadata.uid
    right = k8s.V1DeleteOptions(
        preconditions=k8s.V1Preconditions(uid=made.metadata.uid),
        grace_period_seconds=0,
        propagation_policy="Background",
    )
    core.delete_namespaced_pod("p", namespace, body=right)
    assert core.list_namespaced_pod(namespace).items == []
    apps.create_namespaced_deployment(namespace, deployment("web"))
    apps.delete_namespaced_deployment("web", namespace, propagation_policy="Foreground")
    waiting = apps.read_namespaced_deployment("web", namespace)
    assert (waiting.metadata.finalizers, bool(waiting.metadata.deletion_timestamp)) == (["foregroundDeletion"], True)
    for name in ("x", "y"):
        core.create_namespaced_config_map(namespace, config_map(name))
    core.delete_collection_namespaced_config_map(namespace, label_selector="app=x")
    assert core.list_namespaced_config_map(namespace).items == []


def test_subresources(core: Any, apps: Any, namespace: str) -> None:
    apps.create_namespaced_deployment(namespace, deployment("web"))
    scale = apps.read_namespaced_deployment_scale("web", namespace)
    assert (scale.spec.replicas, scale.status.selector) == (2, "app=web")
    scale.spec.replicas = 5
    assert apps.replace_namespaced_deployment_scale("web", namespace, scale).spec.replicas == 5
    patched = apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 1}})
    assert patched.spec.replicas == 1
    status = apps.read_namespaced_deployment_status("web", namespace)
    status.status.observed_generation, status.spec.replicas = 3, 99
    told = apps.replace_namespaced_deployment_status("web", namespace, status)
    assert (told.status.observed_generation, told.spec.replicas) == (3, 1)
    core.create_namespaced_pod(namespace, pod("p"))
    condition = {"type": "Ready", "status": "True"}
    ready = core.patch_namespaced_pod_status(
        "p", namespace, {"status": {"phase": "Running", "conditions": [condition]}}
    )
    assert (ready.status.phase, [c.type for c in ready.status.conditions]) == ("Running", ["Ready"])
    core.create_namespaced_pod(namespace, pod("q"))
    target = k8s.V1ObjectReference(kind="Node", name="n1")
    binding = k8s.V1Binding(metadata=k8s.V1ObjectMeta(name="q"), target=target)
    core.create_namespaced_pod_binding("q", namespace, binding, _preload_content=False)
    assert core.read_namespaced_pod("q", namespace).spec.node_name == "n1"
    eviction = k8s.V1Eviction(metadata=k8s.V1ObjectMeta(name="p", namespace=namespace))
    core.create_namespaced_pod_eviction("p", namespace, eviction)


def test_dry_runs_change_nothing(core: Any, namespace: str) -> None:
    tried = core.create_namespaced_config_map(namespace, config_map("a"), dry_run="All")
    assert tried.metadata.uid
    with pytest.raises(ApiException):
        core.read_namespaced_config_map("a", namespace)


def test_other_groups_and_discovery(api: Any, namespace: str) -> None:
    assert k8s.VersionApi(api).get_code().git_version.startswith("v1.")
    assert "apps" in {group.name for group in k8s.ApisApi(api).get_api_versions().groups}
    resources = {resource.name for resource in k8s.AppsV1Api(api).get_api_resources().resources}
    assert {"deployments", "deployments/scale", "replicasets"} <= resources
    batch = k8s.BatchV1Api(api)
    job = {"metadata": {"name": "j"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "registry.example/job:1"}],
    }}}}  # fmt: skip
    assert batch.create_namespaced_job(namespace, job).spec.backoff_limit == 6
    review = k8s.V1SelfSubjectAccessReview(
        spec=k8s.V1SelfSubjectAccessReviewSpec(
            resource_attributes=k8s.V1ResourceAttributes(namespace=namespace, verb="create", resource="pods")
        )
    )
    assert k8s.AuthorizationV1Api(api).create_self_subject_access_review(review).status.allowed
    event = k8s.EventsV1Event(
        metadata=k8s.V1ObjectMeta(name="e"), event_time="2026-01-02T03:04:05.000006Z", type="Normal", reason="Seen",
        action="Look", reporting_controller="example.com/me", reporting_instance="me-1",
        regarding=k8s.V1ObjectReference(kind="Pod", name="p", namespace=namespace),
    )  # fmt: skip
    k8s.EventsV1Api(api).create_namespaced_event(namespace, event)
    found = k8s.CoreV1Api(api).list_namespaced_event(namespace, field_selector="reason=Seen")
    assert [item.involved_object.name for item in found.items] == ["p"]


def test_create_from_yaml(api: Any, core: Any, apps: Any, namespace: str, tmp_path: Path) -> None:
    documents = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "from-yaml"}, "data": {"on": "yes"}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}},
        api.sanitize_for_serialization(deployment("web")) | {"apiVersion": "apps/v1", "kind": "Deployment"},
    ]
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    made = utils.create_from_yaml(api, str(file), namespace=namespace)
    assert len(made) == 3
    assert core.read_namespaced_config_map("from-yaml", namespace).data == {"on": "yes"}
    assert apps.read_namespaced_deployment("web", namespace).spec.replicas == 2
    with pytest.raises(utils.FailToCreateError) as failed:
        utils.create_from_yaml(api, str(file), namespace=namespace)
    assert {error.status for error in failed.value.api_exceptions} == {409}
