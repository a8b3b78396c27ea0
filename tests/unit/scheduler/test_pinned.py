import random

from controlplane.scheduler.decisions import Diagnosis, Placement
from controlplane.scheduler.engine import Engine
from controlplane.scheduler.observed import ObservedNode
from controlplane.scheduler.pinned import node_of
from tests.unit.scheduler.builders import Bench, node, pod
from wharfinger.api.types import core


def pinned(name: str, to: str, *, also: str = "", **rest: str) -> core.Pod:
    """A pod as the DaemonSet controller makes it."""
    made = pod(name, rest or {"cpu": "1"})
    required = made.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
    for names in [[to], [also]] if also else [[to]]:
        required.nodeSelectorTerms.add().matchFields.add(key="metadata.name", operator="In", values=names)
    return made


def test_only_a_single_term_for_a_single_node_counts() -> None:
    assert node_of(pinned("p", "a")) == "a"
    assert node_of(pinned("p", "a", also="b")) == ""
    several = pinned("p", "a")
    terms = several.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms
    terms[0].matchFields[0].values.append("b")
    assert node_of(several) == ""
    assert node_of(pod()) == ""


def test_the_decision_is_that_of_all_nodes() -> None:
    draw = random.Random(4)
    bench = Bench(
        *(
            node(
                f"n{index}",
                allocatable={"cpu": str(1 + index % 3), "pods": "5"},
                taints=["a=b:NoSchedule"] if index % 5 == 0 else [],
                unschedulable=index % 7 == 0,
                labels={"zone": str(index % 2)},
            )
            for index in range(20)
        )
    )
    outcomes = set()
    for number in range(120):
        entry = pinned(f"p{number}", f"n{draw.randrange(22)}", cpu=f"{draw.choice((100, 700, 2000))}m")
        if draw.random() < 0.3:
            entry.spec.nodeSelector["zone"] = "1"
        info = bench.info(entry)
        expected = bench.engine.state(info).feasible_count
        bench.engine._states.clear()
        decision = bench.engine.decide(info)
        assert isinstance(decision, Placement) == bool(expected)
        if isinstance(decision, Placement):
            assert decision.node == info.cls.pinned
            assert decision.pinned
        outcomes.add(type(decision))
    assert outcomes == {Placement, Diagnosis}


def test_a_node_kept_for_others_is_looked_at_closely() -> None:
    bench = Bench(node("a", allocatable={"cpu": "1", "pods": "5"}))
    bench.engine.nominate(bench.info(pod("dear", {"cpu": "1"}, priority=9)), "a")
    assert isinstance(bench.engine.decide(bench.info(pinned("p", "a"))), Diagnosis)


def test_nothing_is_kept_of_the_kind() -> None:
    engine = Engine(seed=1)
    engine.table.set_node(ObservedNode.of(node("a")))
    assert isinstance(engine.decide(engine.pods.info(pinned("p", "a"))), Placement)
    assert not engine._states
