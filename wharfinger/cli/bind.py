"""``wharf bind``: be the scheduler, for one pod."""

from __future__ import annotations

import sys

import click

from wharfinger.cli.complete import names_of
from wharfinger.cli.session import Session, command


@command(name="bind")
@click.argument("pod", shell_complete=names_of("pods"))
@click.argument("node", shell_complete=names_of("nodes"))
@click.option("--checked", is_flag=True, help="Refuse if the pod does not fit on the node.")
async def bind(session: Session, *, pod: str, node: str, checked: bool) -> None:
    """Put POD on NODE, as a Binding sent by hand: no filter is asked, unless --checked.

    A pod that has a node already cannot be bound again.
    """
    name = pod.removeprefix("pods/").removeprefix("pod/").removeprefix("po/")
    target = node.removeprefix("nodes/").removeprefix("node/").removeprefix("no/")
    async with session.client() as client:
        await client.bind(session.namespace, name, node=target, checked=checked)
    sys.stdout.write(f"pod/{name} bound to node {target}\n")
