import pytest

from controlplane.scheduler.framework import Code
from tests.unit.scheduler.builders import Bench, node, pod

PLUGIN = "NodePorts"


@pytest.mark.parametrize(
    ("taken", "wanted", "clash"),
    [
        ((80, "TCP", ""), (80, "TCP", ""), True),
        ((80, "TCP", "0.0.0.0"), (80, "TCP", "10.0.0.1"), True),
        ((80, "TCP", "10.0.0.1"), (80, "TCP", ""), True),
        ((80, "TCP", "10.0.0.1"), (80, "TCP", "10.0.0.2"), False),
        ((80, "UDP", ""), (80, "TCP", ""), False),
        ((81, "TCP", ""), (80, "TCP", ""), False),
        ((80, "TCP", "::"), (80, "TCP", "10.0.0.1"), False),
        ((80, "TCP", "::"), (80, "TCP", "::"), True),
    ],
)
def test_what_clashes(taken: tuple[int, str, str], wanted: tuple[int, str, str], clash: bool) -> None:
    bench = Bench(node("a"))
    bench.place(pod("holder", ports=[taken], node_name="a"))
    assert bool(bench.refusals(pod(ports=[wanted]), PLUGIN)) is clash


def test_the_holder_is_named_and_its_end_frees_the_port() -> None:
    bench = Bench(node("a"))
    bench.place(pod("holder", ports=[(80, "TCP", "")], node_name="a"))
    asked = pod(ports=[(80, "TCP", "")])
    assert bench.refusals(asked, PLUGIN)["a"].code is Code.UNSCHEDULABLE
    assert bench.details(asked, PLUGIN) == {"a": "host port 80/TCP taken by default/holder"}
    assert bench.changes(asked, PLUGIN, "a") == ["free host port 80/TCP on a (held by default/holder)"]
    bench.table.remove("default/holder")
    assert bench.feasible(asked) == {"a"}
    assert bench.table.ports == {}
