"""``wharf edit``: change objects in an editor; what was changed is sent as a patch."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import click
import orjson

from wharfinger.cli import selecting
from wharfinger.cli.failures import CommandError, complain, status_line
from wharfinger.cli.output import document_of_raw, dump_yaml
from wharfinger.cli.reporting import Reporter
from wharfinger.cli.session import Session, command

_HEAD = """# Edit the object below. Lines that begin with a '#' are ignored, and an empty file ends the edit.
# If the server refuses the change, this file is opened again with its reason.
#
"""


@command(name="edit")
@selecting.arguments()
@click.option("--subresource", type=click.Choice(["status"]), default=None, help="Edit a subresource.")
async def edit(session: Session, **options: Any) -> int:
    """Edit objects in $KUBE_EDITOR, $EDITOR or vi."""
    reporter = Reporter()
    async with session.client() as client:
        for one in await selecting.choose(session, client, reporter, options, verb="edit"):
            await _edit(client, one, reporter, options["subresource"] or "")
    return reporter.finish()


async def _edit(client: Any, one: selecting.Chosen, reporter: Reporter, subresource: str) -> None:
    from wharfinger.api.codec.manifests import load_manifests
    from wharfinger.api.errors import NotFoundError, ServiceUnavailableError, StatusError
    from wharfinger.cli.strategic import patch_type_for, three_way

    raw = client.raw(one.kind)
    try:
        current = document_of_raw(await raw.get(one.name, namespace=one.namespace))
    except NotFoundError as error:
        reporter.status(error)
        return
    text, notes, refused = dump_yaml(current), "", ""
    while True:
        edited_text = _open_editor(_HEAD + notes + text)
        stripped = "".join(line for line in edited_text.splitlines(keepends=True) if not line.startswith("#"))
        if not stripped.strip() or stripped == text:
            if refused:
                _give_up(reporter, text, refused)
            else:
                complain("Edit cancelled, no changes made.")
            return
        text = stripped
        try:
            edited = load_manifests(text)
            if len(edited) != 1:
                raise CommandError("the file must hold one object")
            patch = three_way(current, edited[0], current, one.kind.message)
            if not patch:
                complain("Edit cancelled, no changes made.")
                return
            answer = await raw.patch(
                one.name, patch=orjson.dumps(patch), patch_type=patch_type_for(one.kind), namespace=one.namespace,
                subresource=subresource, field_manager="kubectl-edit", field_validation="Strict",
            )  # fmt: skip
        except ServiceUnavailableError:
            raise
        except (StatusError, CommandError) as error:
            refused = status_line(error) if isinstance(error, StatusError) else f"error: {error}"
            notes = "".join(f"# {line}\n" for line in refused.splitlines()) + "#\n"
            continue
        reporter.done(document_of_raw(answer), "edited")
        return


def _give_up(reporter: Reporter, text: str, refused: str) -> None:
    """Say why the last change was refused, and keep it: nobody should have to type it again."""
    handle, name = tempfile.mkstemp(prefix="wharf-edit-", suffix=".yaml")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    complain(refused)
    complain(f'A copy of your changes has been stored to "{name}"')
    reporter.error("Edit cancelled, no valid changes were saved.")


def _open_editor(text: str) -> str:
    editor = os.environ.get("KUBE_EDITOR") or os.environ.get("EDITOR") or "vi"
    handle, name = tempfile.mkstemp(prefix="wharf-edit-", suffix=".yaml")
    path = Path(name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        try:
            result = subprocess.run([*shlex.split(editor), name], check=False)
        except OSError as error:
            raise CommandError(f"unable to launch the editor {editor!r}: {error.strerror}; set EDITOR") from error
        if result.returncode:
            raise CommandError(f"the editor {editor!r} ended with code {result.returncode}; nothing was changed")
        return path.read_text()
    finally:
        path.unlink(missing_ok=True)
