"""Custom kinds, which the schema that wharf shares with the server does not have: asked for when a name is not known.

Names are looked up in the middle of commands, often before there is a client; so discovery is asked by a client of its
own, in a thread, once a run.
"""

from __future__ import annotations

import asyncio
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wharfinger.api.custom import CustomKind
    from wharfinger.cli.session import Session

_SESSION = "wharf.session"


def remember(context: click.Context, session: Session) -> None:
    """Note whose server is to be asked."""
    context.meta[_SESSION] = session


def known() -> Sequence[CustomKind]:
    """Return the custom kinds that the server serves, the preferred version of each first.

    Empty without a session (tests, completion without a cluster). Raises StatusError when the server cannot be asked.
    """
    context = click.get_current_context(silent=True)
    session = context.meta.get(_SESSION) if context is not None else None
    return _ask(session) if session is not None else ()


@cache
def _ask(session: Session) -> tuple[CustomKind, ...]:
    found: list[Any] = []
    failed: list[BaseException] = []

    async def ask() -> None:
        from wharfinger.client.discovered import custom_kinds

        async with session.client() as client:
            found.extend(custom_kinds(await client.discover()))

    def run() -> None:
        try:
            asyncio.run(ask())
        except BaseException as error:  # noqa: BLE001  (raised below, in the thread that waits)
            failed.append(error)

    thread = threading.Thread(target=run, name="discovery")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return tuple(found)


def by_kind(api_version: str, kind: str) -> CustomKind | None:
    """Find a custom kind as a manifest names it; its definition may stand in the same file, and be stored by now."""
    for _ in range(2):
        for one in known():
            if one.api_version == api_version and one.kind == kind:
                return one
        _ask.cache_clear()
    return None
