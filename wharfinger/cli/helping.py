"""How commands are listed, and what is said of one that is not there."""

from __future__ import annotations

from collections.abc import Iterable

import click

_KUBECTLS = frozenset(
    {
        "alpha", "autoscale", "debug", "diff", "expose", "kustomize", "options", "plugin", "proxy", "rollout", "set",
    }
)  # fmt: skip
"""kubectl's commands that wharf has not; docs/cli.md names them."""


class Group(click.Group):
    """A group of commands whose help shows the first paragraph of each, whole (click cuts it to a line)."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        rows = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, " ".join((command.help or "").split("\n\n")[0].split())))
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def unknown_command(name: str, known: Iterable[str]) -> str:
    """Return what is said of a command that wharf does not have."""
    text = f'unknown command "{name}" for "wharf"'
    if name in _KUBECTLS:
        return f"{text}; kubectl has it, and works with the same kubeconfig"
    from difflib import get_close_matches

    if close := get_close_matches(name, sorted(known), n=3, cutoff=0.6):
        return f"{text}\n\nDid you mean this?\n" + "\n".join(f"\t{one}" for one in close)
    return text
