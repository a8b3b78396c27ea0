"""``wharf cordon``, ``wharf uncordon`` and ``wharf taint``: which pods a node takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from wharfinger.api.types import core
from wharfinger.cli import selecting
from wharfinger.cli.complete import names_of
from wharfinger.cli.failures import CommandError
from wharfinger.cli.reporting import DRY_RUN, Reporter, needs
from wharfinger.cli.session import Session, command

if TYPE_CHECKING:
    from wharfinger.client import Client

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


async def nodes_of(client: Client, names: Sequence[str], selector: str, reporter: Reporter) -> list[core.Node]:
    """Return nodes by name or label; a name that is not there is reported."""
    from wharfinger.api.errors import NotFoundError

    needs(bool(names) != bool(selector), "name the nodes, or choose them with --selector")
    resource = client.resource(core.Node)
    if selector:
        return list((await resource.list(label_selector=selector)).items)
    found = []
    for name in names:
        try:
            found.append(await resource.get(name.removeprefix("nodes/").removeprefix("node/").removeprefix("no/")))
        except NotFoundError as error:
            reporter.status(error)
    return found


async def set_unschedulable(client: Client, node: core.Node, *, value: bool, reporter: Reporter) -> None:
    """Cordon or uncordon a node, and say so."""
    word = "cordoned" if value else "uncordoned"
    document = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": node.metadata.name}}
    if node.spec.unschedulable == value:
        reporter.done(document, f"already {word}")
        return
    if reporter.dry_run != "client":
        patch = {"spec": {"unschedulable": True if value else None}}
        await client.resource(core.Node).patch(
            node.metadata.name, patch=patch, patch_type="strategic", dry_run=reporter.server_dry_run
        )
    reporter.done(document, word)


async def _cordon(session: Session, names: Sequence[str], selector: str, dry_run: str, *, value: bool) -> int:
    reporter = Reporter(None, dry_run=dry_run)
    async with session.client() as client:
        for node in await nodes_of(client, names, selector, reporter):
            await set_unschedulable(client, node, value=value, reporter=reporter)
    return reporter.finish()


_NODES = click.argument("names", nargs=-1, metavar="NODE...", shell_complete=names_of("nodes"))


@command(name="cordon")
@_NODES
@selecting.SELECTOR
@DRY_RUN
async def cordon(session: Session, *, names: Sequence[str], selector: str, dry_run: str) -> int:
    """Let a node take no more pods."""
    return await _cordon(session, names, selector, dry_run, value=True)


@command(name="uncordon")
@_NODES
@selecting.SELECTOR
@DRY_RUN
async def uncordon(session: Session, *, names: Sequence[str], selector: str, dry_run: str) -> int:
    """Let a node take pods again."""
    return await _cordon(session, names, selector, dry_run, value=False)


# --- taints ----------------------------------------------------------------------------------------------------------

_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


@dataclass(frozen=True)
class Taint:
    """One change: a taint to set, or (without an effect: all of the key) to remove."""

    key: str
    value: str
    effect: str


def parse_taints(words: Sequence[str]) -> tuple[list[Taint], list[Taint]]:
    """Read ``key=value:Effect``, ``key:Effect``, ``key:Effect-`` and ``key-``; returns what is set and removed."""
    setting: list[Taint] = []
    removing: list[Taint] = []
    for word in words:
        text = word.removesuffix("-")
        pair, colon, effect = text.partition(":")
        key, equals, value = pair.partition("=")
        if not _KEY.fullmatch(key):
            raise CommandError(f"invalid taint spec: {word}: {key!r} is not a qualified name")
        if colon and effect not in EFFECTS:
            raise CommandError(f"invalid taint effect: {effect}, unsupported taint effect")
        if word.endswith("-"):
            removing.append(Taint(key, "", effect))
        elif not colon:
            raise CommandError(f"invalid taint spec: {word}")
        else:
            setting.append(Taint(key, value if equals else "", effect))
    seen = set()
    for taint in setting:
        if (taint.key, taint.effect) in seen:
            raise CommandError(f"duplicated taints with the same key and effect: {taint.key}:{taint.effect}")
        seen.add((taint.key, taint.effect))
    return setting, removing


@command(name="taint")
@click.argument("arguments", nargs=-1, metavar="NODE NAME KEY_1=VAL_1:EFFECT_1 ... KEY_N:EFFECT_N-")
@selecting.SELECTOR
@selecting.ALL
@click.option("--overwrite", is_flag=True, help="Replace taints of the same key and effect.")
@DRY_RUN
async def taint(
    session: Session, *, arguments: Sequence[str], selector: str, everything: bool, overwrite: bool, dry_run: str
) -> int:
    """Set or remove taints of nodes.

    \b
      wharf taint nodes n1 dedicated=batch:NoSchedule
      wharf taint node n1 dedicated:NoSchedule-
    """
    names, setting, removing = _read_arguments(arguments)
    needs(bool(setting or removing), "at least one taint update is required")
    reporter = Reporter(None, dry_run=dry_run)
    async with session.client() as client:
        if everything:
            needs(not names, "name cannot be provided when --all is specified")
            nodes = list((await client.resource(core.Node).list(label_selector=selector)).items)
        else:
            nodes = await nodes_of(client, names, selector, reporter)
        for node in nodes:
            await _taint(client, node, setting, removing, reporter, overwrite=overwrite)
    return reporter.finish()


def _read_arguments(arguments: Sequence[str]) -> tuple[list[str], list[Taint], list[Taint]]:
    words = list(arguments)
    if words and words[0].lower() in ("node", "nodes", "no"):
        words.pop(0)
    elif words and "/" in words[0] and words[0].partition("/")[0] in ("node", "nodes", "no"):
        pass
    else:
        raise CommandError("taint is for nodes only: wharf taint nodes NAME KEY=VALUE:EFFECT")
    names = []
    while words and ":" not in words[0] and "=" not in words[0] and not words[0].endswith("-"):
        names.append(words.pop(0))
    setting, removing = parse_taints(words)
    return names, setting, removing


async def _taint(
    client: Client, node: core.Node, setting: Sequence[Taint], removing: Sequence[Taint], reporter: Reporter, *,
    overwrite: bool,
) -> None:  # fmt: skip
    from wharfinger.api.codec import to_json

    name = node.metadata.name
    document: dict[str, Any] = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}}
    there = {(one.key, one.effect): one for one in node.spec.taints}
    taken = sorted({one.key for one in setting if (one.key, one.effect) in there})
    if taken and not overwrite:
        reporter.error(
            f"node {name} already has {', '.join(taken)} taint(s) with same effect(s) and --overwrite is false"
        )
        return
    for one in removing:
        gone = [key for key in there if key[0] == one.key and one.effect in ("", key[1])]
        if not gone:
            reporter.error(f'taint "{one.key}{":" + one.effect if one.effect else ""}" not found')
            return
        for key in gone:
            del there[key]
    kept = [to_json(one) for one in there.values() if (one.key, one.effect) not in {(t.key, t.effect) for t in setting}]
    taints = [
        *kept,
        *({"key": t.key, "effect": t.effect, **({"value": t.value} if t.value else {})} for t in setting),
    ]
    action = "modified" if taken or (setting and removing) else "tainted" if setting else "untainted"
    if reporter.dry_run != "client":
        # The whole list under its version: two people who taint at once do not undo each other's work.
        patch = {"metadata": {"resourceVersion": node.metadata.resourceVersion}, "spec": {"taints": taints or None}}
        await client.resource(core.Node).patch(name, patch=patch, dry_run=reporter.server_dry_run)
    reporter.done(document, action)
