"""Shell completion that knows the cluster: kinds from the schema, names from the server.

A completion must never get in the way: it waits two seconds at most for the server and then offers nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import click
from click.shell_completion import CompletionItem

_PATIENCE = 2.0


def complete_targets(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete ``TYPE``, ``TYPE NAME`` and ``TYPE/NAME``."""
    from wharfinger.cli.targets import listed_kinds

    given = list(ctx.params.get(parameter.name or "") or [])
    if "/" in incomplete:
        resource, _, start = incomplete.partition("/")
        return [CompletionItem(f"{resource}/{name}") for name in _names(ctx, resource) if name.startswith(start)]
    if not given:
        head, comma, last = incomplete.rpartition(",")
        words = sorted({kind.resource for kind in listed_kinds() if "list" in kind.verbs})
        return [CompletionItem(head + comma + word) for word in words if word.startswith(last)]
    if "/" in given[0]:
        return []
    taken = set(given[1:])
    return [
        CompletionItem(name) for name in _names(ctx, given[0]) if name.startswith(incomplete) and name not in taken
    ]  # fmt: skip


def names_of(resource: str) -> Any:
    """Return a completion of the names of one kind."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in _names(ctx, resource) if name.startswith(incomplete)]

    return complete


def _names(ctx: click.Context, resource: str) -> list[str]:
    from wharfinger.cli.session import SHARED, Session

    overrides = {key: value for context in (ctx.parent, ctx) if context for key, value in context.params.items()}
    session = Session({key: overrides[key] for key in SHARED if overrides.get(key) is not None})
    with contextlib.suppress(Exception):
        return asyncio.run(asyncio.wait_for(_ask(session, resource), _PATIENCE))
    return []


async def _ask(session: Any, resource: str) -> list[str]:
    from wharfinger.cli.targets import find_kind

    kind = find_kind(resource)
    async with session.client() as client:
        namespace = session.namespace if kind.namespaced else ""
        listed = await client.resource(kind.message).list(namespace=namespace, resource_version="0")
    return sorted(obj.metadata.name for obj in listed.items)
