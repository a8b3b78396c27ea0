"""What the eviction controller does with verdicts that its watch and the API disagree about."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from controlplane.controllers.taint_eviction import RETRY_SECONDS, TaintEvictionController
from tests.unit.controllers.builders import node, pod
from wharfinger.api.types import core


class API:
    """A node as the API has it, while the watch still shows another."""

    def __init__(self, live: core.Node) -> None:
        self.live = live

    async def get(self, _: str) -> core.Node:
        return self.live


def controller(pods: list[core.Pod], live: core.Node) -> TaintEvictionController:
    informers: Any = SimpleNamespace(of=lambda _: SimpleNamespace(by_index=lambda *_: pods, idle_seconds=0.0))
    client: Any = SimpleNamespace(resource=lambda _: API(live), writer=lambda: None)
    context: Any = SimpleNamespace(clock=lambda: 100.0, informers=informers, client=client)
    return TaintEvictionController(context)


async def test_an_eviction_that_the_api_does_not_confirm_is_asked_for_again_until_the_watch_agrees() -> None:
    tainted, victim = node("n1"), pod("a", node="n1")
    tainted.spec.taints.add(key="maintenance", effect="NoExecute")
    evicting = controller([victim], live=node("n1"))  # the taint is gone, and the watch has not said so
    evicting._node(tainted)
    (due,) = evicting._deadlines.due(100.0)
    await evicting._evict([due])
    # Should the watch never show the node without its taint (it may come back meanwhile), the pod is not forgotten.
    assert evicting._deadlines.next_deadline() == 100.0 + RETRY_SECONDS
    evicting._node(node("n1"))
    assert evicting._deadlines.next_deadline() == math.inf
