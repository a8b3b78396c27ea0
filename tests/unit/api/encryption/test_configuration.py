"""The file, and what it makes of keys and values."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from wharfinger.api import encryption, errors, storage
from wharfinger.api.configfile import ConfigError
from wharfinger.api.encryption import Transformer
from wharfinger.api.encryption.configuration import GroupResource
from wharfinger.api.unreadable import Unreadable


def secret(letter: str, size: int = 32) -> str:
    return base64.b64encode(letter.encode() * size).decode()


def keys(*names: str) -> dict[str, Any]:
    return {"keys": [{"name": name, "secret": secret(name[0])} for name in names]}


def entry(resources: list[str], *providers: dict[str, Any]) -> dict[str, Any]:
    return {"resources": resources, "providers": list(providers)}


def parsed(*entries: dict[str, Any]) -> encryption.Encryption:
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
    return encryption.parse(orjson.dumps({**head, "resources": list(entries)}))


def transformer(*entries: dict[str, Any]) -> Transformer:
    return Transformer(parsed(*entries))


IDENTITY: dict[str, Any] = {"identity": {}}
KEY = "/registry/secrets/default/db"


@pytest.mark.parametrize("scheme", ["aescbc", "aesgcm", "secretbox"])
def test_the_prefix_is_kubernetes_and_the_first_writes(scheme: str) -> None:
    mine = transformer(entry(["secrets"], {scheme: keys("one", "two")}, IDENTITY))
    sealed = mine.seal(KEY, b"value")
    assert sealed.startswith(f"k8s:enc:{scheme}:v1:one:".encode())
    assert mine.open(KEY, sealed) == b"value"
    assert not mine.stale(KEY, sealed)
    assert mine.open(KEY, b"plain") == b"plain"
    assert mine.stale(KEY, b"plain")
    older = transformer(entry(["secrets"], {scheme: keys("two")})).seal(KEY, b"value")
    assert mine.open(KEY, older) == b"value"
    assert mine.stale(KEY, older)


def test_identity_first_writes_plain_and_reads_what_others_wrote() -> None:
    sealed = transformer(entry(["secrets"], {"aescbc": keys("one")})).seal(KEY, b"value")
    mine = transformer(entry(["secrets"], IDENTITY, {"aescbc": keys("one")}))
    assert mine.seal(KEY, b"value") == b"value"
    assert mine.open(KEY, sealed) == b"value"
    assert mine.stale(KEY, sealed)


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (b"k8s:enc:aescbc:v1:gone:" + b"x" * 32, "written with the key 'gone' of aescbc"),
        (b"k8s:enc:aescbc:v1:one:" + b"x" * 31, "key 'one' of aescbc: 31 bytes"),
        (b"k8s:enc:kms:v2:x:y", "written by the provider 'kms'"),
        (b"plain", "not encrypted"),
    ],
)
def test_what_cannot_be_read_says_why_and_names_the_key(stored: bytes, why: str) -> None:
    mine = transformer(entry(["secrets"], {"aescbc": keys("one")}))
    opened = mine.open(KEY, stored)
    assert isinstance(opened, Unreadable)
    for read in (storage.decode, storage.unwrap, storage.decode_custom):
        with pytest.raises(errors.InternalError) as raised:
            read(opened)
        assert f'unable to transform key "{KEY}": ' in raised.value.message
        assert why in raised.value.message
    assert sum(count for key, count in mine.counts.items() if key[3] == "error") == 1


def test_resources_are_found_by_their_keys() -> None:
    found = {
        "/registry/secrets/a/b": GroupResource("", "secrets"),
        "/registry/services/specs/a/b": GroupResource("", "services"),
        "/registry/minions/a": GroupResource("", "nodes"),
        "/registry/events/a/b": GroupResource("", "events"),
        "/registry/deployments/a/b": GroupResource("apps", "deployments"),
        "/registry/horizontalpodautoscalers/a/b": GroupResource("autoscaling", "horizontalpodautoscalers"),
        "/registry/apiextensions.k8s.io/customresourcedefinitions/x": GroupResource(
            "apiextensions.k8s.io", "customresourcedefinitions"
        ),
        "/registry/acme.io/gadgets/a/b": GroupResource("acme.io", "gadgets"),
        "/registry/ranges/serviceips": None,
        "/wharfinger/nodes/a": None,
    }
    assert {key: encryption.group_resource_of(key) for key in found} == found


def test_the_nearest_entry_counts() -> None:
    mine = transformer(
        entry(["events"], IDENTITY),
        entry(["deployments.apps"], {"aescbc": keys("deployments")}),
        entry(["*.apps"], {"aescbc": keys("group")}),
        entry(["*.*"], {"secretbox": keys("all")}),
    )

    assert mine.seal("/registry/events/a/b", b"plain") == b"plain"
    assert mine.seal("/registry/deployments/a/b", b"").startswith(b"k8s:enc:aescbc:v1:deployments:")
    assert mine.seal("/registry/replicasets/a/b", b"").startswith(b"k8s:enc:aescbc:v1:group:")
    assert mine.seal("/registry/acme.io/gadgets/a", b"").startswith(b"k8s:enc:secretbox:v1:all:")
    assert mine.seal("/registry/pods/a/b", b"").startswith(b"k8s:enc:secretbox:v1:all:")
    assert mine.seal("/wharfinger/nodes/a", b"uid") == b"uid"
    core = transformer(entry(["*."], {"secretbox": keys("core")}))
    assert core.seal("/registry/pods/a/b", b"").startswith(b"k8s:enc:secretbox:v1:core:")
    assert core.seal("/registry/deployments/a/b", b"plain") == b"plain"


def test_a_resource_named_twice_has_the_providers_of_both() -> None:
    mine = transformer(entry(["secrets"], {"aescbc": keys("one")}), entry(["secrets", "configmaps"], IDENTITY))
    assert mine.seal(KEY, b"").startswith(b"k8s:enc:aescbc:v1:one:")
    assert mine.open(KEY, b"plain") == b"plain"


@pytest.mark.parametrize(
    ("entries", "wanted"),
    [
        ([], "resources: must hold at least one"),
        ([entry([], IDENTITY)], "resources[0].resources: must hold at least one"),
        ([entry(["secrets"])], "resources[0].providers: must hold at least one"),
        ([entry(["secrets"], {})], "resources[0].providers[0].identity: is missing"),
        ([entry(["secrets"], {"identity": {}, "aescbc": keys("a")})], "resources[0].providers[0].aescbc: one provider"),
        ([entry(["secrets"], {"kms": {"name": "x"}})], "resources[0].providers[0].kms: is not built"),
        ([entry(["secrets"], {"rot13": {}})], "resources[0].providers[0].identity: is missing"),
        ([entry(["secrets"], {"aescbc": {"keys": []}})], "resources[0].providers[0].aescbc.keys: must hold"),
        ([entry(["Secrets"], IDENTITY)], "resources[0].resources[0]: 'Secrets': must not have capital"),
        ([entry(["*"], IDENTITY)], "resources[0].resources[0]: '*': say"),
        ([entry(["pods.*"], IDENTITY)], "resources[0].resources[0]: 'pods.*': one resource"),
        ([entry(["events.events.k8s.io"], IDENTITY)], "resources[0].resources[0]"),
        ([entry(["secrets", "secrets"], IDENTITY)], "resources[0].resources[1]: 'secrets': stands here twice"),
        ([entry(["secrets", "*."], IDENTITY)], "resources[0].resources[1]: '*.': overlaps"),
        ([entry(["*.*", "pods"], IDENTITY)], "resources[0].resources[1]: 'pods': overlaps"),
        ([entry(["*.*"], IDENTITY), entry(["secrets"], IDENTITY)], "resources[1].resources[0]: 'secrets' is masked"),
    ],
)
def test_errors_name_the_field(entries: list[dict[str, Any]], wanted: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parsed(*entries)
    assert str(raised.value).startswith(wanted)


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ({"secret": secret("s")}, "name: is required"),
        ({"name": "k"}, "secret: is required"),
        ({"name": "k", "secret": "hunter2!"}, "secret: must be base64"),
        ({"name": "k", "secret": secret("s", 16)}, "secret: holds 16 bytes: must be 32"),
        ({"name": "k", "secret": ["hunter2"]}, "secret: must be text, not a list"),
    ],
)
def test_errors_of_keys_show_no_secret(key: dict[str, Any], wanted: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parsed(entry(["secrets"], {"secretbox": {"keys": [key]}}))
    assert str(raised.value).startswith(f"resources[0].providers[0].secretbox.keys[0].{wanted}")
    assert "hunter2" not in str(raised.value)
