"""No placement ever breaks a required rule: checked by a plain reading of the rules, one pod and node at a time.

The judge below knows nothing of tables, columns or tallies. It goes by Kubernetes' documentation ("Assigning Pods to
Nodes", "Taints and Tolerations", "Pod Topology Spread Constraints") and looks at messages alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controlplane.scheduler.decisions import Placement
from controlplane.scheduler.engine import Engine
from controlplane.scheduler.gangplacing import place_gang
from controlplane.scheduler.observed import ObservedNode
from tests.unit.scheduler.builders import affinity, node, pod, spread, tolerate
from wharfinger.api import pods as podfacts
from wharfinger.api.types import core

NAMES = [f"n{index}" for index in range(5)]


class Judge:
    """Nodes and placed pods as messages."""

    def __init__(self) -> None:
        self.nodes: dict[str, core.Node] = {}
        self.pods: dict[str, core.Pod] = {}

    def on(self, name: str) -> list[core.Pod]:
        return [entry for entry in self.pods.values() if entry.spec.nodeName == name]

    def allows(self, entry: core.Pod, name: str) -> list[str]:
        """Return what a pod on a node breaks; the pod is among the placed ones already."""
        others = {key: other for key, other in self.pods.items() if other.metadata.name != entry.metadata.name}
        host = self.nodes[name]
        broken = []
        if over_capacity(host, self.on(name), entry):
            broken.append("capacity")
        if host.spec.unschedulable:
            broken.append("cordoned")
        if any(not tolerated(entry, taint) for taint in host.spec.taints):
            broken.append("taint")
        if any(host.metadata.labels.get(key) != value for key, value in entry.spec.nodeSelector.items()):
            broken.append("selector")
        claimed = [port for other in self.on(name) if other is not entry for port in ports(other)]
        if any(port in claimed for port in ports(entry)):
            broken.append("port")
        near = entry.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution
        if near and not self._near(entry, near, host, others.values()):
            broken.append("affinity")
        for one, place, other in self._pairs(entry, host, others.values()):
            for term in one.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution:
                key = term.topologyKey
                same = key in place.metadata.labels and key in self.nodes[other.spec.nodeName].metadata.labels
                if same and self._domain(other, key) == self._domain(one, key) and meant(term.labelSelector, other):
                    broken.append("anti-affinity")
        for constraint in entry.spec.topologySpreadConstraints:
            if constraint.whenUnsatisfiable == "DoNotSchedule" and self._skew(entry, constraint) > constraint.maxSkew:
                broken.append("spread")
        return broken

    def _domain(self, entry: core.Pod, key: str) -> str | None:
        return self.nodes[entry.spec.nodeName].metadata.labels.get(key)

    def _pairs(
        self, entry: core.Pod, host: core.Node, others: Iterable[core.Pod]
    ) -> Iterable[tuple[core.Pod, core.Node, core.Pod]]:
        """Yield who may object to whom: the pod to the others, and each of them to the pod."""
        for other in others:
            if other.spec.nodeName in self.nodes:
                yield entry, host, other
                yield other, self.nodes[other.spec.nodeName], entry

    def _near(self, entry: core.Pod, terms: Any, host: core.Node, others: Iterable[core.Pod]) -> bool:
        there = [other for other in others if other.spec.nodeName in self.nodes]
        if any(term.topologyKey not in host.metadata.labels for term in terms):
            return False
        wanted = [other for other in there if all(meant(term.labelSelector, other) for term in terms)]
        if all(
            any(self._domain(other, term.topologyKey) == host.metadata.labels[term.topologyKey] for other in wanted)
            for term in terms
        ):
            return True
        placed = any(
            term.topologyKey in self.nodes[other.spec.nodeName].metadata.labels for other in wanted for term in terms
        )
        return not placed and all(meant(term.labelSelector, entry) for term in terms)  # the first of its kind

    def _skew(self, entry: core.Pod, constraint: core.TopologySpreadConstraint) -> int:
        key = constraint.topologyKey
        counts: Counter[str] = Counter()
        keys = [
            one.topologyKey for one in entry.spec.topologySpreadConstraints if one.whenUnsatisfiable == "DoNotSchedule"
        ]
        for name, host in self.nodes.items():
            eligible = all(one in host.metadata.labels for one in keys)
            if not eligible or any(host.metadata.labels.get(k) != v for k, v in entry.spec.nodeSelector.items()):
                continue
            counts[host.metadata.labels[key]] += sum(
                1 for other in self.on(name) if meant(constraint.labelSelector, other)
            )
        mine = self.nodes[entry.spec.nodeName].metadata.labels.get(key)
        if mine is None:
            return 10**6
        return counts[mine] + (0 if meant(constraint.labelSelector, entry) else 1) - min(counts.values())


def over_capacity(host: core.Node, there: Iterable[core.Pod], entry: core.Pod) -> bool:
    """Whether there is too little of anything that the pod asks for; a node may have shrunk under other pods."""
    asked = {"pods": 1, **podfacts.effective_requests(entry)}
    used: Counter[str] = Counter()
    for entry in there:
        used.update(podfacts.effective_requests(entry))
        used["pods"] += 1
    room = podfacts.amounts(host.status.allocatable)
    return any(used[name] > room.get(name, 0) for name, amount in asked.items() if amount)


def tolerated(entry: core.Pod, taint: core.Taint) -> bool:
    if taint.effect == "PreferNoSchedule":
        return True
    return any(
        one.effect in ("", taint.effect) and one.key in ("", taint.key) and one.value in ("", taint.value)
        for one in entry.spec.tolerations
    )


def ports(entry: core.Pod) -> list[int]:
    return [port.hostPort for container in entry.spec.containers for port in container.ports if port.hostPort]


def meant(selector: Any, entry: core.Pod) -> bool:
    labels: Mapping[str, str] = entry.metadata.labels
    return all(labels.get(key) == value for key, value in selector.matchLabels.items())


def kinds() -> list[core.Pod]:
    near = pod(requests={"cpu": "100m"}, labels={"app": "near"})
    affinity(
        near.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution.add(), "zone", {"app": "near"}
    )
    beside = pod(requests={"cpu": "100m"}, labels={"app": "beside"})
    affinity(
        beside.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution.add(), "zone", {"app": "plain"}
    )
    apart = pod(requests={"cpu": "100m"}, labels={"app": "apart"})
    affinity(
        apart.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution.add(),
        "disk",
        {"app": "apart"},
    )
    shy = pod(requests={"cpu": "100m"}, labels={"app": "shy"})
    affinity(
        shy.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution.add(), "zone", {"app": "plain"}
    )
    return [
        near, beside, apart, shy,
        spread(pod(requests={"cpu": "100m"}, labels={"app": "even"}), "zone", {"app": "even"}),
        pod(requests={"cpu": "700m", "memory": "1Gi"}, labels={"app": "plain"}),
        pod(requests={"cpu": "300m"}, selector={"disk": "a"}),
        pod(requests={"example.com/gpu": "1"}),
        pod(ports=[(80, "TCP", "")]),
        tolerate(pod(requests={"memory": "2Gi"}), "t", "1", effect="NoSchedule"),
    ]  # fmt: skip


KINDS = kinds()
WHERE = st.dictionaries(st.sampled_from(["zone", "disk"]), st.sampled_from(["a", "b", "c"]))


class Machine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.engine = Engine(seed=5)
        self.judge = Judge()
        self.count = 0
        for index, name in enumerate(NAMES[:3]):
            self.set_node(
                name, "2", {"zone": "ab"[index % 2], "disk": "abc"[index]}, gpu=True, tainted=False, cordoned=False
            )

    @rule(
        name=st.sampled_from(NAMES),
        cpu=st.sampled_from(["500m", "1", "2"]),
        gpu=st.booleans(),
        labels=WHERE,
        tainted=st.booleans(),
        cordoned=st.booleans(),
    )
    def set_node(
        self, name: str, cpu: str, labels: dict[str, str], *, gpu: bool, tainted: bool, cordoned: bool
    ) -> None:
        room = {"cpu": cpu, "memory": "4Gi", "pods": "6", **({"example.com/gpu": "1"} if gpu else {})}
        made = node(
            name, allocatable=room, labels=labels, taints=["t=1:NoSchedule"] if tainted else [], unschedulable=cordoned
        )
        self.engine.table.set_node(ObservedNode.of(made))
        self.judge.nodes[name] = made

    @rule(name=st.sampled_from(NAMES))
    def remove_node(self, name: str) -> None:
        self.engine.table.remove_node(name)
        self.judge.nodes.pop(name, None)

    def _made(self, kind: int) -> core.Pod:
        self.count += 1
        made = core.Pod()
        made.CopyFrom(KINDS[kind])
        made.metadata.name = f"p{self.count}"
        return made

    def _placed(self, made: core.Pod, name: str) -> None:
        made.spec.nodeName = name
        self.judge.pods[f"default/{made.metadata.name}"] = made
        broken = self.judge.allows(made, name)
        assert not broken, f"{made.metadata.labels} on {name} breaks {broken}"

    @rule(kind=st.integers(0, len(KINDS) - 1), times=st.integers(1, 4))
    def decide(self, kind: int, times: int) -> None:
        for _ in range(times):
            made = self._made(kind)
            decision = self.engine.decide(self.engine.pods.info(made))
            if isinstance(decision, Placement):
                self._placed(made, decision.node)

    @rule(chosen=st.lists(st.integers(0, len(KINDS) - 1), min_size=2, max_size=4), needed=st.integers(1, 4))
    def decide_a_gang(self, chosen: list[int], needed: int) -> None:
        made = {f"default/{entry.metadata.name}": entry for entry in map(self._made, chosen)}
        infos = [self.engine.pods.info(entry) for entry in made.values()]
        outcome = place_gang(self.engine, infos, min(needed, len(infos)))
        assert outcome.complete == (len(outcome.placements) >= min(needed, len(infos)))
        for info, placement in outcome.placements if outcome.complete else ():
            self._placed(made[info.key], placement.node)

    @rule(data=st.data())
    def remove_pod(self, data: st.DataObject) -> None:
        if self.judge.pods:
            key = data.draw(st.sampled_from(sorted(self.judge.pods)))
            del self.judge.pods[key]
            self.engine.table.remove(key)

    @invariant()
    def the_engine_knows_who_is_where(self) -> None:
        assert {key: resident.node for key, resident in self.engine.table.placed.items()} == {
            key: entry.spec.nodeName for key, entry in self.judge.pods.items()
        }


TestMachine = pytest.mark.filterwarnings("error::RuntimeWarning")(Machine.TestCase)
TestMachine.settings = settings(
    max_examples=50, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
