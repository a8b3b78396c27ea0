"""ServiceAccounts, with the secrets that belong to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.api.accounttokens import holds_token_of
from wharfinger.api.types import core
from wharfinger.cli.describing import common

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client


async def describe(client: Client, obj: core.ServiceAccount, out: Layout) -> None:
    """Write an account; a secret that is named and not there is marked."""
    from wharfinger.api.errors import ForbiddenError

    common.head(out, obj)
    common.labels_and_annotations(out, obj.metadata)
    common.deletion(out, obj.metadata)
    missing: set[str] = set()
    named = [*(one.name for one in obj.imagePullSecrets), *(one.name for one in obj.secrets)]
    try:
        secrets = (await client.resource(core.Secret).list(namespace=obj.metadata.namespace)).items
    except ForbiddenError:
        secrets = []
    else:
        missing = set(named) - {secret.metadata.name for secret in secrets}
    for title, names in (
        ("Image pull secrets", [one.name for one in obj.imagePullSecrets]),
        ("Mountable secrets", [one.name for one in obj.secrets]),
        ("Tokens", sorted(secret.metadata.name for secret in secrets if holds_token_of(secret, obj))),
    ):
        out.multi(0, title, [f"{name} (not found)" if name in missing else name for name in names])
    common.events(out, await common.events_of(client, obj, "ServiceAccount"))
