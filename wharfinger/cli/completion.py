"""``wharf completion``: the script that makes a shell complete commands, flags, kinds and names."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class


@click.command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
      bash:  source <(wharf completion bash)
      zsh:   source <(wharf completion zsh)
      fish:  wharf completion fish | source
    """
    from wharfinger.cli.main import wharf

    maker = get_completion_class(shell)
    assert maker is not None, shell
    sys.stdout.write(maker(wharf, {}, "wharf", "_WHARF_COMPLETE").source() + "\n")
