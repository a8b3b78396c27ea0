"""The queue, grouped by what pods wait for."""

from __future__ import annotations

from controlplane.scheduler.decisions import Diagnosis
from controlplane.scheduler.pending import pending
from controlplane.scheduler.queue import SchedulingQueue
from tests.unit.scheduler.builders import Bench, node, pod


def test_pods_are_grouped_by_cause_most_first() -> None:
    bench = Bench(node("a", unschedulable=True))
    queue = SchedulingQueue(bench.engine.profile)
    gated = pod("gated")
    gated.spec.schedulingGates.add(name="example.com/wait")
    for index, entry in enumerate([gated, pod("new"), *(pod(f"p{number}", {"cpu": "9"}) for number in range(3))]):
        queue.add(bench.info(entry), float(index))
    for _ in range(4):
        taken = queue.pop(10.0)
        assert taken is not None
        if taken.info.name == "new":
            queue.retry(taken, 10.0)
            continue
        found = bench.engine.decide(taken.info)
        assert isinstance(found, Diagnosis)
        queue.park(taken, found, 10.0, reads=0)
    groups = pending(bench.engine, queue, 20.0).groups
    assert [(group.state, group.count) for group in groups] == [("unschedulable", 3), ("backoff", 1), ("gated", 1)]
    assert groups[0].cause == "0/1 nodes are available: 1 node(s) were unschedulable."
    assert list(groups[0].pods) == ["default/p0", "default/p1", "default/p2"]
    assert groups[0].oldest_seconds == 18.0
    assert groups[0].suggestions
    assert "example.com/wait" in groups[2].cause
    assert not pending(bench.engine, queue, 20.0, namespace="other").groups
