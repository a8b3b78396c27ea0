"""The pure rules of single commands: drain, taint, label, wait, why, events."""

from __future__ import annotations

import io
from typing import Any

import pytest

from wharfinger.api.codec import from_json
from wharfinger.api.types import core
from wharfinger.cli.drain import plan
from wharfinger.cli.events import interval, last_seen
from wharfinger.cli.failures import CommandError
from wharfinger.cli.imperative import build
from wharfinger.cli.metadata import split_changes
from wharfinger.cli.nodes import Taint, parse_taints
from wharfinger.cli.wait import parse_goal


def _pod(name: str, *, owner: str = "", phase: str = "Running", **fields: Any) -> core.Pod:
    metadata: dict[str, Any] = {"name": name, "namespace": "x", **fields.pop("metadata", {})}
    if owner:
        kind, _, of = owner.partition("/")
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": of, "uid": "u", "controller": True}
        metadata["ownerReferences"] = [reference]
    document = {"metadata": metadata, "spec": {"containers": [], **fields}, "status": {"phase": phase}}
    return from_json(document, core.Pod).message


EMPTY_DIR = [{"name": "v", "emptyDir": {}}]


@pytest.mark.parametrize(
    ("pod", "flags", "evicted", "refused", "warned"),
    [
        (_pod("a", owner="ReplicaSet/r"), {}, True, "", ""),
        (_pod("a"), {}, False, "declare no controller", ""),
        (_pod("a"), {"force": True}, True, "", "declare no controller"),
        (_pod("a", phase="Succeeded"), {}, True, "", ""),
        (_pod("a", owner="DaemonSet/d"), {}, False, "DaemonSet-managed", ""),
        (_pod("a", owner="DaemonSet/d"), {"ignore_daemonsets": True}, False, "", "ignoring DaemonSet"),
        (_pod("a", owner="DaemonSet/gone"), {"ignore_daemonsets": True}, False, "orphaned DaemonSet", ""),
        (_pod("a", owner="DaemonSet/gone"), {"force": True}, True, "", "orphaned DaemonSet"),
        (_pod("a", owner="ReplicaSet/r", volumes=EMPTY_DIR), {}, False, "local storage", ""),
        (_pod("a", owner="ReplicaSet/r", volumes=EMPTY_DIR), {"delete_emptydir_data": True}, True, "", "local storage"),
        (_pod("a", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}), {}, False, "", ""),
    ],
)
def test_drain(pod: core.Pod, flags: dict[str, bool], evicted: bool, refused: str, warned: str) -> None:
    given = {"force": False, "ignore_daemonsets": False, "delete_emptydir_data": False, **flags}
    found = plan([pod], daemonsets={"x/d"}, **given)
    assert [one.metadata.name for one in found.evict] == (["a"] if evicted else [])
    assert refused in "".join(found.refusals)
    assert bool(refused) == bool(found.refusals)
    assert warned in "".join(found.warnings)
    assert bool(warned) == bool(found.warnings)


def test_drain_says_every_reason_at_once() -> None:
    pods = [_pod("a", volumes=EMPTY_DIR), _pod("b"), _pod("c", owner="ReplicaSet/r", volumes=EMPTY_DIR)]
    found = plan(pods, daemonsets=set(), force=False, ignore_daemonsets=False, delete_emptydir_data=False)
    assert {text.partition(" (")[0]: names for text, names in found.refusals.items()} == {
        "cannot delete Pods that declare no controller": ["x/a", "x/b"],
        "cannot delete Pods with local storage": ["x/a", "x/c"],
    }


_FLAGS: dict[str, Any] = {"images": ["a.example/web.app:1"], "replicas": None, "literals": (), "from_files": ()}


def test_create_deployment_takes_a_command() -> None:
    document = build(["deployment", "web", "sleep", "3600"], _FLAGS)
    assert document["spec"]["template"]["spec"]["containers"] == [
        {"name": "web-app", "image": "a.example/web.app:1", "command": ["sleep", "3600"]}
    ]
    assert "command" not in build(["deploy", "web"], _FLAGS)["spec"]["template"]["spec"]["containers"][0]
    with pytest.raises(CommandError, match="multiple --image options and command"):
        build(["deployment", "web", "sleep"], {**_FLAGS, "images": ["a", "b"]})
    with pytest.raises(CommandError, match="exactly one NAME"):
        build(["namespace", "a", "b"], _FLAGS)


def test_taints() -> None:
    setting, removing = parse_taints(["a=b:NoSchedule", "c:NoExecute", "d-", "e:NoSchedule-"])
    assert setting == [Taint("a", "b", "NoSchedule"), Taint("c", "", "NoExecute")]
    assert removing == [Taint("d", "", ""), Taint("e", "", "NoSchedule")]


@pytest.mark.parametrize("word", ["a=b", "a=b:Never", "=b:NoSchedule", "a b:NoSchedule"])
def test_wrong_taints(word: str) -> None:
    with pytest.raises(CommandError):
        parse_taints([word])
    with pytest.raises(CommandError, match="duplicated"):
        parse_taints(["a=b:NoSchedule", "a=c:NoSchedule"])


def test_labels() -> None:
    assert split_changes(["pod", "web-", "x=y", "z-"]) == (["pod"], {"x": "y"}, ["web", "z"])
    with pytest.raises(CommandError, match="both modify and remove"):
        split_changes(["pod", "web", "x=y", "x-"])
    with pytest.raises(CommandError, match="must be specified before"):
        split_changes(["pod", "x=y", "web"])


@pytest.mark.parametrize(
    ("goal", "status", "met"),
    [
        ("condition=Ready", {"conditions": [{"type": "Ready", "status": "True"}]}, True),
        ("condition=ready", {"conditions": [{"type": "Ready", "status": "True"}]}, True),
        ("condition=Ready=false", {"conditions": [{"type": "Ready", "status": "False"}]}, True),
        ("condition=Ready", {"conditions": [{"type": "Ready", "status": "False"}]}, False),
        ("condition=Ready", {}, False),
        ("jsonpath={.status.phase}=Running", {"phase": "Running"}, True),
        ("jsonpath='{.status.phase}'=Running".replace("'", ""), {"phase": "Pending"}, False),
        ("jsonpath={.status.phase}", {"phase": "Pending"}, True),
        ("jsonpath=.status.phase=Pending", {"phase": "Pending"}, True),
        ("jsonpath={.status.podIP}", {}, False),
        ("create", {}, True),
        ("delete", {}, False),
    ],
)
def test_wait_goals(goal: str, status: dict[str, Any], met: bool) -> None:
    pod = from_json({"metadata": {"name": "a"}, "status": status}, core.Pod).message
    assert parse_goal(goal)(pod) is met


def test_an_absent_object() -> None:
    assert parse_goal("delete")(None) is True
    assert parse_goal("create")(None) is False


@pytest.mark.parametrize("goal", ["", "condition=", "soon", "jsonpath={.a", "jsonpath={.a}b"])
def test_unknown_goals(goal: str) -> None:
    with pytest.raises(CommandError):
        parse_goal(goal)


def test_events() -> None:
    event = core.Event(count=3)
    event.firstTimestamp.seconds, event.lastTimestamp.seconds = 1000, 1300
    assert last_seen(event) == 1300
    assert interval(event, 1310) == "10s (x3 over 5m10s)"
    event.count = 1
    assert interval(event, 1310) == "10s"


def test_why_shows_numbers_and_suggestions() -> None:
    from rich.console import Console

    from wharfinger.cli.why import as_document, show
    from wharfinger.proto.native import scheduling_v1_pb2 as scheduling

    explanation = scheduling.Explanation(
        namespace="x", pod="web", scheduler="default-scheduler", state="unschedulable", attempts=2, age_seconds=7,
        message="0/2 nodes are available: 1 Insufficient cpu.", suggestions=["request 1 cpu or less"],
        nodes=[
            scheduling.NodeVerdict(
                node="n1",
                refusals=[
                    scheduling.Refusal(
                        plugin="NodeResourcesFit", code="Unschedulable", reason="Insufficient cpu",
                        detail="needs 2 cpu, 1.5 free of 4",
                    )
                ],
            ),
            scheduling.NodeVerdict(
                node="n2", feasible=True, total=150,
                scores=[scheduling.PluginScore(plugin="NodeAffinity", raw=5, normalised=75, weight=2)],
            ),
        ],
    )  # fmt: skip
    out = io.StringIO()
    show(Console(file=out, width=200, highlight=False), explanation, wide=False, limit=10)
    text = out.getvalue()
    for words in ("fits nowhere", "needs 2 cpu, 1.5 free of 4", "NodeAffinity=75x2", "request 1 cpu or less", "7s ago"):
        assert words in text
    assert as_document(explanation)["nodes"][1]["total"] == 150
