"""The STATUS column, state by state; also for every state that a real kubelet was recorded to report."""

# ruff: noqa: E501  (a table with one case a line)

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from wharfinger.api.codec import from_json
from wharfinger.api.tables.pods import summarise
from wharfinger.api.types import core

RECORDED = Path(os.environ.get("WHARFINGER_SHARED", Path(__file__).parents[4] / "shared")) / "golden" / "pods"


def _pod(status: dict[str, Any], *, spec: dict[str, Any] | None = None, **metadata: Any) -> core.Pod:
    default = {"containers": [{"name": "a"}]}
    return from_json(
        {"metadata": {"name": "p", **metadata}, "spec": spec or default, "status": status}, core.Pod
    ).message


def _state(name: str = "a", *, ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state}


READY = {"type": "Ready", "status": "True"}
INITIALISED = {"type": "Initialized", "status": "True"}
TWO_INIT = {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]}
SIDECAR = {"containers": [{"name": "a"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]}
TWO = {"containers": [{"name": "a"}, {"name": "b"}]}


@pytest.mark.parametrize(
    ("pod", "ready", "word", "restarts"),
    [
        (_pod({"phase": "Pending"}), "0/1", "Pending", 0),
        (_pod({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}), "0/1", "SchedulingGated", 0),
        (_pod({"phase": "Pending", "containerStatuses": [_state(waiting={"reason": "ContainerCreating"})]}), "0/1", "ContainerCreating", 0),
        (_pod({"phase": "Running", "containerStatuses": [_state(ready=True, running={})]}), "1/1", "Running", 0),
        (_pod({"phase": "Running", "containerStatuses": [_state(running={})]}), "0/1", "Running", 0),
        (_pod({"phase": "Running", "containerStatuses": [_state(restarts=4, waiting={"reason": "CrashLoopBackOff"})]}), "0/1", "CrashLoopBackOff", 4),
        (_pod({"phase": "Succeeded", "containerStatuses": [_state(terminated={"exitCode": 0, "reason": "Completed"})]}), "0/1", "Completed", 0),
        (_pod({"phase": "Failed", "containerStatuses": [_state(terminated={"exitCode": 1, "reason": "Error"})]}), "0/1", "Error", 0),
        (_pod({"phase": "Failed", "containerStatuses": [_state(terminated={"exitCode": 137})]}), "0/1", "ExitCode:137", 0),
        (_pod({"phase": "Failed", "containerStatuses": [_state(terminated={"exitCode": 137, "signal": 9})]}), "0/1", "Signal:9", 0),
        (_pod({"phase": "Failed", "reason": "Evicted"}), "0/1", "Evicted", 0),
        (_pod({"phase": "Pending", "initContainerStatuses": [_state("i", waiting={"reason": "PodInitializing"})]}, spec=TWO_INIT), "0/1", "Init:0/2", 0),
        (_pod({"phase": "Pending", "initContainerStatuses": [_state("i", running={})]}, spec=TWO_INIT), "0/1", "Init:0/2", 0),
        (_pod({"phase": "Pending", "initContainerStatuses": [_state("i", terminated={"exitCode": 0}), _state("j", running={})]}, spec=TWO_INIT), "0/1", "Init:1/2", 0),
        (_pod({"phase": "Pending", "initContainerStatuses": [_state("i", restarts=3, waiting={"reason": "CrashLoopBackOff"})]}, spec=TWO_INIT), "0/1", "Init:CrashLoopBackOff", 3),
        (_pod({"phase": "Failed", "initContainerStatuses": [_state("i", terminated={"exitCode": 1, "reason": "Error"})]}, spec=TWO_INIT), "0/1", "Init:Error", 0),
        (_pod({"phase": "Failed", "initContainerStatuses": [_state("i", terminated={"exitCode": 3})]}, spec=TWO_INIT), "0/1", "Init:ExitCode:3", 0),
        (_pod({"phase": "Failed", "initContainerStatuses": [_state("i", terminated={"exitCode": 3, "signal": 15})]}, spec=TWO_INIT), "0/1", "Init:Signal:15", 0),
        (_pod({"phase": "Running", "conditions": [INITIALISED], "initContainerStatuses": [_state("i", restarts=5, terminated={"exitCode": 0}), _state("j", terminated={"exitCode": 0})], "containerStatuses": [_state(ready=True, running={})]}, spec=TWO_INIT), "1/1", "Running", 0),
        (_pod({"phase": "Pending", "initContainerStatuses": [{**_state("s", ready=True, restarts=1, running={}), "started": True}, _state("i", running={})]}, spec=SIDECAR), "1/2", "Init:1/2", 1),
        (_pod({"phase": "Running", "conditions": [INITIALISED], "initContainerStatuses": [{**_state("s", ready=True, restarts=1, running={}), "started": True}, _state("i", restarts=2, terminated={"exitCode": 0})], "containerStatuses": [_state(ready=True, running={})]}, spec=SIDECAR), "2/2", "Running", 1),
        (_pod({"phase": "Running", "conditions": [READY], "containerStatuses": [_state("a", terminated={"exitCode": 0, "reason": "Completed"}), _state("b", ready=True, running={})]}, spec=TWO), "1/2", "Running", 0),
        (_pod({"phase": "Running", "containerStatuses": [_state("a", terminated={"exitCode": 0, "reason": "Completed"}), _state("b", ready=True, running={})]}, spec=TWO), "1/2", "NotReady", 0),
        (_pod({"phase": "Running", "containerStatuses": [_state(ready=True, running={})]}, deletionTimestamp="2026-01-01T00:00:00Z"), "1/1", "Terminating", 0),
        (_pod({"phase": "Running", "reason": "NodeLost"}, deletionTimestamp="2026-01-01T00:00:00Z"), "0/1", "Unknown", 0),
        (_pod({"phase": "Succeeded", "containerStatuses": [_state(terminated={"exitCode": 0, "reason": "Completed"})]}, deletionTimestamp="2026-01-01T00:00:00Z"), "0/1", "Completed", 0),
    ],
)  # fmt: skip
def test_words(pod: core.Pod, ready: str, word: str, restarts: int) -> None:
    found = summarise(pod)
    assert (f"{found.ready}/{found.total}", found.status, found.restarts) == (ready, word, restarts)


def test_the_last_restart_is_told() -> None:
    ended = {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}
    status = {**_state(restarts=2, ready=True, running={}), "lastState": {"terminated": ended}}
    found = summarise(_pod({"phase": "Running", "containerStatuses": [status]}))
    assert found.restarts_text(found.last_restart + 90) == "2 (90s ago)"


@pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no recorded pods at {RECORDED}")
def test_recorded_states_have_a_word() -> None:
    known = {
        "Pending", "Running", "Succeeded", "Failed", "Completed", "Error", "OOMKilled", "ContainerCreating",
        "PodInitializing", "CrashLoopBackOff", "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull",
        "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "Terminating", "NotReady",
        "InvalidImageName", "StartError", "ContainerCannotRun", "DeadlineExceeded", "Evicted", "Unknown",
        "PostStartHookError", "SchedulingGated", "ContainerStatusUnknown",
    }  # fmt: skip
    seen: dict[str, str] = {}
    for path in sorted(RECORDED.glob("crash*.yaml")) + sorted(RECORDED.glob("init*.yaml")):
        for entry in yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["statuses"]:
            status = _without_placeholders(entry["status"])
            names = [one["name"] for one in status.get("containerStatuses", [])] or ["a"]
            inits = [{"name": one["name"]} for one in status.get("initContainerStatuses", [])]
            spec = {"containers": [{"name": name} for name in names], "initContainers": inits}
            word = summarise(_pod(status, spec=spec)).status
            if not word.startswith("Init:") and word not in known:
                seen.setdefault(word, path.name)
    assert seen == {}


def _without_placeholders(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_placeholders(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_placeholders(item) for item in value]
    return "2026-01-01T00:00:00Z" if value == "<t>" else value
