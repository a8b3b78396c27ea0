"""``wharf map``: the nodes, and what fills them, drawn in the terminal; live with ``-w``.

Drawn are requests, the measure of the scheduler: each block of a bar is a pod, as wide as its share of the node.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from wharfinger.cli.session import Session, command
from wharfinger.cli.why import grid, printed

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from wharfinger.api.types import core

_COLOURS = ("cyan", "magenta", "yellow", "blue", "green", "bright_cyan", "bright_magenta", "bright_yellow")
_REDRAW = 0.3
_FULL, _EMPTY = "█", "·"


@dataclass
class Room:
    """A node and the pods on it."""

    name: str
    allocatable: Mapping[str, int]
    state: str
    pods: list[tuple[str, Mapping[str, int]]] = field(default_factory=list)
    """Name and effective requests."""

    def used(self, resource: str) -> int:
        """Return the sum of requests."""
        return sum(amounts.get(resource, 0) for _, amounts in self.pods)


@command(name="map")
@click.option("-w", "--watch", is_flag=True, help="Keep drawing as things change.")
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="Only nodes with these labels.")
@click.option("--width", type=click.IntRange(5, 200), default=30, show_default=True, help="Characters of a bar.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="The numbers, as a document.")
async def map_(session: Session, *, watch: bool, selector: str, width: int, output: str | None) -> None:
    """Draw the nodes and what fills them: requests of cpu and memory, and the number of pods."""
    from wharfinger.api.types import core
    from wharfinger.client import Informer

    async with session.client() as client:
        if not watch:
            nodes = (await client.resource(core.Node).list(label_selector=selector)).items
            pods = (await client.resource(core.Pod).list()).items
            rooms, waiting = arrange(nodes, pods)
            if output:
                from wharfinger.cli.output import dump_json, dump_yaml

                document = as_document(rooms, waiting)
                sys.stdout.write(dump_json(document) if output == "json" else dump_yaml(document))
            else:
                printed(lambda console: console.print(draw(rooms, waiting, width=width)))
            return
        from rich.console import Console
        from rich.live import Live

        changed = asyncio.Event()
        node_informer: Informer[core.Node] = Informer(client.resource(core.Node), label_selector=selector)
        pod_informer: Informer[core.Pod] = Informer(client.resource(core.Pod))
        for informer in (node_informer, pod_informer):
            informer.add_handler(
                on_add=lambda _: changed.set(), on_update=lambda *_: changed.set(), on_delete=lambda _: changed.set()
            )
            await informer.start()
            await informer.wait_synced()
        with Live(console=Console(highlight=False), auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                changed.clear()
                rooms, waiting = arrange(node_informer.items(), pod_informer.items())
                live.update(draw(rooms, waiting, width=width), refresh=True)
                await changed.wait()
                await asyncio.sleep(_REDRAW)


def arrange(nodes: Iterable[core.Node], pods: Iterable[core.Pod]) -> tuple[list[Room], int]:
    """Return the nodes by name with their pods, the largest first, and how many pods have no node."""
    from wharfinger.api import pods as podfacts

    rooms = {}
    for node in nodes:
        ready = next((entry.status for entry in node.status.conditions if entry.type == "Ready"), "True")
        states = [] if ready == "True" else ["NotReady"]
        states += ["cordoned"] if node.spec.unschedulable else []
        states += [
            f"{taint.key}:{taint.effect}"
            for taint in node.spec.taints
            if not taint.key.startswith("node.kubernetes.io")
        ]
        rooms[node.metadata.name] = Room(
            node.metadata.name, podfacts.amounts(node.status.allocatable), ", ".join(states)
        )
    waiting = 0
    for pod in pods:
        if podfacts.is_terminal(pod):
            continue
        room = rooms.get(pod.spec.nodeName)
        if room is not None:
            room.pods.append((f"{pod.metadata.namespace}/{pod.metadata.name}", podfacts.effective_requests(pod)))
        waiting += not pod.spec.nodeName
    for room in rooms.values():
        room.pods.sort(key=lambda entry: (-entry[1].get("cpu", 0), entry[0]))
    return sorted(rooms.values(), key=lambda room: room.name), waiting


def blocks(amounts: Iterable[int], total: int, width: int) -> list[int]:
    """Return how many characters of a bar each amount takes; ends of blocks are rounded, so that the sum is right."""
    found, before, end = [], 0, 0
    for amount in amounts:
        before += amount
        at = min(width, round(before * width / total)) if total else 0
        found.append(at - end)
        end = at
    return found


def draw(rooms: list[Room], waiting: int, *, width: int) -> Table:
    """Return the picture."""
    from rich.text import Text

    table: Table = grid("NODE", "CPU", "", "MEMORY", "", "PODS", "")
    for room in rooms:
        cells: list[Any] = [room.name]
        for resource in ("cpu", "memory"):
            total = room.allocatable.get(resource, 0)
            cells += [_bar(room, resource, width), f"{room.used(resource) * 100 // total}%" if total else "none"]
        table.add_row(*cells, f"{len(room.pods)}/{room.allocatable.get('pods', 0)}", Text(room.state, "red"))
    if waiting:
        table.add_row(Text(f"{waiting} pods wait for a node", "bold"))
    return table


def _bar(room: Room, resource: str, width: int) -> Text:
    from rich.text import Text

    bar = Text()
    amounts = [amounts.get(resource, 0) for _, amounts in room.pods]
    taken = 0
    for number, size in enumerate(blocks(amounts, room.allocatable.get(resource, 0), width)):
        bar.append(_FULL * size, _COLOURS[number % len(_COLOURS)])
        taken += size
    bar.append(_EMPTY * (width - taken), "dim")
    return bar


def as_document(rooms: list[Room], waiting: int) -> dict[str, Any]:
    """Return the numbers: cpu in thousandths, all else in whole units."""
    return {
        "nodes": [
            {
                "node": room.name,
                "state": room.state,
                "allocatable": dict(room.allocatable),
                "pods": [{"pod": name, "requests": dict(amounts)} for name, amounts in room.pods],
            }
            for room in rooms
        ],
        "waiting": waiting,
    }
