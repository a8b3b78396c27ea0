"""Names, uids and the other metadata that only the server sets."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

from wharfinger.api.errors import BadRequestError

if TYPE_CHECKING:
    from wharfinger.api.kinds import Kind
    from wharfinger.api.types import meta

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels, and nothing that looks like another: as Kubernetes has it, so no words come out by chance."""
_SUFFIX = 5
_MAX_BASE = 63 - _SUFFIX
ATTEMPTS = 8
"""How often another suffix is tried when a generated name is taken."""
_random = random.SystemRandom()


def generated(base: str) -> str:
    """Return a name made of a base, cut to what leaves room, and a random suffix of five characters."""
    return base[:_MAX_BASE] + "".join(_random.choices(_ALPHABET, k=_SUFFIX))


def new_uid() -> str:
    """Return a random UUID (RFC 9562, version 4), at a third of the cost of the standard library's."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def settle_namespace(metadata: meta.ObjectMeta, kind: Kind, namespace: str) -> None:
    """Give an object the namespace of its request.

    Raises BadRequestError when it says another one, or when a namespaced kind gets none at all.
    """
    if not kind.namespaced:
        metadata.namespace = ""
        return
    if not namespace:
        raise BadRequestError(f"{kind.group_resource} live in namespaces: the request must name one")
    if metadata.namespace and metadata.namespace != namespace:
        raise BadRequestError(
            f"the namespace of the provided object does not match the namespace sent on the request: "
            f'"{metadata.namespace}" is not "{namespace}"'
        )
    metadata.namespace = namespace


def fill_system_fields(metadata: meta.ObjectMeta) -> None:
    """Set what the server alone sets on a new object, whatever the client said."""
    metadata.uid = new_uid()
    metadata.creationTimestamp.seconds = int(time.time())
    metadata.creationTimestamp.nanos = 0
    metadata.ClearField("deletionTimestamp")
    metadata.ClearField("deletionGracePeriodSeconds")
    metadata.selfLink = ""


def keep_system_fields(metadata: meta.ObjectMeta, old: meta.ObjectMeta) -> None:
    """Restore what an update may not change; what it may not *try* to change is left to validation."""
    if not metadata.uid:
        metadata.uid = old.uid
    metadata.creationTimestamp.CopyFrom(old.creationTimestamp)
    if old.HasField("deletionTimestamp"):
        metadata.deletionTimestamp.CopyFrom(old.deletionTimestamp)
    if old.HasField("deletionGracePeriodSeconds") and not metadata.HasField("deletionGracePeriodSeconds"):
        metadata.deletionGracePeriodSeconds = old.deletionGracePeriodSeconds
    metadata.selfLink = ""
