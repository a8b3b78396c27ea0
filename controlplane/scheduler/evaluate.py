"""Compare this engine with recorded decisions of the real kube-scheduler, and say where they differ.

``python -m controlplane.scheduler.evaluate check FILE…`` reads files of cases (JSON lines, plain or gzip: nodes, pods,
one pod to place, what was decided) and ends with ``N passed, M failed``. Plugins that exist only there (volumes,
dynamic resources) are passed over: no recorded case depends on them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from controlplane.scheduler.config import read
from controlplane.scheduler.decisions import Diagnosis
from controlplane.scheduler.engine import Engine
from controlplane.scheduler.framework import Code, Ints, Refusal
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.nominationverdicts import refusals_by_nomination
from controlplane.scheduler.observed import ObservedNode, is_leaving, started
from controlplane.scheduler.plugins import REGISTRY
from controlplane.scheduler.podinfo import TERMINAL, PodTable
from controlplane.scheduler.preemption import Preemption
from controlplane.scheduler.profile import Profile
from controlplane.scheduler.surroundings import read_budget
from controlplane.scheduler.victims import Candidate
from wharfinger.api import codec, labels, quantity
from wharfinger.api.types import core, meta, policy


def read_cases(path: Path) -> Iterator[dict[str, Any]]:
    """Read the cases of a file."""
    with path.open("rb") as file:
        lines = gzip.open(file, "rt") if path.suffix == ".gz" else file  # noqa: SIM115
        for line in lines:
            if line.strip():
                yield json.loads(line)


def profile_of(config: Mapping[str, Any] | None) -> Profile:
    """Build the profile of a case from its KubeSchedulerConfiguration. Raises ConfigError."""
    return read(config).profiles[0] if config else Profile()


def _pod(data: Mapping[str, Any]) -> core.Pod:
    """Decode a pod; quantities are rounded up to thousandths one by one, as the apiserver does when it stores them."""
    pod = codec.from_json(dict(data), core.Pod).message
    for container in (*pod.spec.initContainers, *pod.spec.containers):
        for resources in (container.resources.requests, container.resources.limits):
            for amount in resources.values():
                amount.string = str(quantity.Quantity.of_milli(quantity.milli_value(amount.string)))
    return pod


def place(table: NodeTable, pods: PodTable, pod: core.Pod) -> None:
    """Count a pod on its node."""
    metadata = pod.metadata
    table.place(
        f"{metadata.namespace}/{metadata.name}",
        pod.spec.nodeName,
        pods.usage(pod),
        pods.peer(pod),
        priority=pod.spec.priority,
        started=started(pod),
        leaving=is_leaving(pod),
    )


def take_surroundings(table: NodeTable, case: Mapping[str, Any]) -> None:
    """Take in the namespaces and workloads of a case."""
    for data in case.get("namespaces") or []:
        table.set_namespace(data["metadata"]["name"], dict(data["metadata"].get("labels") or {}))
    for data in case.get("services") or []:
        metadata = data["metadata"]
        table.workloads.set_service(metadata["namespace"], metadata["name"], data["spec"].get("selector"))
    for data in case.get("replicationControllers") or []:
        metadata = data["metadata"]
        selector = labels.from_map(data["spec"].get("selector") or {})
        table.workloads.set_owner("ReplicationController", metadata["namespace"], metadata["name"], selector)
    for field, kind in (("replicaSets", "ReplicaSet"), ("statefulSets", "StatefulSet")):
        for data in case.get(field) or []:
            metadata = data["metadata"]
            message = codec.from_json(data["spec"].get("selector") or {}, meta.LabelSelector).message
            selector = labels.from_label_selector(message)
            table.workloads.set_owner(kind, metadata["namespace"], metadata["name"], selector)
    table.basis += 1


class Outcome:
    """What this engine makes of a case."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.profile = profile_of(case.get("config"))
        self.engine = Engine([self.profile])
        self.table = self.engine.table
        pods = self.engine.pods
        take_surroundings(self.table, case)
        for node in case["nodes"]:
            self.table.set_node(ObservedNode.of(codec.from_json(node, core.Node).message))
        for data in case["pods"]:
            pod = _pod(data)
            if pod.status.phase in TERMINAL:
                continue
            if pod.spec.nodeName:
                place(self.table, pods, pod)
            elif pod.status.nominatedNodeName:
                self.engine.nominate(pods.info(pod), pod.status.nominatedNodeName)
        for index, data in enumerate(case.get("pdbs") or []):
            self.engine.budgets[str(index)] = read_budget(codec.from_json(data, policy.PodDisruptionBudget).message)
        self.info = pods.info(_pod(case["pod"]))
        self.engine.nominate(self.info, self.info.nominated)
        self.state = self.engine.state(self.info)
        self.nominated = refusals_by_nomination(self.info, self.state, self.engine.nominations)
        narrowed = self.engine.narrowed_by_nominations(self.state, self.info) if self.engine.nominations else None
        self.mask = self.state.feasible if narrowed is None else np.zeros_like(self.state.feasible)
        if isinstance(narrowed, np.ndarray):
            self.mask = narrowed
        self.names = list(self.table.rows)

    def refusals(self) -> dict[str, dict[str, Refusal]]:
        """Return plugin -> node -> refusal, each plugin alone."""
        result: dict[str, dict[str, Refusal]] = {}
        for column in self.state.filters:
            codes = column.codes
            result[column.filter.plugin] = {
                name: column.filter.refusal(int(codes[row])) for name, row in self.table.rows.items() if codes[row]
            }
        return result

    def first_refusals(self) -> dict[str, tuple[str | None, str, list[str]]]:
        """Return node -> plugin, code and reasons of the refusal that counts: the first in the order of filters.

        A node that is left out because a plugin allows only named ones counts without a plugin.
        """
        whole = self.state.refusal
        allowed = [column.filter.only for column in self.state.filters if column.filter.only is not None]
        names = ", ".join(column.filter.plugin for column in self.state.filters if column.filter.only is not None)
        result: dict[str, tuple[str | None, str, list[str]]] = {}
        for name, row in self.table.rows.items():
            refusal = self.nominated.get(row, whole)
            if refusal is not None:
                result[name] = (refusal.plugin, refusal.code.value, sorted(refusal.reasons))
                continue
            if any(name not in only for only in allowed):
                reason = f"node(s) didn't satisfy plugin(s) [{names}]"
                result[name] = (None, Code.UNRESOLVABLE.value, [reason])
                continue
            for column in self.state.filters:
                if column.codes[row]:
                    refusal = column.filter.refusal(int(column.codes[row]))
                    result[name] = (refusal.plugin, refusal.code.value, sorted(refusal.reasons))
                    break
        return result

    def feasible(self) -> list[str]:
        """Return the sorted names of nodes that pass everything, nominated pods included."""
        return sorted(name for name, row in self.table.rows.items() if self.mask[row])

    def scores(self) -> dict[str, tuple[Ints, Ints]]:
        """Return plugin -> raw and normalised scores over the feasible nodes."""
        result = {}
        for scored in self.state.scores:
            raw, scaled = (
                (scored.raw, scored.scaled) if self.mask is self.state.feasible else scored.seen_with(self.mask)
            )
            result[scored.score.plugin] = (scored.score.published(raw), scaled)
        return result

    def preemption(self) -> Preemption | None:
        """Return who would have to go, if no node is feasible."""
        decision = self.engine.decide(self.info)
        return self.engine.preempt(self.info, decision) if isinstance(decision, Diagnosis) else None


def compare(case: Mapping[str, Any]) -> list[str]:
    """Return how the engine differs from what was recorded; empty when it agrees."""
    expect = case["expect"]
    outcome = Outcome(case)
    problems = _compare_gates(expect, outcome)
    problems += _compare_filters(expect, outcome)
    if "feasible" in expect and sorted(expect["feasible"] or []) != outcome.feasible():
        problems.append(f"feasible: {outcome.feasible()}, recorded {expect['feasible']}")
    problems += _compare_first_refusals(expect, outcome)
    problems += _compare_scores(expect, outcome)
    problems += _compare_preemption(expect, outcome)
    return problems


def _compare_gates(expect: Mapping[str, Any], outcome: Outcome) -> list[str]:
    gate = outcome.profile.gate(outcome.info)
    recorded = set(expect.get("preEnqueue") or {}) & set(REGISTRY)
    ours = {gate.plugin} if gate else set()
    return [] if ours == recorded else [f"preEnqueue: {ours or 'none'}, recorded {recorded or 'none'}"]


def _compare_filters(expect: Mapping[str, Any], outcome: Outcome) -> list[str]:
    problems = []
    ours = outcome.refusals()
    whole = outcome.state.refusal
    for plugin, verdict in (expect.get("filters") or {}).items():
        if plugin not in REGISTRY:
            continue
        before = (verdict.get("preFilter") or {}).get("code", "Success")
        if before not in ("Success", "Skip"):
            if whole is None or whole.plugin != plugin or whole.code.value != before:
                problems.append(f"{plugin}: {whole}, recorded {before} for the pod as a whole")
            continue
        recorded = {
            node: (entry["code"], sorted(entry["reasons"])) for node, entry in (verdict.get("nodes") or {}).items()
        }
        found = {node: (refusal.code.value, sorted(refusal.reasons)) for node, refusal in ours.get(plugin, {}).items()}
        if found != recorded:
            nodes = sorted(node for node in found.keys() | recorded.keys() if found.get(node) != recorded.get(node))
            shown = "; ".join(f"{node}: {found.get(node)}, recorded {recorded.get(node)}" for node in nodes[:3])
            problems.append(f"{plugin}: {shown}")
    return problems


def _compare_first_refusals(expect: Mapping[str, Any], outcome: Outcome) -> list[str]:
    if expect.get("nodeStatus") is None or expect.get("nominatedNodeShortcut"):
        return []
    recorded = {
        node: (entry.get("plugin"), entry["code"], sorted(entry["reasons"]))
        for node, entry in expect["nodeStatus"].items()
    }
    found = outcome.first_refusals()
    return [
        f"nodeStatus {node}: {found.get(node)}, recorded {recorded.get(node)}"
        for node in sorted(found.keys() | recorded.keys())
        if found.get(node) != recorded.get(node)
    ]


def _compare_scores(expect: Mapping[str, Any], outcome: Outcome) -> list[str]:
    problems = []
    rows = outcome.table.rows
    state = outcome.state
    ours = outcome.scores()
    for plugin, recorded in (expect.get("scores") or {}).items():
        if plugin not in REGISTRY:
            continue
        scored = ours.get(plugin)
        if recorded.get("preScore") == "Skip":
            if scored is not None and scored[1][outcome.mask].any():
                problems.append(f"{plugin}: scores, recorded nothing to say")
            continue
        if scored is None:
            if any(recorded["raw"].values()) or any(recorded["normalized"].values()):
                problems.append(f"{plugin}: no scores, recorded {recorded}")
            continue
        for field, values in zip(("raw", "normalized"), scored, strict=True):
            found = {node: int(values[rows[node]]) for node in recorded[field]}
            if found != recorded[field]:
                wrong = {
                    node: (found[node], recorded[field][node]) for node in found if found[node] != recorded[field][node]
                }
                problems.append(f"{plugin} {field} (ours, recorded): {wrong}")
    total = expect.get("total")
    if total:
        totals = state.total if outcome.mask is state.feasible else state.narrowed(outcome.mask)
        found = {node: int(totals[rows[node]]) for node in total}
        if found != total:
            problems.append(f"total: {found}, recorded {total}")
        best = sorted(name for name, row in rows.items() if totals[row] == totals.max())
        if expect.get("best") and best != sorted(expect["best"]):
            problems.append(f"best: {best}, recorded {expect['best']}")
    return problems


def _compare_preemption(expect: Mapping[str, Any], outcome: Outcome) -> list[str]:
    recorded = expect.get("preemption")
    if recorded is None:
        return []
    found = outcome.preemption()
    if found is None:
        return ["preemption: none, recorded one"]
    problems = []
    status = recorded["status"]
    reasons = [found.message] if found.message else []
    ours = "Unschedulable" if found.message else "Success"
    if ours != status["code"] or reasons != (status.get("reasons") or []):
        problems.append(f"preemption: {ours} {reasons}, recorded {status}")
    candidates = {candidate.node: candidate for candidate in found.candidates}
    listed = {entry["node"]: entry for entry in recorded.get("candidates") or []}
    if candidates.keys() != listed.keys():
        problems.append(f"candidates: {sorted(candidates)}, recorded {sorted(listed)}")
    for node in candidates.keys() & listed.keys():
        problems += _compare_victims(candidates[node], listed[node], outcome)
    best = sorted(candidate.node for candidate in found.best)
    if best != sorted(recorded.get("bestNodes") or []):
        problems.append(f"bestNodes: {best}, recorded {recorded.get('bestNodes')}")
    rejected = {
        node: (refusal.plugin or None, refusal.code.value, sorted(refusal.reasons))
        for node, refusal in found.rejected.items()
    }
    tried = {
        node: (entry.get("plugin"), entry["code"], sorted(entry["reasons"]))
        for node, entry in (recorded.get("nodeStatus") or {}).items()
    }
    if rejected != tried:
        problems.append(f"tried in vain: {rejected}, recorded {tried}")
    return problems


def _compare_victims(candidate: Candidate, recorded: Mapping[str, Any], outcome: Outcome) -> list[str]:
    problems = []
    if candidate.violations != recorded["numPDBViolations"]:
        problems.append(f"{candidate.node}: {candidate.violations} violations, recorded {recorded['numPDBViolations']}")
    ours = sorted(key for key, _ in candidate.victims)
    theirs = sorted(recorded["victims"])
    if recorded.get("equalImportance"):  # which of several equals goes is not defined; how many and how important is
        placed = outcome.table.placed
        if sorted(placed[key].priority for key in ours) == sorted(placed[key].priority for key in theirs):
            return problems
    if ours != theirs:
        problems.append(f"victims on {candidate.node}: {ours}, recorded {theirs}")
    return problems


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m controlplane.scheduler.evaluate", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="compare with recorded decisions")
    check.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    passed = failed = 0
    for path in options.files:
        for case in read_cases(path):
            problems = compare(case)
            passed += not problems
            failed += bool(problems)
            for problem in problems:
                print(f"{case['name']}: {problem}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
