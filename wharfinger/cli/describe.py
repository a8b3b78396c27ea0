"""``wharf describe``: one or several objects in detail, with what is around them and what happened to them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from wharfinger.cli import selecting
from wharfinger.cli.describing import describer_for
from wharfinger.cli.describing.layout import Layout
from wharfinger.cli.failures import complain
from wharfinger.cli.reporting import Reporter
from wharfinger.cli.session import Session, command
from wharfinger.cli.targets import parse_targets

if TYPE_CHECKING:
    from wharfinger.api.kinds import Kind
    from wharfinger.client import Client


@command(name="describe")
@selecting.arguments("(TYPE [NAME... | -l SELECTOR] | TYPE/NAME)")
@selecting.FILES
@selecting.RECURSIVE
@selecting.SELECTOR
@selecting.ALL_NAMESPACES
async def describe(session: Session, **options: Any) -> int:
    """Show objects in detail. A NAME that does not exist may be the beginning of names.

    \b
      wharf describe pod web
      wharf describe nodes
      wharf describe pods -l app=web
    """
    reporter = Reporter()
    first = True
    async with session.client() as client:
        for kind, obj in await _objects(session, client, reporter, options):
            out = Layout()
            await describer_for(kind)(client, obj, out)
            if kind.inert:
                out.field(0, "Note", f"{kind.kind} is only stored so far: {kind.inert}")
            sys.stdout.write(("" if first else "\n\n") + out.text())
            first = False
    if first and not reporter.failed:
        complain(f"No resources found in {session.namespace} namespace.")
    return reporter.finish()


async def _objects(
    session: Session, client: Client, reporter: Reporter, options: dict[str, Any]
) -> list[tuple[Kind, Any]]:
    if options["files"]:
        chosen = selecting.from_files(session, reporter, options["files"], recursive=options["recursive"])
        return [pair for one in chosen for pair in await _named(client, one.kind, one.name, one.namespace, reporter)]
    found: list[tuple[Kind, Any]] = []
    for target in parse_targets(options["arguments"], verb="describe"):
        kind = target.kind
        namespace = session.namespace if kind.namespaced and not options["all_namespaces"] else ""
        for name in target.names:
            found += await _named(client, kind, name, namespace, reporter)
        if not target.names:
            listed: Any = await client.resource(kind.message).list(
                namespace=namespace, label_selector=options["selector"]
            )
            found += [(kind, obj) for obj in listed.items]
    return found


async def _named(
    client: Client, kind: Kind, name: str, namespace: str, reporter: Reporter
) -> list[tuple[Kind, Any]]:  # fmt: skip
    """Return the object of a name, else all whose names begin with it."""
    from wharfinger.api.errors import NotFoundError

    resource: Any = client.resource(kind.message)
    try:
        return [(kind, await resource.get(name, namespace=namespace))]
    except NotFoundError as error:
        listed = await resource.list(namespace=namespace)
        found = [(kind, obj) for obj in listed.items if obj.metadata.name.startswith(name)]
        if not found:
            reporter.status(error)
        return found
