"""``wharf replace -f``: put a manifest in the place of an object, whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from wharfinger.cli.create import FIELD_MANAGER, VALIDATE, local, validation
from wharfinger.cli.failures import CommandError
from wharfinger.cli.manifests import Broken, Manifest, read_all
from wharfinger.cli.output import document_of_raw
from wharfinger.cli.reporting import DRY_RUN, OUTPUT, Reporter, needs, quoted
from wharfinger.cli.selecting import FILES, RECURSIVE
from wharfinger.cli.session import Session, command


@command(name="replace")
@FILES
@RECURSIVE
@VALIDATE
@DRY_RUN
@OUTPUT
@FIELD_MANAGER
@click.option("--force", is_flag=True, help="Delete the object first and create it anew.")
@click.option("--grace-period", type=int, default=None, help="With --force: seconds that pods get to end.")
@click.option("--subresource", type=click.Choice(["status", "scale"]), default=None, help="Replace a subresource.")
async def replace(
    session: Session, *, files: Sequence[str], recursive: bool, validate: str, dry_run: str, output: str | None,
    field_manager: str, force: bool, grace_period: int | None, subresource: str | None,
) -> int:  # fmt: skip
    """Replace objects by what files say."""
    needs(bool(files), "must specify one of -f and -k")
    needs(force or grace_period is None, "--grace-period must have --force specified")
    needs(not (force and dry_run != "none"), "--dry-run can not be used when --force is set")
    reporter = Reporter(output, dry_run=dry_run)
    options = {
        "dry_run": reporter.server_dry_run,
        "field_manager": field_manager or "kubectl-replace",
        "field_validation": validation(validate),
    }
    async with session.client() as client:
        for manifest in read_all(files, recursive=recursive, verb="replace"):
            if isinstance(manifest, Broken):
                reporter.error(manifest.reason)
                continue
            try:
                namespace = manifest.namespace(session.namespace, explicit=session.explicit_namespace)
                if not manifest.name:
                    raise CommandError("resource name may not be empty")
            except CommandError as error:
                reporter.error(str(error))
                continue
            if dry_run == "client":
                reporter.done(local(manifest.document, namespace), "replaced")
            elif force:
                await _recreate(client, manifest, namespace, reporter, options, grace_period)
            else:
                await _replace(client, manifest, namespace, reporter, options, subresource or "")
    return reporter.finish()


async def _replace(
    client: Any, manifest: Manifest, namespace: str, reporter: Reporter, options: dict[str, Any], subresource: str
) -> None:
    from wharfinger.api.errors import ServiceUnavailableError, StatusError

    try:
        raw = await client.raw(manifest.kind).update(
            manifest.json(), name=manifest.name, namespace=namespace, subresource=subresource, **options
        )
    except ServiceUnavailableError:
        raise
    except StatusError as error:
        reporter.status(error, source=f"replacing {quoted(manifest.source)}")
        return
    reporter.warnings(raw.warnings)
    reporter.done(document_of_raw(raw), "replaced")


async def _recreate(
    client: Any, manifest: Manifest, namespace: str, reporter: Reporter, options: dict[str, Any], grace: int | None
) -> None:
    from wharfinger.api.errors import NotFoundError, ServiceUnavailableError, StatusError
    from wharfinger.cli.waiting import until_gone

    kind = manifest.kind
    try:
        try:
            gone = await client.raw(kind).delete(
                manifest.name, namespace=namespace, grace_period_seconds=grace, propagation_policy="Background"
            )
        except NotFoundError:
            pass
        else:
            reporter.say(f'{kind.singular} "{manifest.name}" deleted')
            uid = str(document_of_raw(gone).get("metadata", {}).get("uid", ""))
            await until_gone(client, kind, manifest.name, namespace=namespace, uid=uid)
        raw = await client.raw(kind).create(manifest.json(), namespace=namespace, **options)
    except ServiceUnavailableError:
        raise
    except StatusError as error:
        reporter.status(error, source=f"replacing {quoted(manifest.source)}")
        return
    reporter.done(document_of_raw(raw), "replaced")
