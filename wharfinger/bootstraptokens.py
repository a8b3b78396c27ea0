"""What a bootstrap token is: a Secret in kube-system, whose parts all sides must read alike.

Source: "Authenticating with Bootstrap Tokens" in Kubernetes' documentation.
"""

from __future__ import annotations

import re
import secrets
import string
import time
from collections.abc import Mapping, Sequence

from wharfinger.api import times
from wharfinger.api.types import core

TYPE = "bootstrap.kubernetes.io/token"
NAMESPACE = "kube-system"
PREFIX = "bootstrap-token-"
"""Of the Secret's name; the token's id follows."""
GROUP = "system:bootstrappers"
TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
EXTRA_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
_LETTERS = string.ascii_lowercase + string.digits


def generate() -> str:
    """Return a new token; its secret half has 82 bits."""
    identifier = "".join(secrets.choice(_LETTERS) for _ in range(6))
    return f"{identifier}.{''.join(secrets.choice(_LETTERS) for _ in range(16))}"


def secret_of(token: str, *, seconds: int, description: str = "", groups: Sequence[str] = ()) -> core.Secret:
    """Return the Secret that makes a token valid for so many seconds (0: for ever). Raises ValueError."""
    match = TOKEN.fullmatch(token)
    if match is None:
        raise ValueError('a bootstrap token is "<6 characters>.<16 characters>" of a to z and 0 to 9')
    for group in groups:
        if not EXTRA_GROUP.fullmatch(group):
            raise ValueError(f"{group!r} cannot be a group of a token: it must match {EXTRA_GROUP.pattern}")
    made = core.Secret(type=TYPE)
    made.metadata.name, made.metadata.namespace = PREFIX + match[1], NAMESPACE
    data = {
        "token-id": match[1], "token-secret": match[2], "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true", "description": description, "auth-extra-groups": ",".join(groups),
    }  # fmt: skip
    if seconds:
        data["expiration"] = times.format_seconds(int(time.time()) + seconds)
    for key, value in data.items():
        if value:
            made.data[key] = value.encode()
    return made


def end_of(data: Mapping[str, bytes]) -> float | None:
    """Return the second of a token's end; None when it has none. Raises ValueError for one that is no time."""
    end = data.get("expiration", b"").decode(errors="replace")
    return times.to_datetime(times.parse(end)).timestamp() if end else None


def expired(data: Mapping[str, bytes], now: float) -> bool:
    """Whether a token's time is over; one whose end cannot be read counts as over."""
    try:
        end = end_of(data)
    except ValueError:
        return True
    return end is not None and end <= now
