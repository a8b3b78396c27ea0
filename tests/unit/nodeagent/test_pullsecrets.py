from __future__ import annotations

import base64
import json

import pytest

from nodeagent.pullsecrets import Login, logins_of, parse
from wharfinger.api.types import core


def config(**auths):
    return core.Secret(data={".dockerconfigjson": json.dumps({"auths": auths}).encode()})


def test_both_notations_and_both_types():
    packed = base64.b64encode(b"me:se:cret").decode()
    found = parse(
        config(**{"https://index.docker.io/v1/": {"auth": packed}, "r.io": {"username": "u", "password": "p"}})
    )
    assert found == [Login("index.docker.io", "me", "se:cret"), Login("r.io", "u", "p")]
    old = core.Secret(data={".dockercfg": json.dumps({"r.io": {"auth": packed}}).encode()})
    assert parse(old) == [Login("r.io", "me", "se:cret")]


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"auths": []}', b'{"auths": {"r.io": {"auth": "%%%"}}}'])
def test_broken_secrets_give_nothing(data):
    assert parse(core.Secret(data={".dockerconfigjson": data})) == []


@pytest.mark.parametrize(
    ("registry", "image", "fits"),
    [
        ("r.io", "r.io/a:1", True), ("r.io", "r.io:5000/a:1", False), ("r.io:5000", "r.io:5000/a", True),
        ("index.docker.io", "busybox:1", True), ("index.docker.io", "me/app:1", True), ("r.io", "me/app", False),
        ("*.r.io", "x.r.io/a", True), ("*.r.io", "r.io/a", False), ("r.io/team", "r.io/team/a", True),
        ("r.io/team", "r.io/other/a", False), ("r.io/team", "r.io/teams/a", False),
    ],
)  # fmt: skip
def test_which_images_a_login_is_for(registry, image, fits):
    assert Login(registry, "u", "p").fits(image) is fits


def test_password_is_not_shown():
    assert "sesame" not in repr(Login("r.io", "u", "sesame"))


async def test_missing_secrets_are_named():
    class Source:
        async def config_map(self, namespace, name):
            return None

        async def secret(self, namespace, name):
            return config(**{"r.io": {"username": "u", "password": "p"}}) if name == "have" else None

    pod = core.Pod()
    pod.spec.imagePullSecrets.add(name="have")
    pod.spec.imagePullSecrets.add(name="no")
    assert await logins_of(pod, Source()) == ([Login("r.io", "u", "p")], ["no"])
