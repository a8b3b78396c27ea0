"""``wharf label`` and ``wharf annotate``: set and remove the two maps in an object's metadata."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from wharfinger.cli import selecting
from wharfinger.cli.failures import CommandError, complain
from wharfinger.cli.output import document_of_raw
from wharfinger.cli.reporting import DRY_RUN, OUTPUT, Reporter, needs
from wharfinger.cli.session import Session, command

_FLAGS = (
    selecting.arguments("(TYPE NAME | TYPE/NAME) KEY=VALUE... KEY-..."),
    selecting.FILES,
    selecting.RECURSIVE,
    selecting.SELECTOR,
    selecting.FIELD_SELECTOR,
    selecting.ALL,
    selecting.ALL_NAMESPACES,
    click.option("--overwrite", is_flag=True, help="Replace values that are there already."),
    click.option("--list", "listing", is_flag=True, help="Show what an object has."),
    click.option("--resource-version", default="", help="Only if the object still has this version."),
    DRY_RUN,
    OUTPUT,
)


def _flags(function: Any) -> Any:
    for flag in reversed(_FLAGS):
        function = flag(function)
    return function


@command(name="label")
@_flags
async def label(session: Session, **options: Any) -> int:
    """Set or remove labels.

    \b
      wharf label pod web tier=front env-
      wharf label nodes --all zone=a --overwrite
    """
    return await _change(session, options, field="labels", words=("labeled", "unlabeled", "not labeled"))


@command(name="annotate")
@_flags
async def annotate(session: Session, **options: Any) -> int:
    """Set or remove annotations."""
    return await _change(session, options, field="annotations", words=("annotated", "annotated", "annotated"))


def split_changes(arguments: Sequence[str]) -> tuple[list[str], dict[str, str], list[str]]:
    """Divide arguments into what names objects, what is set and what is removed (``key-``)."""
    names: list[str] = []
    settings: dict[str, str] = {}
    removals: list[str] = []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if equals:
            if not key:
                raise CommandError(f"invalid label spec: {argument}")
            settings[key] = value
        elif argument.endswith("-") and len(argument) > 1 and names:
            removals.append(argument[:-1])
        elif settings or removals:
            raise CommandError("all resources must be specified before label or annotation changes: " + argument)
        else:
            names.append(argument)
    if both := set(settings) & set(removals):
        raise CommandError(f"can not both modify and remove the same key: {', '.join(sorted(both))}")
    return names, settings, removals


async def _change(session: Session, options: dict[str, Any], *, field: str, words: tuple[str, str, str]) -> int:
    names, settings, removals = split_changes(options["arguments"])
    needs(bool(settings or removals) or options["listing"], f"at least one {field[:-1]} update is required")
    reporter = Reporter(options["output"], dry_run=options["dry_run"])
    async with session.client() as client:
        chosen = await selecting.choose(
            session, client, reporter, {**options, "arguments": names}, verb=field[:-1]
        )  # fmt: skip
        for one in chosen:
            await _change_one(client, one, reporter, options, field, words, settings, removals)
    return reporter.finish()


async def _change_one(
    client: Any, one: selecting.Chosen, reporter: Reporter, options: dict[str, Any], field: str,
    words: tuple[str, str, str], settings: dict[str, str], removals: list[str],
) -> None:  # fmt: skip
    from wharfinger.api.errors import ServiceUnavailableError, StatusError

    raw = client.raw(one.kind)
    try:
        current = document_of_raw(await raw.get(one.name, namespace=one.namespace))
        there: dict[str, str] = current.get("metadata", {}).get(field) or {}
        if options["listing"]:
            for key in sorted(there):
                sys.stdout.write(f"{key}={there[key]}\n")
            return
        taken = [key for key, value in settings.items() if key in there and there[key] != value]
        if taken and not options["overwrite"]:
            key = taken[0]
            reporter.error(f"'{key}' already has a value ({there[key]}), and --overwrite is false")
            return
        for key in removals:
            if key not in there:
                complain(f'{field[:-1]} "{key}" not found.')
        changes: dict[str, str | None] = {
            key: value for key, value in settings.items() if there.get(key) != value
        }  # fmt: skip
        changes.update({key: None for key in removals if key in there})
        if not changes:
            reporter.done(current, words[2])
            return
        action = words[0] if any(value is not None for value in changes.values()) else words[1]
        if options["dry_run"] == "client":
            merged = {key: value for key, value in {**there, **changes}.items() if value is not None}
            reporter.done({**current, "metadata": {**current["metadata"], field: merged}}, action)
            return
        patch: dict[str, Any] = {"metadata": {field: changes}}
        if options["resource_version"]:
            patch["metadata"]["resourceVersion"] = options["resource_version"]
        answer = await raw.patch(
            one.name, patch=patch, patch_type="merge", namespace=one.namespace, dry_run=reporter.server_dry_run,
            field_manager=f"kubectl-{'label' if field == 'labels' else 'annotate'}",
        )  # fmt: skip
    except ServiceUnavailableError:
        raise
    except StatusError as error:
        reporter.status(error)
        return
    reporter.done(document_of_raw(answer), action)
