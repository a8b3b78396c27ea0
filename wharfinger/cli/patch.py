"""``wharf patch``: change fields of an object by a patch in one of Kubernetes' three notations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wharfinger.cli import selecting
from wharfinger.cli.failures import CommandError
from wharfinger.cli.output import document_of_raw
from wharfinger.cli.reporting import DRY_RUN, OUTPUT, Reporter, needs
from wharfinger.cli.session import Session, command


@command(name="patch")
@selecting.arguments()
@selecting.FILES
@click.option("-p", "--patch", "text", help="The patch, JSON or YAML.")
@click.option("--patch-file", type=click.Path(path_type=Path), help="A file with the patch.")
@click.option("--type", "kind", type=click.Choice(["strategic", "merge", "json"]), default="strategic",
              show_default=True, help="The patch's notation.")  # fmt: skip
@click.option("--subresource", type=click.Choice(["status", "scale"]), default=None, help="Patch a subresource.")
@DRY_RUN
@OUTPUT
async def patch(session: Session, **options: Any) -> int:
    """Change fields of objects.

    \b
      wharf patch node n1 -p '{"spec":{"unschedulable":true}}'
      wharf patch pod web --type=json -p '[{"op":"replace","path":"/spec/containers/0/image","value":"web:2"}]'
    """
    needs(options["dry_run"] != "client", "--dry-run=client: a patch is merged by the server; use --dry-run=server")
    body = _read(options["text"], options["patch_file"], options["kind"])
    reporter = Reporter(options["output"], dry_run=options["dry_run"])
    async with session.client() as client:
        for one in await selecting.choose(session, client, reporter, options, verb="patch"):
            await _patch(client, one, reporter, options, body)
    return reporter.finish()


def _read(text: str | None, file: Path | None, kind: str) -> Any:
    from wharfinger.api.codec.manifests import load_documents
    from wharfinger.api.errors import StatusError

    needs((text is None) != (file is None), "must specify --patch or --patch-file, and only one of them")
    try:
        documents = load_documents(text if text is not None else file.read_bytes() if file else b"")
    except OSError as error:
        raise CommandError(f"unable to read patch file: {error}") from error
    except StatusError as error:
        raise CommandError(f"unable to parse the patch: {error}") from error
    needs(len(documents) == 1, "the patch must be one document")
    wanted = list if kind == "json" else dict
    if not isinstance(documents[0], wanted):
        raise CommandError(f"a {kind} patch is {'a list of operations' if kind == 'json' else 'an object'}")
    return documents[0]


async def _patch(
    client: Any, one: selecting.Chosen, reporter: Reporter, options: dict[str, Any], body: Any
) -> None:  # fmt: skip
    from wharfinger.api.errors import ServiceUnavailableError, StatusError

    raw = client.raw(one.kind)
    subresource = options["subresource"] or ""
    try:
        before = document_of_raw(await raw.get(one.name, namespace=one.namespace, subresource=subresource))
        answer = await raw.patch(
            one.name, patch=body, patch_type=options["kind"], namespace=one.namespace, subresource=subresource,
            dry_run=reporter.server_dry_run, field_manager="kubectl-patch", field_validation="Strict",
        )  # fmt: skip
    except ServiceUnavailableError:
        raise
    except StatusError as error:
        reporter.status(error)
        return
    reporter.warnings(answer.warnings)
    document = document_of_raw(answer)
    unchanged = document.get("metadata", {}).get("resourceVersion") == before["metadata"].get("resourceVersion")
    if subresource == "scale":
        document = {**document, "apiVersion": one.kind.api_version, "kind": one.kind.kind}
    reporter.done(document, "patched (no change)" if unchanged and options["dry_run"] == "none" else "patched")
