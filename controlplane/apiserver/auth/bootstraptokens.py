"""Bootstrap tokens: short secrets by which a host that has no certificate yet asks for one.

Each is a Secret ``bootstrap-token-<id>`` in kube-system of type ``bootstrap.kubernetes.io/token``; the token is
``<id>.<secret>``. It is looked up in the watch cache at every use, so that a deleted or expired one is worth nothing at
once. Source: "Authenticating with Bootstrap Tokens" in Kubernetes' documentation.
"""

from __future__ import annotations

import hmac
import time
from typing import TYPE_CHECKING

from controlplane.apiserver.auth.bearer import Identified
from controlplane.apiserver.auth.certificates import AUTHENTICATED
from controlplane.apiserver.request import User
from wharfinger.api.errors import UnauthorizedError
from wharfinger.bootstraptokens import EXTRA_GROUP, GROUP, NAMESPACE, PREFIX, TOKEN, TYPE, expired

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.apiserver.store import Cache

_STORED = f"/registry/secrets/{NAMESPACE}/{PREFIX}"


class BootstrapTokens:
    """Knows them."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def identify(self, token: str) -> Identified | None:
        """See :class:`~.bearer.Source`."""
        match = TOKEN.fullmatch(token)
        if match is None:
            return None
        identifier, secret = match.groups()
        entry = self._cache.get(_STORED + identifier)
        if entry is None:
            return None
        stored = entry.decoded
        if stored.type != TYPE or stored.metadata.HasField("deletionTimestamp"):
            return None
        data: Mapping[str, bytes] = stored.data
        if data.get("token-id") != identifier.encode():
            raise UnauthorizedError(f"the secret of bootstrap token {identifier} is about another token")
        if not hmac.compare_digest(data.get("token-secret", b""), secret.encode()):
            raise UnauthorizedError(f"bootstrap token {identifier} has another secret")
        if expired(data, time.time()):
            raise UnauthorizedError(f"bootstrap token {identifier} has expired")
        if data.get("usage-bootstrap-authentication") != b"true":
            raise UnauthorizedError(f"bootstrap token {identifier} is not for authentication")
        name = f"system:bootstrap:{identifier}"
        return Identified(User(name=name, groups=(GROUP, *_extra_groups(data, identifier), AUTHENTICATED)))


def _extra_groups(data: Mapping[str, bytes], identifier: str) -> list[str]:
    listed = data.get("auth-extra-groups", b"").decode(errors="replace")
    groups = [group for group in listed.split(",") if group]
    wrong = next((group for group in groups if not EXTRA_GROUP.fullmatch(group)), None)
    if wrong is not None:
        raise UnauthorizedError(f"bootstrap token {identifier} names the group {wrong!r}, which none may give")
    return sorted(set(groups))
