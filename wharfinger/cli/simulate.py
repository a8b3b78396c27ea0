"""``wharf simulate``: where pods would go, asked of the scheduler itself, on a snapshot; nothing is changed.

Workloads stand for their pods. Each pod is first sent to the server as a dry run, so that it is what would be stored:
defaults, priority and all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from wharfinger.cli.failures import CommandError
from wharfinger.cli.manifests import Broken, Manifest, read_all
from wharfinger.cli.selecting import FILES, RECURSIVE
from wharfinger.cli.session import Session, command
from wharfinger.cli.why import grid, printed

if TYPE_CHECKING:
    from rich.console import Console

    from wharfinger.api.types import core
    from wharfinger.client import Client
    from wharfinger.proto.native import scheduling_v1_pb2 as scheduling

_WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
_OWN_GROUP = "scheduling.wharfinger.dev/"
_DEFAULT_ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}


@dataclass(frozen=True)
class Wanted:
    """A pod as written, and how many of it."""

    document: dict[str, Any]
    count: int


@command(name="simulate")
@FILES
@RECURSIVE
@click.option("--nodes", "nodes", multiple=True, metavar="FILE", help="Only the nodes of this file, all empty.")
@click.option(
    "--add-node", "added", multiple=True, metavar="NAME[*COUNT][,RESOURCE=AMOUNT][,label:KEY=VALUE]",
    help="As if this node were there, too (4 cpu, 8Gi memory, 110 pods).",
)  # fmt: skip
@click.option(
    "--without-node", "without", multiple=True, metavar="NAME", help="As if this node and its pods were gone."
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Draw among equal nodes by another seed.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many pods to show.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="All of it, as a document.")
async def simulate(session: Session, **given: Any) -> int:
    """Show where the pods of manifests would go, without changing anything.

    \b
      wharf simulate -f web.yaml
      wharf simulate -f web.yaml --add-node 'big*3,cpu=32,memory=128Gi,label:zone=a'
      wharf simulate -f web.yaml --nodes nodes.yaml
      wharf simulate -f web.yaml --without-node node-1

    Ends with 1 when a pod would fit nowhere.
    """
    from wharfinger.proto.native import scheduling_v1_pb2 as scheduling

    request = scheduling.SimulateRequest(
        only_these_nodes=bool(given["nodes"]), without_nodes=given["without"], seed=given["seed"]
    )
    for node in (*_nodes_of(given["nodes"]), *(node for text in given["added"] for node in added_nodes(text))):
        request.nodes.append(node.SerializeToString())
    manifests = list(read_all(given["files"], recursive=given["recursive"], verb="simulate"))
    request.pod_groups.extend(_groups_of(manifests, session.namespace))
    wanted = list(_wanted(manifests))
    if not wanted:
        raise CommandError("there are no pods in these files, and nothing that makes pods")
    async with session.client() as client:
        for entry in wanted:
            pod = await _as_stored(client, entry.document, session.namespace)
            request.pods.add(pod=pod.SerializeToString(), count=entry.count)
        reply = await client.simulate(request)
    if given["output"]:
        from wharfinger.cli.output import dump_json, dump_yaml

        document = as_document(reply)
        sys.stdout.write(dump_json(document) if given["output"] == "json" else dump_yaml(document))
    else:
        printed(lambda console: show(console, reply, limit=given["limit"]))
    return 0 if all(placement.node for placement in reply.placements) else 1


def added_nodes(text: str) -> list[core.Node]:
    """Read ``NAME[*COUNT],cpu=8,label:zone=a``. Raises CommandError that says what is wrong."""
    from wharfinger.api import quantity
    from wharfinger.api.types import core

    head, *entries = text.split(",")
    name, star, number = head.partition("*")
    if not name or "=" in name or (star and not (number.isdigit() and 0 < int(number) <= 5000)):
        raise CommandError(f"--add-node {text}: begins with a name, or NAME*COUNT with a count of 1 to 5000")
    room, labels = dict(_DEFAULT_ROOM), {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals or not key:
            raise CommandError(f"--add-node {text}: {entry!r} is neither RESOURCE=AMOUNT nor label:KEY=VALUE")
        if key.startswith("label:"):
            labels[key.removeprefix("label:")] = value
            continue
        try:
            quantity.parse(value)
        except ValueError as error:
            raise CommandError(f"--add-node {text}: {value!r} is no amount of {key}: {error}") from error
        room[key] = value
    nodes = []
    for made in [f"{name}-{index}" for index in range(int(number))] if star else [name]:
        node = core.Node()
        node.metadata.name = made
        node.metadata.labels.update({"kubernetes.io/hostname": made, **labels})
        for resource, amount in room.items():
            node.status.allocatable[resource].string = amount
        nodes.append(node)
    return nodes


def _nodes_of(files: Iterable[str]) -> Iterator[core.Node]:
    if not files:
        return
    from wharfinger.api import codec
    from wharfinger.api.types import core

    for manifest in read_all(list(files), verb="simulate"):
        if isinstance(manifest, Broken):
            raise CommandError(manifest.reason)
        if manifest.kind_name != "Node":
            raise CommandError(f"{manifest.source}: holds a {manifest.kind_name}, --nodes takes Nodes")
        node = codec.from_json(manifest.document, core.Node).message
        if not node.status.allocatable:
            for resource, amount in node.status.capacity.items():
                node.status.allocatable[resource].string = amount.string
        if not node.status.allocatable:
            raise CommandError(
                f"{manifest.source}: node {manifest.name} has no status.allocatable, so no room for pods"
            )
        yield node


def _wanted(manifests: Iterable[Manifest | Broken]) -> Iterator[Wanted]:
    for manifest in manifests:
        if isinstance(manifest, Broken):
            raise CommandError(manifest.reason)
        found = pods_of(manifest.document)
        if found is not None:
            yield found
        elif not _is_group(manifest):
            click.echo(f"{manifest.source}: {manifest.kind_name} {manifest.name} has no pods to be placed", err=True)


def _is_group(manifest: Manifest) -> bool:
    return manifest.kind_name == "PodGroup" and manifest.document.get("apiVersion", "").startswith(_OWN_GROUP)


def _groups_of(manifests: Iterable[Manifest | Broken], namespace: str) -> Iterator[bytes]:
    """Return the PodGroups among some manifests, as they would be stored."""
    from wharfinger.api import codec, defaults, validation
    from wharfinger.api.types import gangs

    for manifest in manifests:
        if isinstance(manifest, Broken) or not _is_group(manifest):
            continue
        group = codec.from_json(manifest.document, gangs.PodGroup, validation="Strict").message
        group.metadata.namespace = group.metadata.namespace or namespace
        defaults.apply(group)
        wrong = validation.validate_create(group)
        if wrong:
            raise CommandError(f"{manifest.source}: {wrong[0].field}: {wrong[0].message}")
        yield group.SerializeToString()


def pods_of(document: dict[str, Any]) -> Wanted | None:
    """Return the pods that an object stands for; None for an object that stands for none."""
    kind = document.get("kind")
    if kind == "Pod":
        return Wanted(document, 1)
    spec = document.get("spec") or {}
    if kind in _WORKLOADS:
        count = spec.get("replicas", 1)
    elif kind == "Job":
        count = min(spec.get("parallelism", 1), spec.get("completions", spec.get("parallelism", 1)))
    else:
        return None
    template = spec.get("template") or {}
    metadata = document.get("metadata") or {}
    own: dict[str, Any] = {**(template.get("metadata") or {}), "name": metadata.get("name", "")}
    if metadata.get("namespace"):
        own["namespace"] = metadata["namespace"]
    pod_spec: dict[str, Any] = template.get("spec") or {}
    if kind == "Job":
        pod_spec = {"restartPolicy": "Never", **pod_spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": pod_spec}
    return Wanted(pod, int(count)) if count else None


async def _as_stored(client: Client, document: dict[str, Any], namespace: str) -> core.Pod:
    """Return the pod as the server would store it."""
    from wharfinger.api import codec
    from wharfinger.api.types import core

    pod = codec.from_json(document, core.Pod, validation="Strict").message
    pod.metadata.namespace = pod.metadata.namespace or namespace
    name = pod.metadata.name or pod.metadata.generateName.rstrip("-")
    # Under another name, since a pod of this name may be there.
    pod.metadata.ClearField("name")
    pod.metadata.generateName = f"{name[:50]}-"
    stored = await client.resource(core.Pod).create(pod, dry_run=True)
    stored.metadata.name = name
    return stored


def as_document(reply: scheduling.SimulateReply) -> dict[str, Any]:
    """Return the answer as JSON values, every field present, names in camel case."""
    from google.protobuf.json_format import MessageToDict

    document: dict[str, Any] = MessageToDict(reply, always_print_fields_with_no_presence=True)
    for placement in document["placements"]:
        placement["total"] = int(placement["total"])  # protobuf's JSON writes 64-bit numbers as text
    return document


def show(console: Console, reply: scheduling.SimulateReply, *, limit: int) -> None:
    """Print the answer for people."""
    from rich.markup import escape

    table = grid("POD", "NODE", "SCORE", "WHY")
    for placement in reply.placements[:limit]:
        pod = escape(f"{placement.namespace}/{placement.pod}")
        if placement.node:
            table.add_row(
                pod, f"[green]{escape(placement.node)}[/green]", str(placement.total), escape(placement.message)
            )
            continue
        why = placement.message
        if placement.victims:
            why += f" Could preempt {', '.join(placement.victims)} on {placement.would_preempt_on}."
        elif placement.suggestions:
            why += f" Would fit: {placement.suggestions[0]}."
        table.add_row(pod, "[red]none[/red]", "", escape(why))
    console.print(table)
    if len(reply.placements) > limit:
        console.print(f"… and {len(reply.placements) - limit} more (--limit)")
    fit = sum(1 for placement in reply.placements if placement.node)
    used = len({placement.node for placement in reply.placements if placement.node})
    console.print(
        f"\n{fit} of {len(reply.placements)} pods fit, on {used} of {reply.nodes} nodes. Nothing was changed."
    )
