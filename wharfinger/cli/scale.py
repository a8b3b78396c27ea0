"""``wharf scale``: how many pods a workload shall have."""

from __future__ import annotations

from typing import Any

import click

from wharfinger.cli import selecting
from wharfinger.cli.output import document_of_raw
from wharfinger.cli.reporting import DRY_RUN, Reporter, needs
from wharfinger.cli.session import Session, command


@command(name="scale")
@selecting.arguments()
@selecting.FILES
@selecting.RECURSIVE
@selecting.SELECTOR
@selecting.ALL
@click.option("--replicas", type=click.IntRange(0), required=True, help="How many pods there shall be.")
@click.option("--current-replicas", type=int, default=-1, help="Only if there shall be this many now.")
@click.option("--resource-version", default="", help="Only if the object still has this version.")
@DRY_RUN
async def scale(session: Session, **options: Any) -> int:
    """Set the size of a ReplicaSet, Deployment, StatefulSet …

    \b
      wharf scale rs/web --replicas=5
      wharf scale deployment web --replicas=0 --current-replicas=3
    """
    reporter = Reporter(None, dry_run=options["dry_run"])
    async with session.client() as client:
        for one in await selecting.choose(session, client, reporter, options, verb="scale"):
            await _scale(client, one, reporter, options)
    return reporter.finish()


async def _scale(client: Any, one: selecting.Chosen, reporter: Reporter, options: dict[str, Any]) -> None:
    from wharfinger.api.errors import ServiceUnavailableError, StatusError

    needs("scale" in one.kind.subresources, f"could not find a scale subresource for {one.kind.group_resource}")
    raw = client.raw(one.kind)
    address: dict[str, Any] = {"namespace": one.namespace, "subresource": "scale"}
    patch: dict[str, Any] = {"spec": {"replicas": options["replicas"]}}
    try:
        current = document_of_raw(await raw.get(one.name, **address))
        expected, there = options["current_replicas"], current.get("spec", {}).get("replicas", 0)
        if expected >= 0 and there != expected:
            reporter.error(f"Expected replicas to be {expected}, was {there}")
            return
        if expected >= 0 or options["resource_version"]:
            # The condition must still hold when the patch is made.
            version = options["resource_version"] or current["metadata"]["resourceVersion"]
            patch["metadata"] = {"resourceVersion": version}
        if options["dry_run"] != "client":
            await raw.patch(
                one.name, patch=patch, patch_type="merge", dry_run=reporter.server_dry_run,
                field_manager="kubectl-scale", **address,
            )  # fmt: skip
    except ServiceUnavailableError:
        raise
    except StatusError as error:
        reporter.status(error)
        return
    reporter.done(
        {"apiVersion": one.kind.api_version, "kind": one.kind.kind, "metadata": {"name": one.name}}, "scaled"
    )  # fmt: skip
