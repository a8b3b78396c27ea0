"""``wharf pki service-account``: the key that signs service accounts' tokens, and those that are accepted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from wharfinger.cli.failures import CommandError
from wharfinger.cli.helping import Group

_directory = click.option(
    "-d", "--dir", "directory", type=click.Path(file_okay=False, path_type=Path), default=Path("pki"),
    show_default=True, help="Folder of the keys.",
)  # fmt: skip


@contextmanager
def _told() -> Iterator[None]:
    """What goes wrong with the files is the command's error."""
    from wharfinger import pki

    try:
        yield
    except (OSError, ValueError, pki.PKIError) as error:
        raise CommandError(str(error)) from error


@click.group(name="service-account", cls=Group)
def service_account() -> None:
    """Change the key that signs tokens of service accounts.

    \b
    With every apiserver having sa.key and sa.pub before the next step:
      wharf pki service-account add-key     all accept what the next key signs
      wharf pki service-account use-key     it signs
      (until no old token is in use)        docs/security.md says how long
      wharf pki service-account drop-keys   tokens of other keys are refused
    """


@service_account.command()
@_directory
def add_key(directory: Path) -> None:
    """Make the next key: its tokens are accepted, and it signs nothing yet."""
    from wharfinger.pki import accountkeys

    with _told():
        made = accountkeys.add_key(directory)
    click.echo(f"{directory / 'sa.pub'} {'written (a key added)' if made else 'kept'}")


@service_account.command()
@_directory
def use_key(directory: Path) -> None:
    """Sign with the next key."""
    from wharfinger.pki import accountkeys

    with _told():
        used = accountkeys.use_newest(directory)
    click.echo(f"{directory / 'sa.key'} {'written (another key signs)' if used else 'kept'}")


@service_account.command()
@_directory
def drop_keys(directory: Path) -> None:
    """Accept no key but the one that signs: tokens of others are worth nothing from then on."""
    from wharfinger.pki import accountkeys

    with _told():
        dropped = accountkeys.drop_old(directory)
    click.echo(f"{directory / 'sa.pub'} {f'written ({dropped} dropped)' if dropped else 'kept'}")
