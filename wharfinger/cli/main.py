"""The command ``wharf``: a table of commands, each imported only when it is used.

``wharf get`` is typed a hundred times a day, so nothing that it does not need is loaded: help texts stand in the
table of :mod:`wharfinger.cli.commands`, modules are imported by the command that runs. Usage mistakes and errors of
the server end here as one line and kubectl's exit code, never as a traceback (``WHARF_TRACEBACK=1`` shows it).
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from wharfinger.cli import failures
from wharfinger.cli.commands import COMMANDS, Entry
from wharfinger.cli.helping import unknown_command

_SWITCHED = {**dict.fromkeys(("1", "t", "T", "true", "True", "TRUE"), True),
             **dict.fromkeys(("0", "f", "F", "false", "False", "FALSE"), False)}  # fmt: skip


def with_plain_flags(command: click.Command, args: list[str]) -> list[str]:
    """Return arguments in which ``--wait=false``, as kubectl's users write it, is said in click's way."""
    flags = {
        name: option.secondary_opts
        for option in command.params
        if isinstance(option, click.Option) and option.is_bool_flag
        for name in option.opts
    }
    end = args.index("--") if "--" in args else len(args)
    plain: list[str] = []
    for arg in args[:end]:
        name, equals, value = arg.partition("=")
        if not equals or name not in flags or value not in _SWITCHED:
            plain.append(arg)
        elif _SWITCHED[value]:
            plain.append(name)
        elif flags[name]:
            plain.append(flags[name][0])  # without such a one the flag is off unless it is given
    return plain + args[end:]


class LazyGroup(click.Group):
    """A group whose members come from a table; loading one imports its module."""

    def __init__(self, *args: Any, table: dict[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name all commands, in the table's order."""
        return [name for name, entry in self.table.items() if not entry.hidden]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module; None for a name that is not in the table."""
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Say an unknown command as kubectl does."""
        if args and args[0] not in self.table and not ctx.resilient_parsing:
            raise failures.CommandError(unknown_command(args[0], self.table))
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if command is None else with_plain_flags(command, rest)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the commands by their sections, without importing any."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.table.items():
            if not entry.hidden:
                sections.setdefault(entry.section, []).append((name, entry.help))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    invoke_without_command=False,
)
@click.option("--kubeconfig", metavar="FILE", help="Path to the kubeconfig file.")
@click.option("--context", metavar="NAME", help="The kubeconfig context to use.")
@click.option("--cluster", metavar="NAME", help="The kubeconfig cluster to use.")
@click.option("--user", metavar="NAME", help="The kubeconfig user to use.")
@click.option("-n", "--namespace", metavar="NAMESPACE", help="The namespace of this request.")
@click.option("-s", "--server", metavar="HOST:PORT", help="The apiserver's gRPC address.")
@click.option("--token", metavar="TOKEN", help="Bearer token for the apiserver.")
@click.option("--as", "as_user", metavar="USER", help="Act as another user, if you may impersonate it.")
@click.option("--as-group", multiple=True, metavar="GROUP", help="A group to act as a member of; may be repeated.")
@click.option("--as-uid", metavar="UID", help="The uid to act with.")
@click.pass_context
def wharf(ctx: click.Context, /, **overrides: Any) -> None:
    """Control a Wharfinger cluster; what you know of kubectl works here."""
    ctx.obj = {name: value for name, value in overrides.items() if value is not None and value != ()}


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit with kubectl's code."""
    # gRPC's own log lines would stand between ours; errors arrive as exceptions all the same.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    sys.exit(run(argv))


def run(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    try:
        result = wharf.main(args=argv, prog_name="wharf", standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        if os.environ.get("WHARF_TRACEBACK"):
            raise
        return failures.report(error)
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    main()
