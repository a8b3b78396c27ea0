"""Keys of service accounts' tokens are changed while the server runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd, have_etcd
from wharfinger import pki
from wharfinger.api import errors, kinds
from wharfinger.api.types import authentication, core
from wharfinger.client import Client
from wharfinger.pki import accountkeys

ASKED = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}).encode()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Apiserver]:
    if not have_etcd():
        pytest.skip("needs an etcd binary on the path (apt install etcd-server etcd-client)")
    pki.ensure_signing_key(tmp_path)
    flags = ("--service-account-signing-key-file", "sa.key", "--service-account-key-file", "sa.pub")
    with (
        Etcd() as etcd,
        Apiserver(etcd.endpoint, *(str(tmp_path / one) if one.startswith("sa.") else one for one in flags)) as running,
    ):
        yield running


async def _token(admin: Client) -> str:
    accounts = admin.raw(kinds.of(core.ServiceAccount))
    made = await accounts.create(ASKED, namespace="default", name="robot", subresource="token")
    return authentication.TokenRequest.FromString(made.data).status.token


async def _known(server: Apiserver, token: str) -> bool:
    """Whether the server knows the bearer, who may do nothing."""
    async with server.token_client(token) as client:
        try:
            await client.resource(core.Secret).list(namespace="default")
        except errors.ForbiddenError:
            return True
        except errors.UnauthorizedError:
            return False
    raise AssertionError("an account without rights may list secrets")


async def test_a_key_is_changed_while_the_server_runs(server: Apiserver, tmp_path: Path) -> None:
    robot = core.ServiceAccount()
    robot.metadata.name, robot.metadata.namespace = "robot", "default"
    async with server.client() as admin, asyncio.timeout(60):
        await admin.resource(core.ServiceAccount).create(robot)
        old = await _token(admin)
        assert await _known(server, old)

        accountkeys.add_key(tmp_path)
        accountkeys.use_newest(tmp_path)
        header = old.partition(".")[0]
        while (new := await _token(admin)).partition(".")[0] == header:  # names the key
            await asyncio.sleep(0.1)
        assert await _known(server, old)
        assert await _known(server, new)

        accountkeys.drop_old(tmp_path)
        while await _known(server, old):
            await asyncio.sleep(0.1)
        assert await _known(server, new)

        (tmp_path / "sa.pub").write_text("no key")  # what is of no use changes nothing
        while "new files cannot be used" not in server.log.read_text():
            await asyncio.sleep(0.1)
        assert await _known(server, await _token(admin))
