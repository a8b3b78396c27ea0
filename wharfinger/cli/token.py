"""``wharf token``: bootstrap tokens, by which new nodes join.

A token is printed once, when it is made; ``list`` shows only its public half. None is ever taken from the command line,
where every user of the host could read it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wharfinger.cli.columns import print_columns
from wharfinger.cli.durations import parse_duration
from wharfinger.cli.failures import CommandError
from wharfinger.cli.helping import Group
from wharfinger.cli.session import Session, command

if TYPE_CHECKING:
    from wharfinger.client.config import ClientConfig

_DEFAULT_GROUP = "system:bootstrappers:wharfinger:default-node-token"


@click.group(cls=Group)
def token() -> None:
    """Make, list and delete the tokens by which new nodes join."""


@command(name="create")
@click.option("--ttl", default="24h", show_default=True, help="How long the token is good; 0: until it is deleted.")
@click.option("--description", default="", help="What the token is for.")
@click.option(
    "--groups", multiple=True, default=(_DEFAULT_GROUP,), show_default=True,
    help="A group of who uses it, besides system:bootstrappers (again for more).",
)  # fmt: skip
@click.option(
    "--write-kubeconfig", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write a kubeconfig with the token (0600), for wharf-nodeagent --bootstrap-kubeconfig; prints no token.",
)  # fmt: skip
async def create(
    session: Session, *, ttl: str, description: str, groups: Sequence[str], write_kubeconfig: Path | None
) -> None:
    """Make a token and print it.

    \b
      wharf token create --ttl 2h --description "rack 7"
      wharf token create --write-kubeconfig bootstrap.conf
    """
    from wharfinger import bootstraptokens
    from wharfinger.api.types import core

    seconds = 0 if ttl == "0" else int(parse_duration(ttl, flag="--ttl"))
    text = bootstraptokens.generate()
    try:
        secret = bootstraptokens.secret_of(text, seconds=seconds, description=description, groups=groups)
    except ValueError as error:
        raise CommandError(str(error)) from error
    config = session.config  # a kubeconfig that cannot be made must not leave a token behind
    endpoints = _token_endpoints(session.document, session.overrides.get("context")) if write_kubeconfig else []
    async with session.client() as client:
        await client.resource(core.Secret).create(secret)
    if write_kubeconfig is None:
        click.echo(text)
        return
    _write(write_kubeconfig, config, endpoints, text)
    click.echo(f"{write_kubeconfig} written; the token is {text.partition('.')[0]}")


@command(name="list")
async def list_(session: Session) -> None:
    """List tokens, without their secret halves."""
    from wharfinger import bootstraptokens
    from wharfinger.api.tables.text import duration
    from wharfinger.api.types import core

    async with session.client() as client:
        found = await client.resource(core.Secret).list(
            namespace=bootstraptokens.NAMESPACE, field_selector=f"type={bootstraptokens.TYPE}"
        )
    rows = []
    now = time.time()
    for secret in found.items:
        data = secret.data
        try:
            end = bootstraptokens.end_of(data)
            left = "forever" if end is None else duration(end - now) if end > now else "expired"
        except ValueError:
            left = "unreadable"
        usages = [name for name in ("authentication", "signing") if data.get(f"usage-bootstrap-{name}") == b"true"]
        rows.append(
            [
                _text(data, "token-id") or secret.metadata.name.removeprefix(bootstraptokens.PREFIX), left,
                ",".join(usages) or "<none>", _text(data, "description") or "<none>",
                _text(data, "auth-extra-groups") or "<none>",
            ]
        )  # fmt: skip
    if rows:
        print_columns(["TOKEN", "TTL", "USAGES", "DESCRIPTION", "EXTRA GROUPS"], rows)
    else:
        click.echo("No tokens found.", err=True)


@command(name="delete")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
async def delete(session: Session, *, ids: Sequence[str]) -> None:
    """Delete tokens by their ids, the six characters before the dot."""
    from wharfinger import bootstraptokens
    from wharfinger.api.types import core

    async with session.client() as client:
        for one in ids:
            identifier = one.partition(".")[0]
            await client.resource(core.Secret).delete(
                bootstraptokens.PREFIX + identifier, namespace=bootstraptokens.NAMESPACE
            )
            click.echo(f'bootstrap token "{identifier}" deleted')


for _member in (create, list_, delete):
    token.add_command(_member)


def _text(data: Any, key: str) -> str:
    return str(data.get(key, b"").decode(errors="replace"))


def _token_endpoints(document: dict[str, Any], context: str | None) -> list[str]:
    """Return where those with a token are served, as the kubeconfig has it. Raises CommandError."""
    from wharfinger.client.config import GRPC_EXTENSION

    name = context or document.get("current-context")
    entry: dict[str, Any] = next((one for one in document["contexts"] if one.get("name") == name), {})
    chosen = entry.get("context") or {}
    for cluster in document["clusters"]:
        if cluster.get("name") == chosen.get("cluster"):
            for item in (cluster.get("cluster") or {}).get("extensions") or []:
                found = (item.get("extension") or {}).get("tokenEndpoints")
                if item.get("name") == GRPC_EXTENSION and found:
                    return [str(one) for one in found]
    raise CommandError(
        f"the kubeconfig's cluster names no tokenEndpoints in its extension {GRPC_EXTENSION}: a joining node needs them"
    )


def _write(path: Path, config: ClientConfig, endpoints: Sequence[str], text: str) -> None:
    from wharfinger import pki

    pki.write_kubeconfig(
        path, server=config.server, grpc_endpoints=config.endpoints, grpc_token_endpoints=endpoints, ca=config.ca,
        token=text, user="bootstrap",
    )  # fmt: skip
