"""Secrets that hold the token of a service account: the older way to one, by a Secret made by hand.

Source: "Managing Service Accounts" in Kubernetes' documentation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wharfinger.api.types import core

TYPE = "kubernetes.io/service-account-token"
ACCOUNT = "kubernetes.io/service-account.name"
"""Annotation: the account that is meant."""
ACCOUNT_UID = "kubernetes.io/service-account.uid"
"""Annotation: which account of that name it was when the token was made."""


def holds_token_of(secret: core.Secret, account: core.ServiceAccount) -> bool:
    """Whether a Secret of the account's namespace holds a token of this very account."""
    said, metadata = secret.metadata.annotations, account.metadata
    return secret.type == TYPE and (said.get(ACCOUNT), said.get(ACCOUNT_UID)) == (metadata.name, metadata.uid)
