"""Bytes put together by hand are the messages that they claim to be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.grpcfront import wire
from controlplane.apiserver.registry.conversion import event_from_group, event_to_group
from controlplane.apiserver.registry.resources import StoredResource
from controlplane.apiserver.request import Answer
from controlplane.apiserver.store import EventType
from controlplane.apiserver.strategies.base import same
from wharfinger.api import kinds, storage
from wharfinger.api.types import core, events, meta
from wharfinger.proto.native import resources_v1_pb2 as native

_POD = kinds.of(core.Pod)


def _pod(name: str) -> core.Pod:
    pod = core.Pod()
    pod.metadata.name = name
    return pod


@given(st.integers(0, 2**64 - 1))
def test_varints(number: int) -> None:
    assert native.Write.FromString(b"\x08" + wire.varint(number)).id == number


@given(name=st.text(max_size=300), warnings=st.lists(st.text(max_size=200), max_size=3))
def test_objects(name: str, warnings: list[str]) -> None:
    raw = _pod(name).SerializeToString()
    made = native.Object.FromString(wire.object_bytes(Answer(_POD, raw, 7), warnings))
    assert (made.object.typeMeta.apiVersion, made.object.typeMeta.kind) == ("v1", "Pod")
    assert made.object.raw == raw
    assert list(made.warnings) == warnings


def test_brief_objects_have_metadata_only() -> None:
    pod = _pod("web")
    pod.metadata.uid, pod.spec.nodeName = "u1", "n1"
    made = native.Object.FromString(wire.object_bytes(Answer(_POD, pod.SerializeToString()), brief=True))
    short = core.Pod.FromString(made.object.raw)
    assert (short.metadata.name, short.metadata.uid, short.HasField("spec")) == ("web", "u1", False)


def test_results_may_be_joined() -> None:
    obj = wire.object_bytes(Answer(_POD, _pod("web").SerializeToString()))
    status = meta.Status(code=409, reason="Conflict")
    joined = native.WriteResults.FromString(wire.result_bytes(1, obj) + wire.error_bytes(300, status))
    assert [(item.id, item.HasField("error")) for item in joined.results] == [(1, False), (300, True)]
    assert joined.results[1].error.reason == "Conflict"


def test_events_may_be_joined() -> None:
    resource = StoredResource(_POD)
    make: Any = wire.event_maker(resource)
    value = storage.encode(_pod("web"))

    def entry(revision: int) -> Any:
        made = SimpleNamespace(value=value, mod_revision=revision, key="/registry/pods/default/web")
        made.served = lambda _, build: build(made)
        return made

    batch = native.WatchBatch.FromString(
        make(SimpleNamespace(type=EventType.ADDED, entry=entry(5), revision=5))
        + make(SimpleNamespace(type=EventType.DELETED, entry=entry(300), revision=300))
        + make(SimpleNamespace(type=EventType.BOOKMARK, entry=None, revision=2**40))
        + wire.initial_end(9)
    )
    assert [(item.type, item.resource_version) for item in batch.events] == [
        (native.ADDED, 5), (native.DELETED, 300), (native.BOOKMARK, 2**40), (native.BOOKMARK, 9),
    ]  # fmt: skip
    assert batch.events[3].initial_events_end
    shown = core.Pod.FromString(batch.events[1].object)
    assert (shown.metadata.name, shown.metadata.resourceVersion) == ("web", "300")


def test_events_of_both_groups_are_one() -> None:
    stored = core.Event(reason="r", message="m", type="Normal", count=3, reportingComponent="c")
    stored.involvedObject.name = "web"
    stored.source.component = "old"
    stored.firstTimestamp.seconds = 5
    stored.series.count = 7
    stored.metadata.name = "e"
    served = event_to_group(stored)
    assert isinstance(served, events.Event)
    assert (served.note, served.regarding.name, served.deprecatedCount, served.series.count) == ("m", "web", 3, 7)
    assert same(event_from_group(served), stored)
