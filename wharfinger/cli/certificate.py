"""``wharf certificate``: decide on requests for certificates that nobody approves by rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from wharfinger.cli.failures import CommandError
from wharfinger.cli.helping import Group
from wharfinger.cli.session import Session, command

if TYPE_CHECKING:
    from wharfinger.client import Client

_TRIES = 5
_GROUP = "certificatesigningrequest.certificates.k8s.io"


@click.group(cls=Group)
def certificate() -> None:
    """Approve or deny requests for certificates."""


@command(name="approve")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
async def approve(session: Session, *, names: Sequence[str]) -> None:
    """Approve requests; the controller-manager then signs them. Look at what is asked for first: wharf describe csr."""
    await _decide(session, names, "Approved", "Denied")


@command(name="deny")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
async def deny(session: Session, *, names: Sequence[str]) -> None:
    """Deny requests."""
    await _decide(session, names, "Denied", "Approved")


for _member in (approve, deny):
    certificate.add_command(_member)


async def _decide(session: Session, names: Sequence[str], decision: str, opposite: str) -> None:
    async with session.client() as client:
        for name in names:
            await _decide_one(client, name.removeprefix("csr/"), decision, opposite)
            click.echo(f"{_GROUP}/{name.removeprefix('csr/')} {decision.lower()}")


async def _decide_one(client: Client, name: str, decision: str, opposite: str) -> None:
    from wharfinger.api import errors
    from wharfinger.api.types import certificates

    requests = client.resource(certificates.CertificateSigningRequest)
    for attempt in range(_TRIES):
        request = await requests.get(name)
        known = {condition.type for condition in request.status.conditions}
        if opposite in known:
            raise CommandError(f'certificate signing request "{name}" is already {opposite}')
        if decision in known:
            return
        verb = "approve" if decision == "Approved" else "deny"
        request.status.conditions.add(
            type=decision, status="True", reason=f"Wharf{verb.capitalize()}",
            message=f"This CSR was {decision.lower()} by wharf certificate {verb}.",
        )  # fmt: skip
        try:
            await requests.update(request, subresource="approval")
        except errors.ConflictError:
            if attempt + 1 == _TRIES:
                raise
            continue
        return
