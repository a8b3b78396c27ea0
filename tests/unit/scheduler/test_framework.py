"""A plugin as docs/scheduler.md shows how to write one."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import pytest
from numpy.typing import NDArray

from controlplane.scheduler.framework import Aspect, Code, Filter, FilterPlugin, Refusal, Rows
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.plugins import REGISTRY
from controlplane.scheduler.podinfo import PodClass
from controlplane.scheduler.profile import DEFAULT_PLUGINS, Enabled, Profile
from tests.unit.scheduler.builders import Bench, node, pod
from wharfinger.api.types import core


class OddNodesOnly(FilterPlugin):
    name = "OddNodesOnly"

    def prepare_filter(self, pod: PodClass, table: NodeTable) -> Filter | None:
        return _Filter(table) if "example.com/odd" in pod.exemplar.metadata.annotations else None

    def class_key(self, pod: core.Pod) -> Hashable:
        return "example.com/odd" in pod.metadata.annotations


class _Filter(Filter):
    plugin = OddNodesOnly.name
    reads = Aspect.EXISTENCE

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def codes(self, rows: Rows) -> NDArray[np.int32]:
        return (1 - np.arange(self._table.size, dtype=np.int32) % 2)[rows]

    def refusal(self, code: int) -> Refusal:
        return Refusal(self.plugin, Code.UNRESOLVABLE, ("node(s) were even",))


def test_one_file_and_two_lines_make_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, OddNodesOnly.name, OddNodesOnly)
    profile = Profile(enabled=(*DEFAULT_PLUGINS, Enabled(OddNodesOnly.name)))
    bench = Bench(node("n0"), node("n1"), node("n2"), profile=profile)
    odd = pod("odd")
    odd.metadata.annotations["example.com/odd"] = "yes"
    assert bench.feasible(odd) == {"n1"}
    assert bench.feasible(pod("any")) == {"n0", "n1", "n2"}
    assert bench.details(odd, OddNodesOnly.name)["n0"] == "node(s) were even"
    assert bench.changes(odd, OddNodesOnly.name, "n0") is None


def test_a_profile_needs_known_plugins_and_one_order() -> None:
    with pytest.raises(ValueError, match="'Nonsense'"):
        Profile(enabled=(Enabled("Nonsense"),))
    with pytest.raises(ValueError, match="exactly one plugin that orders the queue"):
        Profile(enabled=(Enabled("NodeName"),))
    with pytest.raises(ValueError, match="takes no arguments"):
        Profile(arguments={"NodeName": {"x": 1}})
