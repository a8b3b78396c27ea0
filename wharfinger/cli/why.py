"""``wharf why``: the scheduler's last verdict on a pod, node by node, with the numbers behind it.

``--pending`` asks what the whole queue waits for, grouped by cause.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import click

from wharfinger.api.tables.text import duration
from wharfinger.cli.complete import names_of
from wharfinger.cli.failures import CommandError
from wharfinger.cli.session import Session, command

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from wharfinger.proto.native import scheduling_v1_pb2 as scheduling

_STATES = {
    "queued": "waits for its turn",
    "backoff": "waits before the next attempt",
    "unschedulable": "fits nowhere at present",
    "gated": "is held back",
    "binding": "is being bound",
    "bound": "is bound",
    "unknown": "is not known to the scheduler",
}


@command(name="why")
@click.argument("pod", required=False, shell_complete=names_of("pods"))
@click.option("--pending", is_flag=True, help="What all pending pods wait for, of one namespace (-n) or all.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml", "wide"]), help="wide: every score of every plugin.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many nodes to show.")
async def why(session: Session, *, pod: str | None, pending: bool, output: str | None, limit: int) -> None:
    """Say why POD is pending, or why it is on its node.

    Shows for each node which filters refused it and with which numbers, the scores of the nodes that passed, and the
    smallest changes that would let the pod fit.
    """
    if bool(pod) == pending:
        raise CommandError("name a POD, or ask for --pending ones")
    if pending:
        async with session.client() as client:
            reply = await client.pending(session.explicit_namespace)
        if output in ("json", "yaml"):
            _dump(_pending_document(reply), output)
        else:
            printed(lambda console: show_pending(console, reply, limit=limit))
        return
    assert pod is not None
    name = pod.removeprefix("pods/").removeprefix("pod/").removeprefix("po/")
    async with session.client() as client:
        explanation = await client.why(session.namespace, name)
    if output in ("json", "yaml"):
        _dump(as_document(explanation), output)
        return
    printed(lambda console: show(console, explanation, wide=output == "wide", limit=limit))


def printed(show_on: Callable[[Console], None]) -> None:
    """Print for people, or into a pipe or file: then one line a row whatever its length, and no blanks at the ends."""
    from rich.console import Console

    if sys.stdout.isatty():
        show_on(Console(highlight=False))
        return
    out = io.StringIO()
    show_on(Console(highlight=False, file=out, width=10_000))
    sys.stdout.writelines(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def _dump(document: Any, output: str) -> None:
    from wharfinger.cli.output import dump_json, dump_yaml

    sys.stdout.write(dump_json(document) if output == "json" else dump_yaml(document))


def _pending_document(reply: scheduling.PendingReply) -> dict[str, Any]:
    from google.protobuf.json_format import MessageToDict

    document: dict[str, Any] = MessageToDict(reply, always_print_fields_with_no_presence=True)
    return document


def show_pending(console: Console, reply: scheduling.PendingReply, *, limit: int) -> None:
    """Print what pods wait for, for people."""
    from rich.markup import escape

    if not reply.groups:
        console.print("No pod waits for a node.")
        return
    total = sum(group.count for group in reply.groups)
    console.print(f"{total} pods wait for a node, for {len(reply.groups)} reasons.")
    for group in reply.groups[:limit]:
        console.print(f"\n[bold]{group.count}[/bold] {escape(group.state)}, the longest for "
                      f"{duration(group.oldest_seconds)}: {escape(group.cause)}")  # fmt: skip
        more = group.count - len(group.pods[:3])
        console.print(f"  {escape(', '.join(group.pods[:3]))}{f' and {more} more' if more > 0 else ''}")
        for suggestion in group.suggestions[:3]:
            console.print(f"  - {escape(suggestion)}")
    _print_more(console, len(reply.groups) - limit)


def as_document(explanation: scheduling.Explanation) -> dict[str, Any]:
    """Return the explanation as JSON values, every field present, names in camel case."""
    from google.protobuf.json_format import MessageToDict

    document: dict[str, Any] = MessageToDict(explanation, always_print_fields_with_no_presence=True)
    for node in document.get("nodes", []):
        # protobuf's JSON writes 64-bit numbers as text; these are small.
        node["total"] = int(node["total"])
        for score in node["scores"]:
            score.update({key: int(score[key]) for key in ("raw", "normalised", "weight")})
    return document


def show(console: Console, explanation: scheduling.Explanation, *, wide: bool, limit: int) -> None:
    """Print the explanation for people."""
    from rich.markup import escape

    pod = f"{explanation.namespace}/{explanation.pod}"
    state = _STATES.get(explanation.state, explanation.state)
    where = f" to [bold]{escape(explanation.chosen_node)}[/bold]" if explanation.chosen_node else ""
    console.print(f"Pod [bold]{escape(pod)}[/bold] {state}{where}.")
    if explanation.attempts:
        console.print(
            f"Attempt {explanation.attempts} of {escape(explanation.scheduler or 'the scheduler')} "
            f"ended {duration(explanation.age_seconds)} ago."
        )
    if explanation.message:
        console.print(escape(explanation.message))
    if explanation.HasField("gang"):
        console.print(escape(_gang(explanation.gang)))
    passed = sorted((one for one in explanation.nodes if one.feasible), key=lambda one: -one.total)
    refused = [one for one in explanation.nodes if not one.feasible]
    if passed:
        console.print()
        _print_passed(console, passed[:limit], explanation.chosen_node, wide=wide)
        _print_more(console, len(passed) - limit)
    if refused:
        console.print()
        _print_refused(console, refused[:limit])
        _print_more(console, len(refused) - limit)
    if explanation.suggestions:
        console.print("\nThe smallest changes that would let it fit:")
        for suggestion in explanation.suggestions:
            console.print(f"  - {escape(suggestion)}")


def _gang(gang: scheduling.GangState) -> str:
    """Say in a line how the group of a pod fares."""
    parts = [f"{gang.members} {'member' if gang.members == 1 else 'members'}", f"{gang.placed} placed"]
    if gang.succeeded:
        parts.append(f"{gang.succeeded} done")
    needs = f"needs {gang.min_member}" if gang.min_member else "does not exist"
    text = f"PodGroup {gang.name} {needs}: {', '.join(parts)}."
    if gang.room_kept_seconds:
        text += f" Room is kept for {duration(gang.room_kept_seconds)} more."
    if gang.refused:
        text += f" What follows is what {gang.refused} found."
    return text


def _print_more(console: Console, more: int) -> None:
    if more > 0:
        console.print(f"… and {more} more (--limit)")


def grid(*headers: str) -> Any:
    """Return an empty table without lines."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for header in headers:
        table.add_column(header, no_wrap=header != "WHY")
    return table


def _print_passed(
    console: Console, nodes: list[scheduling.NodeVerdict], chosen: str, *, wide: bool
) -> None:  # fmt: skip
    from rich.markup import escape

    plugins = list(dict.fromkeys(score.plugin for node in nodes for score in node.scores))
    won = next((node.total for node in nodes if node.node == chosen), None)
    behind = ["BEHIND"] if won is not None else []
    table = grid("FITS ON", "SCORE", *behind, *(plugins if wide else ["BY PLUGIN"]))
    for node in nodes:
        scores = {score.plugin: score for score in node.scores}
        if wide:
            cells = [
                f"{scores[p].normalised}x{scores[p].weight} (raw {scores[p].raw})" if p in scores else ""
                for p in plugins
            ]
        else:
            cells = [" ".join(f"{p}={scores[p].normalised}x{scores[p].weight}" for p in plugins if p in scores)]
        mark = " *" if node.node == chosen else ""
        gap = [] if won is None else ["" if node.node == chosen else str(won - node.total)]
        table.add_row(f"[green]{escape(node.node)}[/green]{mark}", str(node.total), *gap, *cells)
    console.print(table)


def _print_refused(console: Console, nodes: list[scheduling.NodeVerdict]) -> None:
    from rich.markup import escape

    table = grid("REFUSED BY", "FILTER", "REASON", "WHY")
    for node in nodes:
        first = True
        for refusal in node.refusals:
            final = " (preemption cannot help)" if refusal.code == "UnschedulableAndUnresolvable" else ""
            table.add_row(
                f"[red]{escape(node.node)}[/red]" if first else "", escape(refusal.plugin), escape(refusal.reason),
                escape((refusal.detail or "") + final).strip(),
            )  # fmt: skip
            first = False
        if first:
            table.add_row(f"[red]{escape(node.node)}[/red]", "", "", "not looked at")
    console.print(table)
