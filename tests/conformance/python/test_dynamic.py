"""The package `kubernetes`: the dynamic client and leader election."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.python.objects import SECONDS, deployment

kubernetes = pytest.importorskip("kubernetes", reason="needs the extra `test` (pip install -e .[test])")

from kubernetes import client as k8s  # noqa: E402
from kubernetes import dynamic, watch  # noqa: E402
from kubernetes.dynamic import exceptions as dynamic_errors  # noqa: E402
from kubernetes.leaderelection import electionconfig  # noqa: E402
from kubernetes.leaderelection.leaderelection import LeaderElection  # noqa: E402
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock  # noqa: E402


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
    web = api.sanitize_for_serialization(deployment("web"))
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
