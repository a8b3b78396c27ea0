"""The table of commands: name → where it lives, its section in the help, its help line.

A command is one file in this package and one line here; the file is imported when the command is used.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One command of the table."""

    target: str
    """``module:attribute`` of the click command."""
    section: str
    help: str
    hidden: bool = False


_PACKAGE = "wharfinger.cli"

BASIC, INSPECT, CHANGE, NODES, SETUP, OTHER = (
    "Basic commands", "Looking closer", "Changing objects", "Nodes", "Clusters", "Other commands",
)  # fmt: skip


def _entry(target: str, section: str, help_line: str, *, hidden: bool = False) -> Entry:
    return Entry(f"{_PACKAGE}.{target}", section, help_line, hidden)


COMMANDS: dict[str, Entry] = {
    "create": _entry("create:create", BASIC, "Create objects from files"),
    "apply": _entry("apply:apply", BASIC, "Make the cluster agree with files"),
    "get": _entry("get:get", BASIC, "Show objects"),
    "delete": _entry("delete:delete", BASIC, "Delete objects"),
    "replace": _entry("replace:replace", CHANGE, "Replace objects by what files say"),
    "pki": _entry("pki:pki", SETUP, "Make and look at the cluster's certificates"),
}
