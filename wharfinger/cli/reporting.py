"""How commands that change things say what they did: ``pod/web created``, or the object itself with ``-o``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from wharfinger.cli.failures import CommandError, complain, status_line
from wharfinger.cli.output import DocumentPrinter, Output, name_of, parse_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wharfinger.api.errors import StatusError
    from wharfinger.api.kinds import Kind

FORMATS = ("json", "jsonpath", "jsonpath-as-json", "jsonpath-file", "name", "yaml")
DRY_RUN = click.option(
    "--dry-run", type=click.Choice(["none", "client", "server"]), default="none", is_flag=False, flag_value="client",
    help="client: only print what would be sent; server: let the server check it, store nothing.",
)  # fmt: skip
OUTPUT = click.option("-o", "--output", metavar="FORMAT", help="Print the object: yaml, json, name, jsonpath=…")
_SUFFIX = {"none": "", "client": " (dry run)", "server": " (server dry run)"}


class Reporter:
    """Says what was done to each object, and remembers whether anything failed."""

    def __init__(self, output: str | None = None, *, dry_run: str = "none") -> None:
        self.output: Output = parse_output(output, allowed=FORMATS)
        self.dry_run = dry_run
        self.failed = False
        self._printer = DocumentPrinter(self.output) if self.output.format else None
        self._noted: set[str] = set()

    def done(self, document: dict[str, Any], action: str) -> None:
        """Say that something was done to an object."""
        if self._printer is not None:
            self._printer.print(document)
        else:
            self.say(f"{name_of(document)} {action}")

    def say(self, line: str) -> None:
        """Print a line, marked when nothing was really done."""
        sys.stdout.write(f"{line}{_SUFFIX[self.dry_run]}\n")

    def status(self, error: StatusError, *, source: str = "") -> None:
        """Say an error of the server; `source` is what was being done to which file."""
        self.failed = True
        complain(status_line(error, source=source))

    def error(self, message: str) -> None:
        """Say a mistake on this side."""
        self.failed = True
        complain(f"error: {message}" if not message.startswith("error") else message)

    def made(self, document: dict[str, Any], kind: Kind) -> None:
        """Say that an object was created, and once of a kind that nothing acts on it yet."""
        self.done(document, "created")
        if kind.inert and kind.kind not in self._noted:
            self._noted.add(kind.kind)
            sys.stdout.flush()
            complain(f"Note: {kind.kind} is only stored so far: {kind.inert}.")

    def warnings(self, texts: Sequence[str]) -> None:
        """Say the server's warnings."""
        for text in texts:
            complain(f"Warning: {text}")

    @property
    def server_dry_run(self) -> bool:
        """Whether the server shall check only."""
        return self.dry_run == "server"

    def finish(self) -> int:
        """Return the exit code."""
        return 1 if self.failed else 0


def quoted(text: str) -> str:
    """Put a name between double quotes, as Go's %q does for plain names."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def needs(condition: bool, message: str) -> None:
    """Raise CommandError with `message` unless `condition` holds."""
    if not condition:
        raise CommandError(message)
