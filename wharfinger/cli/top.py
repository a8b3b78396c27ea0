"""``wharf top``: what nodes and pods use, as their agents last measured it (``metrics.k8s.io``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wharfinger.api import quantity
from wharfinger.api.types import core, metrics
from wharfinger.cli.columns import print_columns
from wharfinger.cli.failures import CommandError, complain
from wharfinger.cli.helping import Group
from wharfinger.cli.session import Session, command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_MIB = 1 << 20
_SELECTOR = click.option("-l", "--selector", default="", help="Only objects with these labels.")
_SORT = click.option("--sort-by", type=click.Choice(["cpu", "memory"]), help="The largest first; else by name.")
_HEADERS = click.option("--no-headers", is_flag=True, help="Without the line of titles.")


@click.group(cls=Group)
def top() -> None:
    """Show what nodes and pods use."""


@command(name="nodes")
@click.argument("name", required=False, default="")
@_SELECTOR
@_SORT
@_HEADERS
async def nodes(session: Session, *, name: str, selector: str, sort_by: str | None, no_headers: bool) -> int:
    """Show what nodes use, and how much that is of what they have for pods."""
    async with session.client() as client:
        used = await client.resource(metrics.NodeMetrics).list(
            label_selector=selector, field_selector=f"metadata.name={name}" if name else ""
        )
        known = {node.metadata.name: node for node in (await client.resource(core.Node).list()).items}
    if name and name not in known:
        raise CommandError(f'Error from server (NotFound): nodes "{name}" not found')
    rows = []
    for item in _sorted(used.items, lambda node: node.usage, sort_by):
        cpu, memory = _amounts(item.usage)
        node = known.get(item.metadata.name)
        if node is None:
            continue
        room = node.status.allocatable
        rows.append(
            [
                item.metadata.name, f"{cpu}m", _share(cpu, _milli(room, "cpu")),
                f"{memory // _MIB}Mi", _share(memory, _value(room, "memory")),
            ]
        )  # fmt: skip
    return _print(["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"], rows, no_headers=no_headers)


@command(name="pods")
@click.argument("name", required=False, default="")
@click.option("-A", "--all-namespaces", is_flag=True, help="In all namespaces.")
@click.option("--containers", is_flag=True, help="Each container by itself.")
@_SELECTOR
@_SORT
@_HEADERS
async def pods(
    session: Session, *, name: str, all_namespaces: bool, containers: bool, selector: str, sort_by: str | None,
    no_headers: bool,
) -> int:  # fmt: skip
    """Show what pods use."""
    async with session.client() as client:
        used = await client.resource(metrics.PodMetrics).list(
            namespace="" if all_namespaces else session.namespace,
            label_selector=selector,
            field_selector=f"metadata.name={name}" if name else "",
        )

    def whole(pod: metrics.PodMetrics) -> Sequence[Mapping[str, Any]]:
        return [container.usage for container in pod.containers]

    rows = []
    for pod in _sorted(used.items, whole, sort_by):
        lead = [pod.metadata.namespace] if all_namespaces else []
        if containers:
            for container in pod.containers:
                cpu, memory = _amounts(container.usage)
                rows.append([*lead, pod.metadata.name, container.name, f"{cpu}m", f"{memory // _MIB}Mi"])
        else:
            cpu, memory = _amounts(*whole(pod))
            rows.append([*lead, pod.metadata.name, f"{cpu}m", f"{memory // _MIB}Mi"])
    header = (["NAMESPACE"] if all_namespaces else []) + (["POD", "NAME"] if containers else ["NAME"])
    return _print([*header, "CPU(cores)", "MEMORY(bytes)"], rows, no_headers=no_headers)


def _sorted(items: Iterable[Any], usage: Callable[[Any], Any], sort_by: str | None) -> list[Any]:
    def order(item: Any) -> tuple[int, str, str]:
        found = usage(item)
        cpu, memory = _amounts(*(found if isinstance(found, list) else [found]))
        amount = {"cpu": cpu, "memory": memory}.get(sort_by or "", 0)
        return -amount, item.metadata.namespace, item.metadata.name

    return sorted(items, key=order)


def _amounts(*usages: Mapping[str, Any]) -> tuple[int, int]:
    """Return thousandths of a core and bytes, summed up."""
    return sum(_milli(usage, "cpu") for usage in usages), sum(_value(usage, "memory") for usage in usages)


def _milli(amounts: Mapping[str, Any], name: str) -> int:
    return quantity.milli_value(amounts[name].string) if name in amounts else 0


def _value(amounts: Mapping[str, Any], name: str) -> int:
    return quantity.value(amounts[name].string) if name in amounts else 0


def _share(part: int, whole: int) -> str:
    return f"{part * 100 // whole}%" if whole else "<unknown>"


def _print(header: list[str], rows: list[list[str]], *, no_headers: bool) -> int:
    if not rows:
        complain("error: metrics not available yet")
        return 1
    print_columns(None if no_headers else header, rows)
    return 0


for _command in (nodes, pods):
    top.add_command(_command)
