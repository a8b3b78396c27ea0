"""The cases that were recorded of a real kubelet (``golden/pods``), and what differs when this agent plays them.

A case is compared by what must hold on any machine: the states a pod goes through (phase, reasons, exit codes, restart
counts, readiness, conditions) in their order, the state it ends in, which events are said about what, and the logs.
Times, counts of repeated events and texts are not compared. Quick changes may be merged into one status by either side,
so ours must be a subsequence of theirs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

State = dict[str, Any]


@dataclass
class Outcome:
    """What happened in a case."""

    states: list[tuple[str, State]] = field(default_factory=list)
    """Pod name and status as JSON, in order."""
    events: set[tuple[str, str, str, str]] = field(default_factory=set)
    """Pod, type, reason, field path."""
    logs: dict[tuple[str, str], str] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    """What commands in containers printed."""
    samples: list[dict[str, Any]] = field(default_factory=list)
    """What the host shows of containers' limits and rights."""


def load_case(path: Path) -> dict[str, Any]:
    """Return a recorded case."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    case: dict[str, Any] = yaml.load(path.read_text(), Loader=loader)
    return case


def _one_state(state: State | None) -> str:
    if not state:
        return "-"
    kind, value = next(iter(state.items()))
    if kind == "waiting":
        return f"waiting {value.get('reason', '')}"
    if kind == "running":
        return "running"
    message = f" {value['message']}" if value.get("reason") in ("Completed", "Error") and value.get("message") else ""
    known = "" if value.get("containerID") else " (no id)"
    return f"ended {value['exitCode']} {value['reason']}{known}{message}"


def signature(status: State) -> str:
    """Return what is compared of a status, as text that reads well in a failing test."""
    if "conditions" not in status:
        return f"{status.get('phase')} {status.get('reason', '')}"
    parts = [f"{status.get('phase')} {status.get('reason', '')}".strip()]
    for condition in status["conditions"]:
        reason = f"({condition['reason']})" if condition.get("reason") else ""
        parts.append(f"{condition['type']}={condition['status']}{reason}")
    for kind in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(kind, []):
            last = _one_state(one.get("lastState"))
            flags = [name for name in ("ready", "started") if one.get(name)]
            seen = "id" if one.get("containerID") else "no-id"
            mounts = ",".join(mount["mountPath"] for mount in one.get("volumeMounts", []))
            amounts = json.dumps([one.get("resources"), one.get("allocatedResources")], sort_keys=True)
            parts.append(
                f"{one['name']}[{_one_state(one.get('state'))}; last {last}; restarts {one['restartCount']}; "
                f"{' '.join(flags)}; {seen}; {mounts}; {amounts}]"
            )
    return " | ".join(parts)


def merged(signatures: Iterable[str]) -> list[str]:
    """Return a sequence without repetitions of the same state."""
    result: list[str] = []
    for one in signatures:
        if not result or result[-1] != one:
            result.append(one)
    return result


def sequence(states: Iterable[tuple[str, State]], pod: str) -> list[str]:
    """Return the merged signatures of one pod."""
    return merged(signature(status) for name, status in states if name == pod)


def recorded_states(case: dict[str, Any]) -> list[tuple[str, State]]:
    """Return the kubelet's states."""
    return [(entry["pod"], entry["status"]) for entry in case["statuses"]]


def recorded_events(case: dict[str, Any]) -> set[tuple[str, str, str, str]]:
    """Return the kubelet's events."""
    return {
        (event["pod"], event["type"], event["reason"], event.get("fieldPath") or "")
        for event in case.get("events") or []
        if event["component"] == "kubelet"
    }


def recorded_samples(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what was sampled on the kubelet's node, in the form of :func:`goldenplayer.host_view`."""
    result = []
    for entry in case.get("inside") or []:
        if "host_view" in entry:
            view = dict(entry["host_view"])
            view["path"] = re.sub(r"<(uid|id)-\d+>", r"<\1>", view["path"])
            for part in ("container", "pod"):
                view[part] = {name: value for name, value in view[part].items() if name != "pids.max"}
            result.append(view)
    return result


def _lines(log: str) -> list[str]:
    """The order of lines from stdout and stderr is not fixed; the names of volumes' folders hold times."""
    return sorted(re.sub(r"\.\.\d{4}(_\d\d){5}\.\d+", "..<t>", log).splitlines())


def _without_sandbox(shown: str) -> str:
    """When the sandbox is seen to come and go beside the containers is timing."""
    return re.sub(r"PodReadyToStartContainers=\w+", "", shown)


def differences(case: dict[str, Any], outcome: Outcome, also: Iterable[str] = ()) -> list[str]:
    """Return what is not as the kubelet had it, in words; `also`: patterns of states that may be seen besides."""
    found = []
    theirs_all = recorded_states(case)
    for pod in dict.fromkeys(name for name, _ in theirs_all):
        ours, theirs = sequence(outcome.states, pod), sequence(theirs_all, pod)
        allowed = [re.compile(pattern) for pattern in also]
        if not ours:
            found.append(f"{pod}: never seen")
            continue
        position = 0
        shown = [_without_sandbox(one) for one in theirs]
        for one in ours:
            bare = _without_sandbox(one)
            try:
                position = shown.index(bare, position)
            except ValueError:
                if not any(pattern.search(one) for pattern in allowed):
                    place = "shows it, but not in this order" if bare in shown else "never shows it"
                    found.append(f"{pod}: a kubelet {place}: {one}")
        if ours[-1] != theirs[-1]:
            found.append(f"{pod}: ends as  {ours[-1]}\n    instead of {theirs[-1]}")
    for missing in sorted(recorded_events(case) - outcome.events):
        found.append(f"event missing: {missing}")
    for more in sorted(outcome.events - recorded_events(case)):
        if not any(re.search(pattern, f"event {more[2]}") for pattern in also):
            found.append(f"event too many: {more}")
    for ours_seen, theirs_seen in zip(outcome.samples, recorded_samples(case), strict=True):
        for name, value in theirs_seen.items():
            if ours_seen[name] != value:
                found.append(f"host view, {name}: {ours_seen[name]} instead of {value}")
    for entry in case.get("logs") or []:
        key = entry["pod"], entry["container"]
        comparable = (
            not entry["previous"] and entry["http"] == 200 and entry["text"] != "<text>" and key in outcome.logs
        )
        if comparable and _lines(outcome.logs[key]) != _lines(entry["text"]):
            found.append(f"log of {key}: {outcome.logs[key]!r} instead of {entry['text']!r}")
    return found
