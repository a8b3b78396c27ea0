"""``wharf pki encryption``: the file with which the apiservers encrypt Secrets in etcd, and its keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from wharfinger.cli.failures import CommandError
from wharfinger.cli.helping import Group

FILE = "encryption.yaml"

_directory = click.option(
    "-d", "--dir", "directory", type=click.Path(file_okay=False, path_type=Path), default=Path("pki"),
    show_default=True, help="Folder of the file.",
)  # fmt: skip


@contextmanager
def _told() -> Iterator[None]:
    """What goes wrong with the file is the command's error."""
    from wharfinger import encryptionkeys

    try:
        yield
    except (OSError, encryptionkeys.EncryptionFileError) as error:
        raise CommandError(str(error)) from error


@click.group(cls=Group)
def encryption() -> None:
    """Make the keys that encrypt Secrets in etcd, and change them.

    \b
    A change of keys, with every apiserver having the file before the next step:
      wharf pki encryption add-key     all can read what the new key writes
      wharf pki encryption use-key     it writes
      (write all Secrets anew)         docs/operations.md says how
      wharf pki encryption drop-keys   nothing needs the old ones
    """


@encryption.command()
@_directory
@click.option("--plain", is_flag=True, help="Values are written as they are; encrypted ones are read.")
def init(directory: Path, plain: bool) -> None:
    """Make the file with a key of its own, or see to it that it encrypts.

    \b
    Where several apiservers run already, none may write what another one cannot read yet:
      wharf pki encryption init --plain     and bring it to all of them
      wharf pki encryption init             and bring it to all of them
    """
    from wharfinger import encryptionkeys

    path = directory / FILE
    with _told():
        why = encryptionkeys.ensure(path, plain=plain)
    click.echo(f"{path} {f'written ({why})' if why else 'kept'}")


@encryption.command()
@_directory
def add_key(directory: Path) -> None:
    """Add a key: it reads, and writes nothing yet."""
    from wharfinger import encryptionkeys

    path = directory / FILE
    with _told():
        name = encryptionkeys.add_key(path)
    click.echo(f"{path} written ({name} added)")


@encryption.command()
@_directory
def use_key(directory: Path) -> None:
    """Write with the key that was added last."""
    from wharfinger import encryptionkeys

    path = directory / FILE
    with _told():
        name = encryptionkeys.use_newest(path)
    click.echo(f"{path} {f'written ({name} writes)' if name else 'kept'}")


@encryption.command()
@_directory
def drop_keys(directory: Path) -> None:
    """Forget all keys but the one that writes. What they wrote and nobody has written since is lost."""
    from wharfinger import encryptionkeys

    path = directory / FILE
    with _told():
        names = encryptionkeys.drop_old(path)
    done = f"written ({', '.join(names)} dropped)" if names else "kept"
    click.echo(f"{path} {done}")
