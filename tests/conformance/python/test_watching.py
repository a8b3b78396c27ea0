"""The package `kubernetes`: watches and informers."""

from __future__ import annotations

import queue
import time
from typing import Any

import pytest

from tests.conformance.python.objects import SECONDS, config_map

kubernetes = pytest.importorskip("kubernetes", reason="needs the extra `test` (pip install -e .[test])")

from kubernetes import informer, watch  # noqa: E402
from kubernetes.client.exceptions import ApiException  # noqa: E402


def test_watches_see_everything_and_end_in_time(core: Any, namespace: str) -> None:
    since = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, config_map("a"))
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
        core.create_namespaced_config_map(namespace, config_map(f"c{number}"))
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
    core.create_namespaced_config_map(namespace, config_map("a"))
    events = watch.Watch().stream(
        core.list_namespaced_config_map, namespace, timeout_seconds=20, allow_watch_bookmarks=True,
        send_initial_events=True, resource_version_match="NotOlderThan",
    )  # fmt: skip
    first, second = next(events), next(events)
    events.close()
    assert (first["type"], second["type"]) == ("ADDED", "BOOKMARK")
    assert second["raw_object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_informers_keep_a_cache(core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("old"))
    shared = informer.SharedInformer(core.list_namespaced_config_map, namespace=namespace, label_selector="app=x")
    heard: queue.Queue[tuple[str, str]] = queue.Queue()
    for kind in (informer.ADDED, informer.MODIFIED, informer.DELETED):
        shared.add_event_handler(kind, lambda obj, kind=kind: heard.put((kind, obj.metadata.name)))
    failures: list[Any] = []
    shared.add_event_handler(informer.ERROR, failures.append)
    shared.start()
    try:
        assert heard.get(timeout=SECONDS) == ("ADDED", "old")
        core.create_namespaced_config_map(namespace, config_map("new"))
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
