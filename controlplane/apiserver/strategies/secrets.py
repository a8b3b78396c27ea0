"""Secrets and config maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.strategies.base import Strategy

if TYPE_CHECKING:
    from controlplane.apiserver.request import Request
    from wharfinger.api.types import core


class SecretStrategy(Strategy):
    """How secrets differ: plain text in ``stringData`` is taken over into ``data`` and never stored as such."""

    def prepare_for_create(self, obj: core.Secret, request: Request) -> None:
        """Take over the plain text."""
        super().prepare_for_create(obj, request)
        _take_over(obj)

    def prepare_for_update(self, obj: core.Secret, old: core.Secret, request: Request) -> None:
        """Take over the plain text; the type stays when none is said."""
        super().prepare_for_update(obj, old, request)
        _take_over(obj)
        if not obj.type:
            obj.type = old.type


def _take_over(secret: core.Secret) -> None:
    for key, text in secret.stringData.items():
        secret.data[key] = text.encode()
    secret.stringData.clear()
