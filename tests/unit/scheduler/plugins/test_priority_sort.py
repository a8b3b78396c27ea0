from controlplane.scheduler.plugins import REGISTRY
from controlplane.scheduler.plugins.priority_sort import PrioritySort
from tests.unit.scheduler.builders import Bench, pod


def test_higher_priority_comes_first() -> None:
    bench = Bench()
    pods = [bench.info(pod(f"p{priority}", priority=priority)) for priority in (-5, 0, 2_000_000_000, 7)]
    ordered = sorted(pods, key=PrioritySort().sort_key)
    assert [info.priority for info in ordered] == [2_000_000_000, 7, 0, -5]


def test_every_plugin_is_registered_under_its_name() -> None:
    assert all(plugin.name == name for name, plugin in REGISTRY.items())
