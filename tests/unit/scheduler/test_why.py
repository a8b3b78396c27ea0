from controlplane.scheduler import why
from controlplane.scheduler.decisions import Diagnosis, Placement
from controlplane.scheduler.engine import WHOLE_DIAGNOSES
from tests.unit.scheduler.builders import Bench, node, pod
from wharfinger.api.types import core
from wharfinger.proto.native import scheduling_v1_pb2 as native


def failure(bench: Bench, entry: core.Pod) -> native.Explanation:
    info = bench.info(entry)
    found = bench.engine.decide(info)
    assert isinstance(found, Diagnosis)
    answer = native.Explanation()
    why.explain_failure(bench.engine, info, found, answer)
    return answer


def test_every_refusing_filter_of_every_node_is_named_with_numbers() -> None:
    bench = Bench(
        node("full"), node("tainted", taints=["dedicated=gpu:NoSchedule"], allocatable={"cpu": "1", "pods": "110"})
    )
    bench.place(pod("x", {"cpu": "2500m"}, node_name="full"))
    answer = failure(bench, pod(requests={"cpu": "2"}))
    assert [verdict.node for verdict in answer.nodes] == ["full", "tainted"]
    assert [(r.plugin, r.code, r.detail) for r in answer.nodes[0].refusals] == [
        ("NodeResourcesFit", "Unschedulable", "needs 2 cpu, 1.5 free of 4")
    ]
    assert [(r.plugin, r.detail) for r in answer.nodes[1].refusals] == [
        ("TaintToleration", "untolerated dedicated=gpu:NoSchedule"),
        ("NodeResourcesFit", "needs 2 cpu, 1 free of 1"),
    ]


def test_the_smallest_change_comes_first() -> None:
    bench = Bench(
        node("near"),
        node("far", labels={"disk": "ssd"}),
        node("cordoned", labels={"disk": "ssd"}, unschedulable=True),
        node("tainted-1", labels={"disk": "ssd"}, taints=["dedicated=gpu:NoSchedule"]),
        node("tainted-2", labels={"disk": "ssd"}, taints=["dedicated=gpu:NoSchedule"]),
    )
    bench.place(pod("x", {"cpu": "2500m"}, node_name="far"))
    answer = failure(bench, pod(requests={"cpu": "2"}, selector={"disk": "ssd"}))
    assert list(answer.suggestions) == [
        "uncordon cordoned",
        "add toleration dedicated=gpu:NoSchedule (to fit on tainted-1 and 1 more)",
        "label near disk=ssd",
        "free 500m cpu on far",
    ]


def test_what_a_failed_attempt_saw_stays_as_it_was() -> None:
    bench = Bench(node("a"))
    bench.place(pod("x", {"cpu": "3"}, node_name="a"))
    info = bench.info(pod(requests={"cpu": "2"}))
    found = bench.engine.decide(info)
    assert isinstance(found, Diagnosis)
    bench.table.remove("default/x")
    bench.engine.state(info)
    answer = native.Explanation()
    why.explain_failure(bench.engine, info, found, answer)
    assert answer.nodes[0].refusals[0].detail == "needs 2 cpu, 1 free of 4"


def test_a_thinned_diagnosis_is_evaluated_anew_and_says_so() -> None:
    bench = Bench(node("a"))
    info = bench.info(pod(requests={"cpu": "5"}))
    found = bench.engine.decide(info)
    assert isinstance(found, Diagnosis)
    for index in range(WHOLE_DIAGNOSES):
        bench.engine.decide(bench.info(pod("r", {"cpu": f"{10 + index}"})))
    answer = native.Explanation()
    why.explain_failure(bench.engine, info, found, answer)
    assert answer.message.startswith("0/1 nodes are available: 1 Insufficient cpu. (by node: as of now")
    assert answer.nodes[0].refusals[0].detail == "needs 5 cpu, 4 free of 4"


def test_a_placement_is_explained_as_it_was_decided() -> None:
    bench = Bench(node("a"), node("b", taints=["soft=1:PreferNoSchedule"]), node("c", unschedulable=True))
    asked = [bench.info(pod(f"p{index}", {"cpu": "1", "memory": "2Gi"})) for index in range(4)]
    decisions = [bench.engine.decide(info) for info in asked]
    first = decisions[0]
    assert isinstance(first, Placement)
    answer = native.Explanation()
    why.explain_placement(bench.engine, first, answer)
    assert answer.chosen_node == "a"
    by_name = {verdict.node: verdict for verdict in answer.nodes}
    assert [name for name, verdict in by_name.items() if verdict.feasible] == ["a", "b"]
    assert by_name["a"].total == first.total > by_name["b"].total
    scores = {score.plugin: (score.raw, score.normalised, score.weight) for score in by_name["b"].scores}
    assert scores["TaintToleration"] == (1, 0, 3)
    assert scores["NodeResourcesFit"] == (75, 75, 1)
    assert [refusal.detail for refusal in by_name["c"].refusals] == ["is cordoned"]


def test_explaining_now_leaves_the_table_as_it_was() -> None:
    bench = Bench(node("a"))
    placed = pod("p", {"cpu": "3"}, node_name="a")
    bench.place(placed)
    before = bench.table.requested.copy()
    answer = native.Explanation()
    why.explain_now(bench.engine, bench.info(pod("p", {"cpu": "3"})), answer)
    assert answer.nodes[0].feasible, "its own place counts as free"
    assert (bench.table.requested == before).all()


def test_a_pod_refused_as_such_has_no_suggestions() -> None:
    bench = Bench(node("a"))
    asked = pod()
    term = asked.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.add()
    term.matchFields.add(key="metadata.name", operator="In", values=["a"])
    term.matchFields.add(key="metadata.name", operator="In", values=["b"])
    answer = failure(bench, asked)
    assert answer.nodes[0].refusals[0].detail == "pod affinity terms conflict"
    assert not answer.suggestions
