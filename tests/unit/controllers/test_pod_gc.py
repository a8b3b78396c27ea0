"""Which pods are cleared away."""

from controlplane.controllers.node_taints import OUT_OF_SERVICE
from controlplane.controllers.pod_gc import QUARANTINE_SECONDS, PodGarbage
from tests.unit.controllers.builders import node, pod
from wharfinger.api.types import core

NODES = {"n1": node("n1")}


def chosen(
    garbage: PodGarbage, pods: list[core.Pod], now: float = 0.0, nodes: dict[str, core.Node] | None = None
) -> dict[str, str]:
    found = garbage.choose(pods, NODES if nodes is None else nodes, now)
    return {item.pod.metadata.name: item.reason for item in found}


def test_ended_pods_beyond_the_number_oldest_first_but_evicted_before() -> None:
    pods = [pod(f"p{i}", node="n1", phase="Succeeded", created=100 + i) for i in range(5)]
    pods[4].status.phase, pods[4].status.reason = "Failed", "Evicted"
    pods.append(pod("running", node="n1", created=1))
    assert chosen(PodGarbage(3), pods) == {"p4": "terminated", "p0": "terminated"}
    assert chosen(PodGarbage(0), pods) == {}
    assert chosen(PodGarbage(5), pods) == {}


def test_pods_of_a_missing_node_wait_in_case_it_comes_back() -> None:
    garbage, pods = PodGarbage(0), [pod("p", node="gone"), pod("q", node="n1")]
    assert chosen(garbage, pods, 0.0) == {}
    assert chosen(garbage, pods, QUARANTINE_SECONDS - 1) == {}
    assert chosen(garbage, pods, QUARANTINE_SECONDS) == {"p": "orphaned"}
    assert chosen(garbage, pods, 100.0, {"n1": node("n1"), "gone": node("gone")}) == {}
    assert chosen(garbage, pods, 110.0) == {}  # the time began anew


def test_dying_pods_without_a_node() -> None:
    pods = [pod("p", phase="Pending", deleting=True), pod("q", node="n1", deleting=True), pod("r", phase="Pending")]
    assert chosen(PodGarbage(0), pods) == {"p": "terminating-unscheduled"}


def test_dying_pods_of_a_node_out_of_service() -> None:
    pods = [pod("p", node="n1", deleting=True), pod("q", node="n1")]
    tainted = {"n1": node("n1", ready="Unknown", taints=((OUT_OF_SERVICE, "NoExecute"),))}
    assert chosen(PodGarbage(0), pods, 0.0, tainted) == {"p": "terminating-out-of-service"}
    still_ready = {"n1": node("n1", taints=((OUT_OF_SERVICE, "NoExecute"),))}
    assert chosen(PodGarbage(0), pods, 0.0, still_ready) == {}
