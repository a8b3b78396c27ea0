"""The picture of nodes and pods."""

from __future__ import annotations

import io

from rich.console import Console

from wharfinger.api.types import core
from wharfinger.cli.map import arrange, as_document, blocks, draw


def test_blocks_fill_their_share_of_the_bar() -> None:
    assert blocks([500, 500, 1000], 4000, 8) == [1, 1, 2]
    assert sum(blocks([1] * 7, 7, 10)) == 10
    assert sum(blocks([3000, 3000], 4000, 10)) == 10, "an overfull node is drawn full"
    assert blocks([1], 0, 10) == [0]


def test_nodes_are_drawn_with_what_fills_them() -> None:
    node = core.Node()
    node.metadata.name = "a"
    node.spec.unschedulable = True
    for resource, amount in {"cpu": "4", "memory": "8Gi", "pods": "110"}.items():
        node.status.allocatable[resource].string = amount
    pods = []
    for name, where, cpu, phase in (
        ("p", "a", "1", ""),
        ("q", "a", "2", ""),
        ("r", "", "1", ""),
        ("s", "a", "1", "Failed"),
    ):
        pod = core.Pod()
        pod.metadata.name, pod.metadata.namespace = name, "n"
        pod.spec.nodeName, pod.status.phase = where, phase
        pod.spec.containers.add(name="c").resources.requests["cpu"].string = cpu
        pods.append(pod)
    rooms, waiting = arrange([node], pods)
    assert waiting == 1
    assert [name for name, _ in rooms[0].pods] == ["n/q", "n/p"]
    out = io.StringIO()
    Console(file=out, width=200).print(draw(rooms, waiting, width=8))
    lines = out.getvalue().splitlines()
    assert lines[1].split() == ["a", "██████··", "75%", "········", "0%", "2/110", "cordoned"]
    assert lines[2].strip() == "1 pods wait for a node"
    assert as_document(rooms, waiting)["nodes"][0]["pods"][0] == {"pod": "n/q", "requests": {"cpu": 2000}}
