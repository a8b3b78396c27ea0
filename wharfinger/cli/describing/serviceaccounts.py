"""ServiceAccounts, with the secrets that belong to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.api.types import core
from wharfinger.cli.describing import common

if TYPE_CHECKING:
    from wharfinger.cli.describing.layout import Layout
    from wharfinger.client import Client

_TOKEN_TYPE = "kubernetes.io/service-account-token"


async def describe(client: Client, obj: core.ServiceAccount, out: Layout) -> None:
    """Write an account; a secret that is named and not there is marked."""
    from wharfinger.api.errors import ForbiddenError

    common.head(out, obj)
    common.labels_and_annotations(out, obj.metadata)
    common.deletion(out, obj.metadata)
    tokens: list[str] = []
    missing: set[str] = set()
    named = [*(one.name for one in obj.imagePullSecrets), *(one.name for one in obj.secrets)]
    try:
        secrets = (await client.resource(core.Secret).list(namespace=obj.metadata.namespace)).items
    except ForbiddenError:
        secrets = []
    else:
        missing = set(named) - {secret.metadata.name for secret in secrets}
    for secret in secrets:
        if secret.type == _TOKEN_TYPE:
            of = secret.metadata.annotations
            name, uid = of.get("kubernetes.io/service-account.name"), of.get("kubernetes.io/service-account.uid")
            if name == obj.metadata.name and uid == obj.metadata.uid:
                tokens.append(secret.metadata.name)
    for title, names in (
        ("Image pull secrets", [one.name for one in obj.imagePullSecrets]),
        ("Mountable secrets", [one.name for one in obj.secrets]),
        ("Tokens", sorted(tokens)),
    ):
        out.multi(0, title, [f"{name} (not found)" if name in missing else name for name in names])
    common.events(out, await common.events_of(client, obj, "ServiceAccount"))
