"""Tokens of service accounts: signed here, bound to an object, and good only while that object is there.

A token is a JWT with Kubernetes' claims, so that what others do with such tokens (OIDC federation, sidecars that read
their claims) works. Its signature is checked once and remembered for as long as it comes again; whether the account and
the object that it is bound to still exist is asked of the watch cache at every use, which costs two look-ups. So
deleting a pod ends its token within the cache's delay.
"""

from __future__ import annotations

import hashlib
import hmac
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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


class ServiceAccountTokens:
    """Makes tokens and knows them again."""

    def __init__(self, keys: Sequence[Key], *, issuer: str, audiences: Sequence[str], cache: Cache) -> None:
        """`keys`: the first with a private half signs; all are accepted. `audiences`: of tokens that name none."""
        self._keys = {key.id: key for key in keys}
        self._signing = next((key for key in keys if key.private is not None), None)
        self.issuer = issuer
        self.audiences = tuple(audiences)
        self._cache = cache
        self._known: OrderedDict[bytes, Mapping[str, Any]] = OrderedDict()

    @property
    def signs(self) -> bool:
        """Whether tokens can be made here."""
        return self._signing is not None

    def issue(
        self, namespace: str, name: str, uid: str, *, audiences: Sequence[str], seconds: int,
        bound: Sequence[Bound] = (),
    ) -> tuple[str, int]:  # fmt: skip
        """Return a token of an account and the second of its end. The caller has checked that all of it exists."""
        import jwt

        assert self._signing is not None, "asked to sign without a key"
        now = int(time.time())
        about: dict[str, Any] = {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}}
        for one in bound:
            about[one.kind] = {"name": one.name, "uid": one.uid}
        claims = {
            "aud": list(audiences), "exp": now + seconds, "iat": now, "iss": self.issuer, "jti": str(uuid.uuid4()),
            _CLAIMS: about, "nbf": now, "sub": f"{PREFIX}{namespace}:{name}",
        }  # fmt: skip
        token = jwt.encode(
            claims, self._signing.private, algorithm=self._signing.algorithm, headers={"kid": self._signing.id}
        )
        return token, now + seconds

    def identify(self, token: str) -> Identified | None:
        """See :class:`~.bearer.Source`."""
        if token.count(".") != 2:
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
        return Identified(user, tuple(claims["aud"]))

    def _legacy(self, token: str, claims: Mapping[str, Any]) -> Identified:
        """Accept a token that stands in a Secret, while it stands there."""
        namespace, name, uid, secret = (claims[f"{LEGACY_CLAIM}{part}"] for part in _LEGACY)
        self._exists(f"/registry/serviceaccounts/{namespace}/{name}", uid, "the account")
        entry = self._cache.get(f"/registry/secrets/{namespace}/{secret}")
        stored = entry.decoded.data.get("token", b"") if entry is not None else b""
        if not stored or not hmac.compare_digest(stored, token.encode(errors="surrogateescape")):
            raise UnauthorizedError("the secret of the token is gone")
        assert entry is not None
        if entry.decoded.metadata.HasField("deletionTimestamp"):
            raise UnauthorizedError("the secret of the token is being deleted")
        return Identified(_user(namespace, name, uid, ()))

    def _claims(self, token: str) -> Mapping[str, Any] | None:
        digest = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
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
                namespace, name, _, _ = (claims[f"{LEGACY_CLAIM}{part}"] for part in _LEGACY)
            else:
                about = claims[_CLAIMS]
                namespace, name = about["namespace"], about["serviceaccount"]["name"]
            if claims["sub"] != f"{PREFIX}{namespace}:{name}" or not isinstance(claims.get("aud", []), list):
                raise UnauthorizedError("the token's claims contradict each other")
        except jwt.InvalidTokenError as error:
            raise UnauthorizedError(f"the token does not hold: {error}") from error
        except (KeyError, TypeError) as error:
            raise UnauthorizedError(f"the token lacks the claim {error}") from error
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


def _user(namespace: str, name: str, uid: str, extra: tuple[tuple[str, tuple[str, ...]], ...]) -> User:
    groups = (ACCOUNTS, f"{ACCOUNTS}:{namespace}", AUTHENTICATED)
    return User(name=f"{PREFIX}{namespace}:{name}", uid=uid, groups=groups, extra=extra)
