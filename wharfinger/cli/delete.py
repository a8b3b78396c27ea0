"""``wharf delete``: by name, by file, by label or all; waits until the objects are gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from wharfinger.cli import selecting
from wharfinger.cli.durations import parse_duration
from wharfinger.cli.failures import CommandError, complain
from wharfinger.cli.reporting import DRY_RUN, Reporter, needs
from wharfinger.cli.selecting import Chosen
from wharfinger.cli.session import Session, command
from wharfinger.cli.targets import qualified

if TYPE_CHECKING:
    from wharfinger.client import Client

_CASCADE = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan", "true": "Background",
            "false": "Orphan"}  # fmt: skip


@command(name="delete")
@selecting.arguments("([-f FILE] | TYPE [NAME...|-l|--all])")
@selecting.FILES
@selecting.RECURSIVE
@selecting.SELECTOR
@selecting.FIELD_SELECTOR
@selecting.ALL
@selecting.ALL_NAMESPACES
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
        doomed = await selecting.choose(session, client, reporter, options, verb="delete")
        if not doomed and not reporter.failed and not options["files"] and not options["ignore_not_found"]:
            complain("No resources found")
        begun: list[tuple[Chosen, str]] = []
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


async def _delete(
    client: Client, one: Chosen, reporter: Reporter, options: dict[str, Any], grace: int | None
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
    client: Client, begun: list[tuple[Chosen, str]], reporter: Reporter, timeout: float
) -> None:  # fmt: skip
    from wharfinger.cli.waiting import until_gone

    async def wait(one: Chosen, uid: str) -> None:
        try:
            await until_gone(
                client, one.kind, one.name, namespace=one.namespace, uid=uid, timeout=timeout or None
            )  # fmt: skip
        except TimeoutError:
            reporter.error(f"timed out waiting for the condition on {one.kind.resource}/{one.name}")

    # In tens: a watch each, and hundreds of streams at once would hurt more than they help.
    for start in range(0, len(begun), 10):
        await asyncio.gather(*(wait(one, uid) for one, uid in begun[start : start + 10]))
