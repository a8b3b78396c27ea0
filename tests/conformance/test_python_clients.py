"""The Python packages `kubernetes` (typed, dynamic, informers, leader election) and `lightkube`, unchanged.

Everything goes over TLS with a client certificate out of a kubeconfig, as a user of those packages would have it. What
needs containers (exec, port-forward) is in ``test_python_streams.py``.
"""

from __future__ import annotations

import itertools
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd, have_etcd
from wharfinger import pki

kubernetes = pytest.importorskip("kubernetes", reason="needs the extra `test` (pip install -e .[test])")
lightkube = pytest.importorskip("lightkube", reason="needs the extra `test` (pip install -e .[test])")

from kubernetes import client as k8s  # noqa: E402
from kubernetes import config as k8s_config  # noqa: E402
from kubernetes import dynamic, informer, leaderelection, utils, watch  # noqa: E402
from kubernetes.client.exceptions import ApiException  # noqa: E402
from kubernetes.dynamic import exceptions as dynamic_errors  # noqa: E402
from kubernetes.leaderelection import electionconfig  # noqa: E402
from kubernetes.leaderelection.leaderelection import LeaderElection  # noqa: E402
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock  # noqa: E402
from lightkube.core.exceptions import ApiError  # noqa: E402
from lightkube.models import apps_v1, autoscaling_v1, core_v1, meta_v1  # noqa: E402
from lightkube.resources import apps_v1 as lk_apps  # noqa: E402
from lightkube.resources import core_v1 as lk_core  # noqa: E402
from lightkube.types import CascadeType, PatchType  # noqa: E402

assert leaderelection is not None
_numbers = itertools.count(1)
SECONDS = 20.0
"""How long anything may take before a test gives up."""


@pytest.fixture(scope="module")
def server() -> Iterator[Apiserver]:
    if not have_etcd():
        pytest.skip("needs an etcd binary on the path (apt install etcd-server etcd-client)")
    with Etcd() as etcd:
        for number in range(3):
            etcd.ctl("put", "/elsewhere", str(number))
        etcd.ctl("compact", "3")  # so that there is a past which nobody knows any more
        with Apiserver(etcd.endpoint) as running:
            yield running


@pytest.fixture(scope="module")
def kubeconfig(server: Apiserver, tmp_path_factory: pytest.TempPathFactory) -> Path:
    server.config()  # makes the admin's certificate
    pair = pki.read_pair(server.folder, "admin")
    return pki.write_kubeconfig(
        tmp_path_factory.mktemp("python") / "kubeconfig",
        server=f"https://127.0.0.1:{server.secure_port}", ca=pki.load_ca(server.folder).cert,
        cert=pair.cert, key=pair.key, user="admin", cluster="test", context="test",
    )  # fmt: skip


@pytest.fixture(scope="module")
def api(kubeconfig: Path) -> Iterator[Any]:
    """The package's client, also as its default: watches and locks make one of their own."""
    k8s_config.load_kube_config(str(kubeconfig))
    with k8s.ApiClient() as made:
        yield made


@pytest.fixture(scope="module")
def core(api: Any) -> Any:
    return k8s.CoreV1Api(api)


@pytest.fixture(scope="module")
def apps(api: Any) -> Any:
    return k8s.AppsV1Api(api)


@pytest.fixture
def namespace(core: Any) -> str:
    name = f"py{next(_numbers)}"
    core.create_namespace(k8s.V1Namespace(metadata=k8s.V1ObjectMeta(name=name)))
    core.create_namespaced_service_account(name, k8s.V1ServiceAccount(metadata=k8s.V1ObjectMeta(name="default")))
    return name


def _config_map(name: str, **data: str) -> Any:
    return k8s.V1ConfigMap(metadata=k8s.V1ObjectMeta(name=name, labels={"app": "x"}), data=data or {"k": "v"})


def _pod(name: str, image: str = "registry.example/web:1") -> Any:
    spec = k8s.V1PodSpec(containers=[k8s.V1Container(name="main", image=image)], termination_grace_period_seconds=0)
    return k8s.V1Pod(metadata=k8s.V1ObjectMeta(name=name, labels={"app": "web"}), spec=spec)


def _deployment(name: str, replicas: int = 2) -> Any:
    template = k8s.V1PodTemplateSpec(
        metadata=k8s.V1ObjectMeta(labels={"app": name}),
        spec=k8s.V1PodSpec(containers=[k8s.V1Container(name="main", image="registry.example/web:1")]),
    )
    spec = k8s.V1DeploymentSpec(
        replicas=replicas, selector=k8s.V1LabelSelector(match_labels={"app": name}), template=template
    )
    return k8s.V1Deployment(metadata=k8s.V1ObjectMeta(name=name), spec=spec)


def _wait(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)
    return found


# --- kubernetes: typed clients ----------------------------------------------------------------------------------------


def test_objects_go_through_their_life(core: Any, namespace: str) -> None:
    made = core.create_namespaced_config_map(namespace, _config_map("a"))
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
    core.create_namespaced_config_map(namespace, _config_map("a"))
    with pytest.raises(ApiException) as exists:
        core.create_namespaced_config_map(namespace, _config_map("a"))
    assert (exists.value.status, json.loads(exists.value.body)["reason"]) == (409, "AlreadyExists")
    stale = core.read_namespaced_config_map("a", namespace)
    core.patch_namespaced_config_map("a", namespace, {"data": {"n": "1"}})
    with pytest.raises(ApiException) as conflict:
        core.replace_namespaced_config_map("a", namespace, stale)
    assert (conflict.value.status, json.loads(conflict.value.body)["reason"]) == (409, "Conflict")
    with pytest.raises(ApiException) as invalid:
        core.create_namespaced_pod(namespace, _pod("Bad_Name"))
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
        core.create_namespaced_config_map(namespace, _config_map(f"c{number}"))
    page = core.list_namespaced_config_map(namespace, limit=3)
    first, names = page.metadata.resource_version, [item.metadata.name for item in page.items]
    assert page.metadata.remaining_item_count == 4
    core.create_namespaced_config_map(namespace, _config_map("c9-late"))
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
    core.create_namespaced_config_map(namespace, _config_map("a"))
    patched = core.patch_namespaced_config_map("a", namespace, patch, _content_type=content_type)
    assert content_type.split("/")[1].startswith(patched.metadata.annotations["by"])
    assert patched.data == {"k": "v"}


def test_patches_without_a_type_go_by_their_shape(core: Any, apps: Any, namespace: str) -> None:
    """A list is a JSON patch; a dict is a strategic merge, so the container is found by its name."""
    apps.create_namespaced_deployment(namespace, _deployment("web"))
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
    pod = core.create_namespaced_pod(namespace, _pod("p"))
    wrong = k8s.V1DeleteOptions(preconditions=k8s.V1Preconditions(uid="00000000-0000-0000-0000-000000000000"))
    with pytest.raises(ApiException) as refused:
        core.delete_namespaced_pod("p", namespace, body=wrong)
    assert refused.value.status == 409
    trial = core.delete_namespaced_pod("p", namespace, dry_run="All")
    assert trial.metadata.uid == pod.metadata.uid
    right = k8s.V1DeleteOptions(
        preconditions=k8s.V1Preconditions(uid=pod.metadata.uid), grace_period_seconds=0, propagation_policy="Background"
    )
    core.delete_namespaced_pod("p", namespace, body=right)
    assert core.list_namespaced_pod(namespace).items == []
    apps.create_namespaced_deployment(namespace, _deployment("web"))
    apps.delete_namespaced_deployment("web", namespace, propagation_policy="Foreground")
    waiting = apps.read_namespaced_deployment("web", namespace)
    assert (waiting.metadata.finalizers, bool(waiting.metadata.deletion_timestamp)) == (["foregroundDeletion"], True)
    for name in ("x", "y"):
        core.create_namespaced_config_map(namespace, _config_map(name))
    core.delete_collection_namespaced_config_map(namespace, label_selector="app=x")
    assert core.list_namespaced_config_map(namespace).items == []


def test_subresources(core: Any, apps: Any, namespace: str) -> None:
    apps.create_namespaced_deployment(namespace, _deployment("web"))
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
    core.create_namespaced_pod(namespace, _pod("p"))
    condition = {"type": "Ready", "status": "True"}
    ready = core.patch_namespaced_pod_status(
        "p", namespace, {"status": {"phase": "Running", "conditions": [condition]}}
    )
    assert (ready.status.phase, [c.type for c in ready.status.conditions]) == ("Running", ["Ready"])
    core.create_namespaced_pod(namespace, _pod("q"))
    target = k8s.V1ObjectReference(kind="Node", name="n1")
    binding = k8s.V1Binding(metadata=k8s.V1ObjectMeta(name="q"), target=target)
    core.create_namespaced_pod_binding("q", namespace, binding, _preload_content=False)
    assert core.read_namespaced_pod("q", namespace).spec.node_name == "n1"
    eviction = k8s.V1Eviction(metadata=k8s.V1ObjectMeta(name="p", namespace=namespace))
    core.create_namespaced_pod_eviction("p", namespace, eviction)


def test_dry_runs_change_nothing(core: Any, namespace: str) -> None:
    tried = core.create_namespaced_config_map(namespace, _config_map("a"), dry_run="All")
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
        api.sanitize_for_serialization(_deployment("web")) | {"apiVersion": "apps/v1", "kind": "Deployment"},
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


# --- kubernetes: watches ----------------------------------------------------------------------------------------------


def test_watches_see_everything_and_end_in_time(core: Any, namespace: str) -> None:
    since = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, _config_map("a"))
    core.patch_namespaced_config_map("a", namespace, {"data": {"k": "2"}})
    core.delete_namespaced_config_map("a", namespace)
    stream = watch.Watch()
    started = time.monotonic()
    seen = list(stream.stream(core.list_namespaced_config_map, namespace, resource_version=since, timeout_seconds=1))
    assert [event["type"] for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert [event["object"].data["k"] for event in seen] == ["v", "2", "2"]
    assert time.monotonic() - started < SECONDS


def test_watches_resume_where_they_were(core: Any, namespace: str) -> None:
    stream = watch.Watch()
    names: list[str] = []
    for number in range(6):
        core.create_namespaced_config_map(namespace, _config_map(f"c{number}"))
    position = None
    while len(names) < 6:  # each watch is left after two events, as if the connection had broken
        arguments = {} if position is None else {"resource_version": position}
        events = stream.stream(core.list_namespaced_config_map, namespace, timeout_seconds=20, **arguments)
        for taken, event in enumerate(events, start=1):
            names.append(event["object"].metadata.name)
            position = event["object"].metadata.resource_version
            if taken == 2:
                stream.stop()
    assert names == [f"c{number}" for number in range(6)]


def test_a_watch_from_too_long_ago_is_gone(core: Any, namespace: str) -> None:
    with pytest.raises(ApiException) as gone:
        list(watch.Watch().stream(core.list_namespaced_config_map, namespace, resource_version="1", timeout_seconds=5))
    assert gone.value.status == 410


def test_a_list_as_a_stream_ends_with_its_bookmark(api: Any, core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, _config_map("a"))
    events = watch.Watch().stream(
        core.list_namespaced_config_map, namespace, timeout_seconds=20, allow_watch_bookmarks=True,
        send_initial_events=True, resource_version_match="NotOlderThan",
    )  # fmt: skip
    first, second = next(events), next(events)
    events.close()
    assert (first["type"], second["type"]) == ("ADDED", "BOOKMARK")
    assert second["raw_object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_informers_keep_a_cache(core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, _config_map("old"))
    shared = informer.SharedInformer(core.list_namespaced_config_map, namespace=namespace, label_selector="app=x")
    heard: queue.Queue[tuple[str, str]] = queue.Queue()
    for kind in (informer.ADDED, informer.MODIFIED, informer.DELETED):
        shared.add_event_handler(kind, lambda obj, kind=kind: heard.put((kind, obj.metadata.name)))
    failures: list[Any] = []
    shared.add_event_handler(informer.ERROR, failures.append)
    shared.start()
    try:
        assert heard.get(timeout=SECONDS) == ("ADDED", "old")
        core.create_namespaced_config_map(namespace, _config_map("new"))
        assert heard.get(timeout=SECONDS) == ("ADDED", "new")
        core.patch_namespaced_config_map("new", namespace, {"data": {"k": "2"}})
        assert heard.get(timeout=SECONDS) == ("MODIFIED", "new")
        assert shared.cache.get_by_key(f"{namespace}/new").data == {"k": "2"}
        core.delete_namespaced_config_map("old", namespace)
        assert heard.get(timeout=SECONDS) == ("DELETED", "old")
        assert shared.cache.list_keys() == [f"{namespace}/new"]
        assert failures == []
    finally:
        shared.stop()


# --- kubernetes: dynamic client and leader election -------------------------------------------------------------------


def test_the_dynamic_client(api: Any, namespace: str, tmp_path: Path) -> None:
    dyn = dynamic.DynamicClient(api, cache_file=str(tmp_path / "discovery"))
    maps = dyn.resources.get(api_version="v1", kind="ConfigMap")
    assert (maps.namespaced, maps.name) == (True, "configmaps")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    assert maps.create(body=body, namespace=namespace).data.k == "v"
    assert maps.get(name="a", namespace=namespace).metadata.name == "a"
    merge = maps.patch(
        body={"metadata": {"name": "a"}, "data": {"k": "2"}}, namespace=namespace,
        content_type="application/merge-patch+json",
    )  # fmt: skip
    assert merge.data.k == "2"
    applied = maps.server_side_apply(body=body, namespace=namespace, field_manager="dyn", force_conflicts=True)
    assert applied.metadata.managedFields[0].manager
    seen = []
    watcher = watch.Watch()
    for event in maps.watch(namespace=namespace, resource_version="0", timeout=20, watcher=watcher):
        seen.append((event["type"], event["object"].metadata.name))
        watcher.stop()
    assert seen == [("ADDED", "a")]
    with pytest.raises(dynamic_errors.ConflictError):
        maps.create(body=body, namespace=namespace)
    maps.delete(name="a", namespace=namespace)
    with pytest.raises(dynamic_errors.NotFoundError):
        maps.get(name="a", namespace=namespace)
    deployments = dyn.resources.get(api_version="apps/v1", kind="Deployment")
    web = api.sanitize_for_serialization(_deployment("web"))
    deployments.create(body=web, namespace=namespace)
    scaled = deployments.scale.patch(
        name="web", namespace=namespace, body={"spec": {"replicas": 7}}, content_type="application/merge-patch+json"
    )
    assert scaled.spec.replicas == 7
    assert len(dyn.resources.search(kind="Event")) >= 2
    with pytest.raises(dynamic_errors.ResourceNotFoundError):
        dyn.resources.get(api_version="v1", kind="Sprocket")


def test_leaders_are_elected_and_followed(api: Any, core: Any, namespace: str) -> None:
    """Two candidates over a Lease; the second one leads only once the first has stopped renewing."""
    led: queue.Queue[str] = queue.Queue()
    locks = {name: LeaseLock("lock", namespace, name) for name in ("one", "two")}

    def run(name: str) -> LeaderElection:
        return LeaderElection(
            electionconfig.Config(
                locks[name], lease_duration=3, renew_deadline=2, retry_period=1,
                onstarted_leading=lambda: led.put(name), onstopped_leading=lambda: led.put(f"{name} stopped"),
            )
        )  # fmt: skip

    threading.Thread(target=run("one").run, daemon=True).start()
    assert led.get(timeout=SECONDS) == "one"
    coordination = k8s.CoordinationV1Api(api)
    assert coordination.read_namespaced_lease("lock", namespace).spec.holder_identity == "one"
    assert run("two").try_acquire_or_renew() is False
    # Its connection breaks, so to speak: the leader can no longer write, and must step down.
    locks["one"].update = lambda *_: False
    assert led.get(timeout=SECONDS) == "one stopped"
    threading.Thread(target=run("two").run, daemon=True).start()
    assert led.get(timeout=SECONDS) == "two"
    assert coordination.read_namespaced_lease("lock", namespace).spec.holder_identity == "two"
    locks["two"].update = lambda *_: False
    assert led.get(timeout=SECONDS) == "two stopped"


# --- lightkube --------------------------------------------------------------------------------------------------------


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
