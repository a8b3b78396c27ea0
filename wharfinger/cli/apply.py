"""``wharf apply -f``: make the cluster agree with manifests, leaving alone what others have set.

This is kubectl's client-side apply: what was applied last is kept in an annotation, and the difference to it is sent
as a strategic merge patch (see :mod:`wharfinger.cli.strategic`). With ``--server-side`` the manifest itself is sent,
and the server merges and knows which field is whose. Objects applied with kubectl go on with wharf, and the other way
round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
import orjson

from wharfinger.cli.applied import annotated, last_applied
from wharfinger.cli.create import FIELD_MANAGER, VALIDATE, local, validation
from wharfinger.cli.failures import CommandError, complain
from wharfinger.cli.manifests import Broken, Manifest, read_all
from wharfinger.cli.output import document_of_raw
from wharfinger.cli.reporting import DRY_RUN, OUTPUT, Reporter, needs, quoted
from wharfinger.cli.selecting import FILES, RECURSIVE
from wharfinger.cli.session import Session, command
from wharfinger.cli.strategic import three_way

if TYPE_CHECKING:
    from wharfinger.api.kinds import Kind
    from wharfinger.client import Client

_ATTEMPTS = 5


@command(name="apply")
@FILES
@RECURSIVE
@VALIDATE
@DRY_RUN
@OUTPUT
@FIELD_MANAGER
@click.option("--server-side", is_flag=True, help="Let the server merge, which knows who has set which field.")
@click.option("--force-conflicts", is_flag=True, help="With --server-side: take over fields that others have set.")
async def apply(
    session: Session, *, files: Sequence[str], recursive: bool, validate: str, dry_run: str, output: str | None,
    field_manager: str, server_side: bool, force_conflicts: bool,
) -> int:  # fmt: skip
    """Apply manifests: create what is missing, change what differs.

    \b
      wharf apply -f app.yaml
      wharf apply -f manifests/ -R --dry-run=server
      wharf apply -f app.yaml --server-side
    """
    needs(bool(files), "must specify one of -f and -k")
    needs(server_side or not force_conflicts, "--force-conflicts only works with --server-side")
    needs(not (server_side and dry_run == "client"), "--dry-run=client doesn't work with --server-side")
    reporter = Reporter(output, dry_run=dry_run)
    options = {
        "dry_run": reporter.server_dry_run,
        "field_manager": field_manager or ("kubectl" if server_side else "kubectl-client-side-apply"),
        "field_validation": validation(validate),
    }
    converge = _merge_there if server_side else _converge
    if server_side:
        options["force"] = force_conflicts
    async with session.client() as client:
        for manifest in read_all(files, recursive=recursive, verb="apply"):
            if isinstance(manifest, Broken):
                reporter.error(manifest.reason)
            else:
                await _apply_one(session, client, manifest, reporter, options, converge)
    return reporter.finish()


async def _apply_one(
    session: Session,
    client: Client,
    manifest: Manifest,
    reporter: Reporter,
    options: dict[str, Any],
    converge: Callable[..., Awaitable[tuple[dict[str, Any], str]]],
) -> None:
    from wharfinger.api.errors import ServiceUnavailableError, StatusError

    try:
        kind = manifest.kind
        if not manifest.name:
            generate = manifest.metadata.get("generateName")
            raise CommandError(
                f"from {generate}: cannot use generate name with apply"
                if generate
                else "resource name may not be empty"
            )
        namespace = manifest.namespace(session.namespace, explicit=session.explicit_namespace)
    except CommandError as error:
        reporter.error(str(error))
        return
    try:
        document, action = await converge(client, kind, manifest, namespace, reporter, options)
    except ServiceUnavailableError:
        raise
    except StatusError as error:
        reporter.status(error, source=f"applying {quoted(manifest.source)}")
        return
    if action == "created":
        reporter.made(document, kind)
    else:
        reporter.done(document, action)


async def _merge_there(
    client: Client, kind: Kind, manifest: Manifest, namespace: str, reporter: Reporter, options: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """Let the server merge; returns the object and the word for what was done. Raises ConflictError."""
    raw = await client.raw(kind).patch(
        manifest.name,
        patch=orjson.dumps(manifest.document),
        patch_type="apply",
        namespace=namespace,
        **options,
    )
    reporter.warnings(raw.warnings)
    return document_of_raw(raw), "serverside-applied"


async def _converge(
    client: Client, kind: Kind, manifest: Manifest, namespace: str, reporter: Reporter, options: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """Create or patch one object; returns it and the word for what was done."""
    from wharfinger.api.errors import AlreadyExistsError, ConflictError, NotFoundError

    raw_client = client.raw(kind)
    modified = annotated(manifest.document, namespace)
    for attempt in range(_ATTEMPTS):
        try:
            current = document_of_raw(await raw_client.get(manifest.name, namespace=namespace))
        except NotFoundError as error:
            if error.kind == "namespaces" and manifest.kind_name != "Namespace":
                raise
            if reporter.dry_run == "client":
                return local(manifest.document, namespace), "created"
            try:
                raw = await raw_client.create(orjson.dumps(modified), namespace=namespace, **options)
            except AlreadyExistsError:
                # Somebody was faster: patch theirs, unless the server keeps saying so.
                if attempt + 1 == _ATTEMPTS:
                    raise
                continue
            reporter.warnings(raw.warnings)
            return document_of_raw(raw), "created"
        original = last_applied(current)
        if original is None:
            complain(
                f"Warning: resource {kind.resource}/{manifest.name} is missing the "
                "kubectl.kubernetes.io/last-applied-configuration annotation which is required by wharf apply. "
                "wharf apply should only be used on resources created declaratively by either wharf create "
                "--save-config or wharf apply. The missing annotation will be patched automatically."
            )
        patch = three_way(original, modified, current, kind.message)
        for field in ("apiVersion", "kind", "status"):
            patch.pop(field, None)
        if not patch:
            return current, "unchanged"
        if reporter.dry_run == "client":
            return {**current, **manifest.document}, "configured"
        try:
            raw = await raw_client.patch(
                manifest.name,
                patch=orjson.dumps(patch),
                patch_type="strategic" if kind.described else "merge",
                namespace=namespace,
                **options,
            )
        except ConflictError:
            if attempt + 1 == _ATTEMPTS:
                raise
            await asyncio.sleep(0.05 * 2**attempt)
            continue
        reporter.warnings(raw.warnings)
        return document_of_raw(raw), "configured"
    raise AssertionError("unreachable: the last attempt returns or raises")
