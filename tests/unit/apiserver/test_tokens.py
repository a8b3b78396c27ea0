"""Tokens of service accounts, older ones in Secrets, bootstrap tokens: whose they are, and when they are nobody's."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import jwt
import pytest

from controlplane.apiserver.auth.bearer import Bearer
from controlplane.apiserver.auth.bootstraptokens import BootstrapTokens
from controlplane.apiserver.auth.serviceaccounts import STALE_TOKENS, VALID_TOKENS, Bound, ServiceAccountTokens
from wharfinger import bootstraptokens, pki
from wharfinger.api import times
from wharfinger.api.errors import UnauthorizedError
from wharfinger.api.types import core
from wharfinger.signingkeys import Key, legacy_token, load_key

ISSUER = "https://issuer"


@dataclass
class Entry:
    decoded: Any


class Cache(dict[str, Entry]):
    def put(self, key: str, obj: Any) -> Any:
        self[key] = Entry(obj)
        return obj


def named(message: Any, name: str, uid: str) -> Any:
    message.metadata.name, message.metadata.uid = name, uid
    return message


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Key:
    folder = tmp_path_factory.mktemp("keys")
    pki.ensure_signing_key(folder)
    return load_key(folder / "sa.key", private=True)


@pytest.fixture
def cache() -> Cache:
    cache = Cache()
    cache.put("/registry/serviceaccounts/ns/robot", named(core.ServiceAccount(), "robot", "a1"))
    cache.put("/registry/pods/ns/p", named(core.Pod(), "p", "p1"))
    return cache


def maker(key: Key, cache: Any, issuer: str = ISSUER) -> ServiceAccountTokens:
    return ServiceAccountTokens([key], issuer=issuer, audiences=["api"], cache=cache)


def issue(tokens: ServiceAccountTokens, *bound: Bound, seconds: int = 600, audience: str = "api") -> str:
    return tokens.issue("ns", "robot", "a1", audiences=[audience], seconds=seconds, bound=bound)[0]


POD = Bound("pod", "p", "p1")


def test_a_token_says_who_and_where(key: Key, cache: Cache) -> None:
    tokens = maker(key, cache)
    user, audiences = Bearer([tokens], ["api"]).review(issue(tokens, POD, Bound("node", "n", "n1")))
    assert user.name == "system:serviceaccount:ns:robot"
    assert user.uid == "a1"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    extra = dict(user.extra)
    assert extra["authentication.kubernetes.io/pod-name"] == ("p",)
    assert extra["authentication.kubernetes.io/node-uid"] == ("n1",)
    assert extra["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")
    assert audiences == ("api",)


def _remove_account(cache: Cache) -> None:
    del cache["/registry/serviceaccounts/ns/robot"]


def _other_account(cache: Cache) -> None:
    cache.put("/registry/serviceaccounts/ns/robot", named(core.ServiceAccount(), "robot", "a2"))


def _remove_pod(cache: Cache) -> None:
    del cache["/registry/pods/ns/p"]


def _pod_deleted_long_ago(cache: Cache) -> None:
    gone = cache["/registry/pods/ns/p"].decoded.metadata
    gone.deletionTimestamp.seconds = int(time.time()) - 3600


@pytest.mark.parametrize("change", [_remove_account, _other_account, _remove_pod, _pod_deleted_long_ago])
def test_a_token_ends_with_what_it_is_bound_to(key: Key, cache: Cache, change: Any) -> None:
    tokens = maker(key, cache)
    bearer, token = Bearer([tokens], ["api"]), issue(maker(key, cache), POD)
    bearer.review(token)
    change(cache)
    with pytest.raises(UnauthorizedError, match=r"^Unauthorized$"):
        bearer.review(token)


def test_time_audience_issuer_key_and_signature_count(key: Key, cache: Cache, tmp_path: Path) -> None:
    tokens = maker(key, cache)
    bearer = Bearer([tokens], ["api"])
    pki.ensure_signing_key(tmp_path)
    stranger = load_key(tmp_path / "sa.key", private=True)
    good = issue(tokens)
    claims = jwt.decode(good, options={"verify_signature": False})
    forged = jwt.encode(claims, stranger.private, algorithm="ES256", headers={"kid": key.id})
    unsigned = jwt.encode(claims, "", algorithm="none", headers={"kid": key.id})
    other_subject = jwt.encode(
        {**claims, "sub": "system:serviceaccount:ns:root"}, key.private, algorithm="ES256", headers={"kid": key.id}
    )
    bad = [
        issue(tokens, seconds=-1), issue(tokens, audience="vault"), issue(maker(key, cache, "https://else")),
        issue(maker(stranger, cache)), forged, unsigned, other_subject, good[:-4] + "AAAA",
    ]  # fmt: skip
    for token in bad:
        with pytest.raises(UnauthorizedError):
            bearer.review(token)
    assert bearer.review(issue(tokens, audience="vault"), ["vault"])[1] == ("vault",)


ABOUT = {"namespace": "ns", "serviceaccount": {"name": "robot", "uid": "a1"}}


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": "soon"}, {"exp": [1]}, {"exp": float("inf")}, {"exp": float("nan")}, {"aud": [1]}, {"aud": "api"},
        {"jti": [1]}, {"nbf": "x"}, {"sub": 5}, {"kubernetes.io": None}, {"kubernetes.io": "x"}, {"kubernetes.io": {}},
        {"kubernetes.io": {**ABOUT, "namespace": 5}}, {"kubernetes.io": {**ABOUT, "serviceaccount": []}},
        {"kubernetes.io": {**ABOUT, "serviceaccount": {"name": "robot"}}},
        *({"kubernetes.io": {**ABOUT, "pod": pod}} for pod in ("p", [], {"name": "p"}, {"name": {}, "uid": "p1"})),
    ],
    ids=str,
)  # fmt: skip
def test_claims_of_the_wrong_kind_are_nobodys_whoever_signed_them(key: Key, cache: Cache, claims: Any) -> None:
    bearer = Bearer([maker(key, cache)], ["api"])
    good = jwt.decode(issue(maker(key, cache)), options={"verify_signature": False})
    assert bearer.review(jwt.encode(good, key.private, algorithm="ES256", headers={"kid": key.id}))
    bad = jwt.encode({**good, **claims}, key.private, algorithm="ES256", headers={"kid": key.id})
    with pytest.raises(UnauthorizedError, match=r"^Unauthorized$"):
        bearer.review(bad)


def claims_of(token: str) -> Any:
    return jwt.decode(token, options={"verify_signature": False})


def test_what_a_pod_gets_unasked_holds_for_a_year(key: Key, cache: Cache) -> None:
    tokens = maker(key, cache)
    made = tokens.issue("ns", "robot", "a1", audiences=["api"], seconds=3607, bound=[POD])
    claims = claims_of(made.token)
    assert claims["exp"] - claims["iat"] == 365 * 24 * 3600
    assert claims["kubernetes.io"]["warnafter"] - claims["iat"] == 3607
    assert made.ends - claims["iat"] == 3607, "what the node's agent goes by"
    assert made.id == claims["jti"]
    off = ServiceAccountTokens([key], issuer=ISSUER, audiences=["api"], cache=cast("Any", cache), extends=False)
    as_asked = [
        issue(tokens, POD, seconds=3600), issue(tokens, seconds=3607), issue(off, POD, seconds=3607),
        issue(tokens, POD, seconds=3607, audience="vault"),
    ]  # fmt: skip
    for token in as_asked:
        claims = claims_of(token)
        assert claims["exp"] - claims["iat"] in (3600, 3607)
        assert "warnafter" not in claims["kubernetes.io"]


def test_a_stale_token_is_counted_and_told_of(key: Key, cache: Cache) -> None:
    tokens = maker(key, cache)
    valid, stale = VALID_TOKENS._value.get(), STALE_TOKENS._value.get()
    token = issue(tokens, POD, seconds=3607)
    found = tokens.identify(token)
    assert found is not None
    assert not found.stale
    claims = claims_of(token)
    claims["kubernetes.io"]["warnafter"] = int(time.time()) - 100
    old = jwt.encode(claims, key.private, algorithm="ES256", headers={"kid": key.id})
    found = tokens.identify(old)
    assert found is not None
    about, _, late = found.stale.rpartition(" ")
    assert about == "subject: system:serviceaccount:ns:robot, seconds after warning threshold:"
    assert 100 <= int(late) < 1000
    assert (VALID_TOKENS._value.get(), STALE_TOKENS._value.get()) == (valid + 1, stale + 1)


def test_the_key_set_lets_others_verify(key: Key, cache: Cache) -> None:
    tokens = maker(key, cache)
    (found,) = jwt.PyJWKSet.from_dict(tokens.key_set()).keys
    assert "d" not in tokens.key_set()["keys"][0], "never the private half"
    claims = jwt.decode(issue(tokens), found.key, algorithms=["ES256"], audience="api", issuer=ISSUER)
    assert claims["kubernetes.io"]["serviceaccount"] == {"name": "robot", "uid": "a1"}


def test_a_token_in_a_secret_is_good_while_it_stands_there(key: Key, cache: Cache) -> None:
    bearer = Bearer([maker(key, cache)], ["api"])
    token = legacy_token(key, namespace="ns", account="robot", uid="a1", secret="s")
    with pytest.raises(UnauthorizedError):
        bearer.review(token)
    secret = cache.put("/registry/secrets/ns/s", named(core.Secret(), "s", "s1"))
    secret.data["token"] = token.encode()
    assert bearer.review(token)[0].name == "system:serviceaccount:ns:robot"
    secret.data["token"] = b"another"
    with pytest.raises(UnauthorizedError):
        bearer.review(token)


def stored(cache: Cache, token: str, **changed: str) -> core.Secret:
    secret = bootstraptokens.secret_of(token, seconds=600, groups=["system:bootstrappers:rack-7"])
    for key, value in changed.items():
        secret.data[key.replace("_", "-")] = value.encode()
    cache.put(f"/registry/secrets/kube-system/{secret.metadata.name}", secret)
    return secret


def bootstrap(cache: Any) -> BootstrapTokens:
    return BootstrapTokens(cache)


def test_bootstrap_tokens(cache: Cache) -> None:
    token = bootstraptokens.generate()
    stored(cache, token)
    user = Bearer([bootstrap(cache)]).user_of(f"Bearer {token}")
    assert user.name == f"system:bootstrap:{token[:6]}"
    assert user.groups == ("system:bootstrappers", "system:bootstrappers:rack-7", "system:authenticated")
    with pytest.raises(UnauthorizedError):
        Bearer([bootstrap(cache)]).user_of(f"Bearer {token[:-1]}{'a' if token[-1] != 'a' else 'b'}")


@pytest.mark.parametrize(
    "changed",
    [
        {"expiration": times.format_seconds(int(time.time()) - 5)},
        {"expiration": "tomorrow"},
        {"usage_bootstrap_authentication": "false"},
        {"token_id": "aaaaaa"},
        {"auth_extra_groups": "system:masters"},
    ],
)
def test_bootstrap_tokens_that_do_not_hold(cache: Cache, changed: dict[str, str]) -> None:
    token = bootstraptokens.generate()
    stored(cache, token, **changed)
    with pytest.raises(UnauthorizedError):
        Bearer([bootstrap(cache)]).user_of(f"Bearer {token}")


def test_a_secret_of_another_type_or_on_its_way_out_is_no_token(cache: Cache) -> None:
    token = bootstraptokens.generate()
    secret = stored(cache, token)
    secret.type = "Opaque"
    source = bootstrap(cache)
    assert source.identify(token) is None
    secret.type = bootstraptokens.TYPE
    secret.metadata.deletionTimestamp.CopyFrom(times.now())
    assert source.identify(token) is None


def test_keys_that_cannot_sign_are_refused(tmp_path: Path) -> None:
    pki.ensure_signing_key(tmp_path)
    assert load_key(tmp_path / "sa.pub", private=False).private is None
    with pytest.raises(ValueError, match="needs the private one"):
        load_key(tmp_path / "sa.pub", private=True)
    (tmp_path / "junk").write_text("junk")
    with pytest.raises(ValueError, match="neither a private nor a public key"):
        load_key(tmp_path / "junk", private=False)
    assert "PRIVATE" not in repr(load_key(tmp_path / "sa.key", private=True))
