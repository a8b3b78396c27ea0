"""``wharf delete``: by name, by file, by label or all; waits until the objects are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from wharfinger.cli.complete import complete_targets
from wharfinger.cli.create import FILES, RECURSIVE
from wharfinger.cli.durations import parse_duration
from wharfinger.cli.failures import CommandError, complain
from wharfinger.cli.reporting import DRY_RUN, Reporter, needs
from wharfinger.cli.session import Session, command
from wharfinger.cli.targets import Target, parse_targets, qualified

if TYPE_CHECKING:
    from wharfinger.api.kinds import Kind
    from wharfinger.client import Client

_CASCADE = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan", "true": "Background",
            "false": "Orphan"}  # fmt: skip


@dataclass(frozen=True)
class Doomed:
    """One object to delete."""

    kind: Kind
    name: str
    namespace: str


@command(name="delete")
@click.argument("arguments", nargs=-1, metavar="([-f FILE] | TYPE [NAME...|-l|--all])", shell_complete=complete_targets)
@FILES
@RECURSIVE
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="All that the label selector matches.")
@click.option("--field-selector", default="", metavar="SELECTOR", help="All that the field selector matches.")
@click.option("--all", "everything", is_flag=True, help="All of the kind in the namespace.")
@click.option("-A", "--all-namespaces", is_flag=True, help="In all namespaces.")
@click.option("--cascade", type=click.Choice(sorted(_CASCADE)), default="background", is_flag=False,
              flag_value="background", help="What becomes of dependants.")  # fmt: skip
@click.option("--grace-period", type=int, default=-1, help="Seconds that pods get to end (-1: as they say).")
@click.option("--now", is_flag=True, help="As --grace-period=1.")
@click.option("--force", is_flag=True, help="With --grace-period=0: do not wait for the node.")
@click.option("--wait/--no-wait", default=True, help="Wait until the objects are gone.")
@click.option("--timeout", default="0s", metavar="DURATION", help="How long to wait for each (0s: for ever).")
@click.option("--ignore-not-found", is_flag=True, help="What is not there is no error.")
@click.option("-o", "--output", type=click.Choice(["name"]), help="Print names only.")
@DRY_RUN
async def delete(session: Session, **options: Any) -> int:
    """Delete objects.

    \b
      wharf delete pod web
      wharf delete -f manifests/
      wharf delete pods -l app=web
      wharf delete pod web --grace-period=0 --force
    """
    grace = _grace(options)
    reporter = Reporter(options["output"], dry_run=options["dry_run"])
    async with session.client() as client:
        doomed = await _collect(session, client, reporter, options)
        if not doomed and not reporter.failed and not options["files"] and not options["ignore_not_found"]:
            complain("No resources found")
        begun: list[tuple[Doomed, str]] = []
        for one in doomed:
            uid = await _delete(client, one, reporter, options, grace)
            if uid is not None:
                begun.append((one, uid))
        if options["wait"] and options["dry_run"] == "none":
            await _wait(client, begun, reporter, parse_duration(options["timeout"], flag="--timeout"))
    return reporter.finish()


def _grace(options: dict[str, Any]) -> int | None:
    grace: int = options["grace_period"]
    if options["now"]:
        needs(grace < 0, "--now and --grace-period cannot be specified together")
        grace = 1
    if options["force"] and grace < 0:
        grace = 0
    if grace == 0 and not options["force"]:
        # As kubectl: without --force the node is still waited for.
        grace = 1
    if options["force"] and grace > 0:
        raise CommandError("--force and --grace-period greater than 0 cannot be specified together")
    if options["force"]:
        complain(
            "Warning: Immediate deletion does not wait for confirmation that the running resource has been "
            "terminated. The resource may continue to run on the cluster indefinitely."
        )
    return None if grace < 0 else grace


async def _collect(session: Session, client: Client, reporter: Reporter, options: dict[str, Any]) -> list[Doomed]:
    """Find out which objects are meant, before the first is deleted."""
    arguments, selector = options["arguments"], options["selector"]
    if options["files"]:
        needs(not arguments, "cannot use both -f and names of objects")
        return _from_files(session, reporter, options["files"], recursive=options["recursive"])
    targets = parse_targets(arguments, verb="delete")
    named = any(target.names for target in targets)
    chosen = bool(selector or options["field_selector"])
    needs(not (named and chosen), "a name cannot be provided together with a selector")
    needs(not (named and options["everything"]), "setting 'all' parameter but found a non empty selector or names")
    needs(named or chosen or options["everything"], "resource(s) were provided, but no name was specified")
    needs(not (named and options["all_namespaces"]), "a resource cannot be retrieved by name across all namespaces")
    return [one for target in targets for one in await _resolve(session, client, target, options)]


def _from_files(session: Session, reporter: Reporter, files: Sequence[str], *, recursive: bool) -> list[Doomed]:
    from wharfinger.cli.manifests import Broken, read_all

    doomed = []
    for manifest in read_all(files, recursive=recursive):
        if isinstance(manifest, Broken):
            reporter.error(manifest.reason)
            continue
        try:
            namespace = manifest.namespace(session.namespace, explicit=session.explicit_namespace)
            if not manifest.name:
                raise CommandError("resource name may not be empty")
            doomed.append(Doomed(manifest.kind, manifest.name, namespace))
        except CommandError as error:
            reporter.error(str(error))
    return doomed


async def _resolve(session: Session, client: Client, target: Target, options: dict[str, Any]) -> list[Doomed]:
    kind = target.kind
    namespace = session.namespace if kind.namespaced and not options["all_namespaces"] else ""
    if target.names:
        return [Doomed(kind, name, namespace) for name in target.names]
    listed = await client.resource(kind.message).list(
        namespace=namespace, label_selector=options["selector"], field_selector=options["field_selector"]
    )
    items: list[Any] = listed.items
    return [Doomed(kind, obj.metadata.name, obj.metadata.namespace) for obj in items]


async def _delete(
    client: Client, one: Doomed, reporter: Reporter, options: dict[str, Any], grace: int | None
) -> str | None:
    """Begin to delete one object; returns its uid, or None when there is nothing to wait for."""
    from wharfinger.api.errors import NotFoundError, ServiceUnavailableError, StatusError
    from wharfinger.cli.output import document_of_raw

    raw_client = client.raw(one.kind)
    try:
        if options["dry_run"] == "client":
            answer = await raw_client.get(one.name, namespace=one.namespace)
        else:
            answer = await raw_client.delete(
                one.name, namespace=one.namespace, grace_period_seconds=grace,
                propagation_policy=_CASCADE[options["cascade"]], dry_run=reporter.server_dry_run,
            )  # fmt: skip
    except NotFoundError as error:
        if not options["ignore_not_found"]:
            reporter.status(error)
        return None
    except ServiceUnavailableError:
        raise
    except StatusError as error:
        reporter.status(error)
        return None
    if options["output"] == "name":
        reporter.say(f"{qualified(one.kind)}/{one.name}")
    else:
        word = "force deleted" if options["force"] else "deleted"
        where = f" from {one.namespace} namespace" if one.namespace else ""
        reporter.say(f'{qualified(one.kind)} "{one.name}" {word}{where}')
    document = document_of_raw(answer)
    details = document.get("details") if document.get("kind") == "Status" else document.get("metadata")
    return str((details or {}).get("uid", ""))


async def _wait(
    client: Client, begun: list[tuple[Doomed, str]], reporter: Reporter, timeout: float
) -> None:  # fmt: skip
    from wharfinger.cli.waiting import until_gone

    async def wait(one: Doomed, uid: str) -> None:
        try:
            await until_gone(
                client, one.kind, one.name, namespace=one.namespace, uid=uid, timeout=timeout or None
            )  # fmt: skip
        except TimeoutError:
            reporter.error(f"timed out waiting for the condition on {one.kind.resource}/{one.name}")

    # In tens: a watch each, and hundreds of streams at once would hurt more than they help.
    for start in range(0, len(begun), 10):
        await asyncio.gather(*(wait(one, uid) for one, uid in begun[start : start + 10]))
