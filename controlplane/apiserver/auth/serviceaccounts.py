"""Tokens of service accounts: signed here, bound to an object, and good only while that object is there.

A token is a JWT with Kubernetes' claims, so that what others do with such tokens (OIDC federation, sidecars that read
their claims) works. Its signature is checked once and remembered for as long as it comes again; whether the account and
the object that it is bound to still exist is asked of the watch cache at every use, which costs two look-ups. So
deleting a pod ends its token within the cache's delay.

Tokens that pods get unasked (:data:`PROJECTED_SECONDS`) are meant to be read anew within the hour, which old programs
do not do. As in Kubernetes they hold for a year, and using one after its hour is counted and noted: ``warnafter``.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client import Counter

from controlplane.apiserver.auth.bearer import Identified
from controlplane.apiserver.auth.certificates import AUTHENTICATED
from controlplane.apiserver.request import User
from wharfinger.api.errors import UnauthorizedError
from wharfinger.signingkeys import LEGACY_CLAIM, LEGACY_ISSUER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controlplane.apiserver.store import Cache
    from wharfinger.signingkeys import Key

PREFIX = "system:serviceaccount:"
ACCOUNTS = "system:serviceaccounts"
PROJECTED_SECONDS = 3607
"""The life of a token that a pod gets unasked: an hour, and seven seconds by which such tokens are told from others."""
EXTENDED_SECONDS = 365 * 24 * 3600
VALID_TOKENS = Counter("serviceaccount_valid_tokens_total", "Uses of tokens of pods within the hour that they are for")
STALE_TOKENS = Counter("serviceaccount_stale_tokens_total", "Uses of tokens of pods that should have been read anew")
LEGACY_TOKENS = Counter("serviceaccount_legacy_tokens_total", "Uses of tokens that stand in a Secret")
_CLAIMS = "kubernetes.io"
_EXTRA = "authentication.kubernetes.io/"
_LEEWAY = 60
"""Seconds that clocks may differ."""
_REMEMBERED = 8192
_LEGACY = ("namespace", "service-account.name", "service-account.uid", "secret.name")
_STORED = {"pod": "/registry/pods/", "secret": "/registry/secrets/", "node": "/registry/minions/"}


@dataclass(frozen=True, slots=True)
class Bound:
    """What a token is bound to besides its account."""

    kind: str
    """``pod``, ``secret`` or ``node``."""
    name: str
    uid: str


class Issued(NamedTuple):
    """A token that was made."""

    token: str
    ends: int
    """When a new one should be there, Unix time; it may hold for longer."""
    id: str
    """Its own, by which the log of requests names it (``jti``)."""


class ServiceAccountTokens:
    """Makes tokens and knows them again."""

    def __init__(
        self, keys: Sequence[Key], *, issuer: str, audiences: Sequence[str], cache: Cache, extends: bool = True
    ) -> None:
        """`keys`: the first with a private half signs; all are accepted. `audiences`: of tokens that name none.

        `extends`: whether tokens that pods get unasked hold for longer than they are meant to be used.
        """
        self.replace(keys)
        self.issuer = issuer
        self.audiences = tuple(audiences)
        self.extends = extends
        self._cache = cache

    def replace(self, keys: Sequence[Key]) -> None:
        """Use other keys from now on: tokens of one that is no longer among them are refused at once."""
        self._keys = {key.id: key for key in keys}
        self._signing = next((key for key in keys if key.private is not None), None)
        self._known: OrderedDict[bytes, Mapping[str, Any]] = OrderedDict()

    @property
    def signs(self) -> bool:
        """Whether tokens can be made here."""
        return self._signing is not None

    def issue(
        self, namespace: str, name: str, uid: str, *, audiences: Sequence[str], seconds: int,
        bound: Sequence[Bound] = (),
    ) -> Issued:  # fmt: skip
        """Return a token of an account. The caller has checked that all of it exists."""
        import jwt

        assert self._signing is not None, "asked to sign without a key"
        now = int(time.time())
        about: dict[str, Any] = {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}}
        for one in bound:
            about[one.kind] = {"name": one.name, "uid": one.uid}
        life = seconds
        if (
            self.extends and seconds == PROJECTED_SECONDS and any(one.kind == "pod" for one in bound)
            and set(audiences) <= set(self.audiences)
        ):  # fmt: skip
            life, about["warnafter"] = EXTENDED_SECONDS, now + seconds
        claims = {
            "aud": list(audiences), "exp": now + life, "iat": now, "iss": self.issuer, "jti": str(uuid.uuid4()),
            _CLAIMS: about, "nbf": now, "sub": f"{PREFIX}{namespace}:{name}",
        }  # fmt: skip
        token = jwt.encode(
            claims, self._signing.private, algorithm=self._signing.algorithm, headers={"kid": self._signing.id}
        )
        return Issued(token, now + seconds, str(claims["jti"]))

    def identify(self, token: str) -> Identified | None:
        """See :class:`~.bearer.Source`."""
        if token.count(".") != 2 or not token.isascii():
            return None
        claims = self._claims(token)
        if claims is None:
            return None
        if claims["iss"] == LEGACY_ISSUER:
            return self._legacy(token, claims)
        about = claims[_CLAIMS]
        namespace, account = about["namespace"], about["serviceaccount"]
        self._exists(f"/registry/serviceaccounts/{namespace}/{account['name']}", account["uid"], "the account")
        extra = {f"{_EXTRA}credential-id": (f"JTI={claims['jti']}",)}
        for kind in ("pod", "node", "secret"):
            bound = about.get(kind)
            if bound is None:
                continue
            # A pod's token also names the node that it was on; that one is told, and not asked for.
            if kind != "node" or "pod" not in about:
                place = bound["name"] if kind == "node" else f"{namespace}/{bound['name']}"
                self._exists(f"{_STORED[kind]}{place}", bound["uid"], f"the {kind}")
            if kind != "secret":
                extra[f"{_EXTRA}{kind}-name"] = (bound["name"],)
                extra[f"{_EXTRA}{kind}-uid"] = (bound["uid"],)
        user = _user(namespace, account["name"], account["uid"], tuple(sorted(extra.items())))
        return Identified(user, tuple(claims["aud"]), stale=_stale(about.get("warnafter"), claims["sub"]))

    def _legacy(self, token: str, claims: Mapping[str, Any]) -> Identified:
        """Accept a token that stands in a Secret, while it stands there."""
        namespace, name, uid, secret = (claims[f"{LEGACY_CLAIM}{part}"] for part in _LEGACY)
        self._exists(f"/registry/serviceaccounts/{namespace}/{name}", uid, "the account")
        entry = self._cache.get(f"/registry/secrets/{namespace}/{secret}")
        stored = entry.decoded.data.get("token", b"") if entry is not None else b""
        if not stored or not hmac.compare_digest(stored, token.encode()):
            raise UnauthorizedError("the secret of the token is gone")
        assert entry is not None
        if entry.decoded.metadata.HasField("deletionTimestamp"):
            raise UnauthorizedError("the secret of the token is being deleted")
        LEGACY_TOKENS.inc()
        return Identified(_user(namespace, name, uid, ()))

    def _claims(self, token: str) -> Mapping[str, Any] | None:
        digest = hashlib.sha256(token.encode()).digest()
        claims = self._known.get(digest)
        if claims is None:
            claims = self._verified(token)
            if claims is None:
                return None
            self._known[digest] = claims
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        if "exp" in claims and time.time() > claims["exp"]:
            self._known.pop(digest, None)
            raise UnauthorizedError("the token has expired")
        return claims

    def _verified(self, token: str) -> Mapping[str, Any] | None:
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            key = self._keys.get(header.get("kid", ""))
            if key is None:
                return None
            legacy = jwt.decode(token, options={"verify_signature": False}).get("iss") == LEGACY_ISSUER
            claims: dict[str, Any] = jwt.decode(
                token, key.public, algorithms=[key.algorithm], issuer=LEGACY_ISSUER if legacy else self.issuer,
                leeway=_LEEWAY, options={
                    "verify_aud": False, "verify_exp": False,
                    "require": ["iss", "sub"] if legacy else ["exp", "iss", "sub", "aud", "jti"],
                },
            )  # fmt: skip
            if legacy:
                namespace, name, _, _ = (_text(claims, f"{LEGACY_CLAIM}{part}") for part in _LEGACY)
            else:
                namespace, name = _shape(claims)
            if claims["sub"] != f"{PREFIX}{namespace}:{name}":
                raise UnauthorizedError("the token's claims contradict each other")
        except jwt.InvalidTokenError as error:
            raise UnauthorizedError(f"the token does not hold: {error}") from error
        except (KeyError, TypeError, ValueError) as error:  # signed with our key, but by whom?
            raise UnauthorizedError(f"the token lacks a claim, or it is of the wrong kind: {error}") from error
        return claims

    def _exists(self, key: str, uid: str, what: str) -> None:
        entry = self._cache.get(key)
        if entry is None or entry.decoded.metadata.uid != uid:
            raise UnauthorizedError(f"{what} of the token is gone")
        deleted = entry.decoded.metadata
        if deleted.HasField("deletionTimestamp") and time.time() > deleted.deletionTimestamp.seconds + _LEEWAY:
            raise UnauthorizedError(f"{what} of the token is being deleted")

    def discovery(self, address: str) -> dict[str, Any]:
        """Return the OpenID configuration, by which others find the keys."""
        return {
            "issuer": self.issuer,
            "jwks_uri": f"https://{address}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({key.algorithm for key in self._keys.values()}),
        }

    def key_set(self) -> dict[str, Any]:
        """Return the public keys as a JSON Web Key Set."""
        import jwt.algorithms

        makers: dict[str, Any] = {"ES256": jwt.algorithms.ECAlgorithm, "RS256": jwt.algorithms.RSAAlgorithm}
        found = []
        for key in self._keys.values():
            made: Any = makers[key.algorithm].to_jwk(key.public, as_dict=True)
            made.pop("key_ops", None)
            found.append({"use": "sig", "kid": key.id, "alg": key.algorithm, **made})
        return {"keys": found}


def _stale(warn_after: Any, subject: str) -> str:
    """Return what is to be noted of a token that should have been read anew; empty while it need not."""
    if not isinstance(warn_after, int | float) or not warn_after:
        return ""
    late = time.time() - warn_after
    if late < 0:
        VALID_TOKENS.inc()
        return ""
    STALE_TOKENS.inc()
    return f"subject: {subject}, seconds after warning threshold: {late:.0f}"


def _text(of: Mapping[str, Any], claim: str) -> str:
    value = of[claim]
    if not isinstance(value, str):
        raise TypeError(f"{claim} must be a text")
    return value


def _shape(claims: Mapping[str, Any]) -> tuple[str, str]:
    """Return the namespace and name of the account that verified claims are about.

    Raises KeyError, TypeError or ValueError unless everything that is read of them later on is there, and of its kind.
    """
    end = claims["exp"]
    if not isinstance(end, int | float) or not math.isfinite(end):
        raise ValueError("exp must be a finite number")
    audiences = claims["aud"]
    if not isinstance(audiences, list) or not all(isinstance(one, str) for one in audiences):
        raise TypeError("aud must be a list of texts")
    about = claims[_CLAIMS]
    account = about["serviceaccount"]
    _text(account, "uid")
    for kind in _STORED:
        if (bound := about.get(kind)) is not None:
            _text(bound, "name"), _text(bound, "uid")
    return _text(about, "namespace"), _text(account, "name")


def _user(namespace: str, name: str, uid: str, extra: tuple[tuple[str, tuple[str, ...]], ...]) -> User:
    groups = (ACCOUNTS, f"{ACCOUNTS}:{namespace}", AUTHENTICATED)
    return User(name=f"{PREFIX}{namespace}:{name}", uid=uid, groups=groups, extra=extra)
