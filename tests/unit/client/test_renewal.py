"""A client goes over to renewed credentials by itself, over either protocol, and to nothing else."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import yaml
from aiohttp import web

from wharfinger import pki
from wharfinger.client import Client, ClientConfig, HttpClient
from wharfinger.client.renewal import CredentialFollower
from wharfinger.daemon import TLSFiles
from wharfinger.proto.native import resources_v1_pb2 as native
from wharfinger.proto.native import resources_v1_pb2_grpc


class Version(resources_v1_pb2_grpc.ServerServicer):
    """Answers with the certificate that the caller has shown."""

    async def Version(self, _: Any, context: Any) -> native.VersionInfo:  # noqa: N802
        (pem,) = context.auth_context()["x509_pem_cert"]
        return native.VersionInfo(git_version=pem.decode())


@pytest.fixture
async def ports(tmp_path: Path) -> AsyncIterator[tuple[int, int]]:
    """A gRPC and an HTTPS server, which demand certificates of the authority."""
    ca = pki.ensure_ca(tmp_path, "ca")
    pki.write_pair(tmp_path, "s", pki.issue_server(ca, "server", ["localhost"], ["127.0.0.1"]))
    files = TLSFiles(tmp_path / "s.crt", tmp_path / "s.key", tmp_path / "ca.crt")
    server = grpc.aio.server()
    resources_v1_pb2_grpc.add_ServerServicer_to_server(Version(), server)  # type: ignore[no-untyped-call]
    port = server.add_secure_port("127.0.0.1:0", files.server_credentials(require_client=True))
    await server.start()

    async def version(request: web.Request) -> web.Response:
        assert request.transport is not None
        der = request.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return web.json_response({"gitVersion": ssl.DER_cert_to_PEM_cert(der)})

    app = web.Application()
    app.router.add_get("/version", version)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=files.ssl_context())
    await site.start()
    yield port, runner.addresses[0][1]
    await runner.cleanup()
    await server.stop(None)


def kubeconfig(folder: Path, port: int, https: int) -> Path:
    grpc_extension = {"name": "wharfinger.dev/grpc", "extension": {"endpoints": [f"127.0.0.1:{port}"]}}
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [
            {
                "name": "k",
                "cluster": {
                    "server": f"https://127.0.0.1:{https}",
                    "certificate-authority": "ca.crt",
                    "extensions": [grpc_extension],
                },
            }
        ],
        "users": [{"name": "u", "user": {"client-certificate": "u.crt", "client-key": "u.key"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


def issue(folder: Path) -> str:
    pair = pki.issue_client(pki.load_ca(folder), "me")
    pki.write_pair(folder, "u", pair)
    return pair.cert.decode()


def shown(info: native.VersionInfo) -> str:
    return str(info.git_version)


@pytest.mark.parametrize("api", ["grpc", "http"])
async def test_a_renewed_pair_is_shown(ports: tuple[int, int], tmp_path: Path, api: Any) -> None:
    first = issue(tmp_path)
    path = kubeconfig(tmp_path, *ports)
    config = ClientConfig.load(path, api=api)
    told: list[ClientConfig] = []
    async with HttpClient(config) if api == "http" else Client(config) as client:
        follower = CredentialFollower(client, lambda: ClientConfig.load(path, api=api), renewed=told.append)
        assert shown(await client.version()) == first
        follower.look()
        assert not told
        second = issue(tmp_path)
        follower.look()
        assert shown(await client.version()) == second
        assert len(told) == 1
        assert client.config.cert == second.encode()
        pki.write_pair(tmp_path, "u", pki.issue_client(pki.load_ca(tmp_path), "me"))
        (tmp_path / "u.crt").write_text("half")
        follower.look()
        assert shown(await client.version()) == second, "what is not whole is passed over"
        third = issue(tmp_path)
        follower.look()
        assert shown(await client.version()) == third


async def test_another_cluster_is_not_gone_over_to(
    ports: tuple[int, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    issue(tmp_path)
    path = kubeconfig(tmp_path, *ports)
    async with Client(ClientConfig.load(path)) as client:
        follower = CredentialFollower(client, lambda: ClientConfig.load(path))
        before = client.config
        kubeconfig(tmp_path, 1, 1)
        follower.look()
        assert client.config == before
        assert "more than credentials" in caplog.text
        second = issue(tmp_path)
        follower.look()
        assert shown(await client.version()) == second
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "users": [{"name": "u", "user": {}}]}))
        follower.look()
        assert shown(await client.version()) == second, "no credentials at all: not taken over"


async def test_a_token_is_shown_anew(tmp_path: Path) -> None:
    pki.ensure_ca(tmp_path, "ca")
    path = kubeconfig(tmp_path, 1, 1)
    document = yaml.safe_load(path.read_text())
    document["users"] = [{"name": "u", "user": {"tokenFile": "token"}}]
    extension = document["clusters"][0]["cluster"]["extensions"][0]["extension"]
    extension["tokenEndpoints"] = extension.pop("endpoints")
    path.write_text(yaml.safe_dump(document))
    (tmp_path / "token").write_text("one")
    async with Client(ClientConfig.load(path)) as client:
        follower = CredentialFollower(client, lambda: ClientConfig.load(path))
        (tmp_path / "token").write_text("two\n")
        follower.look()
        assert client.transport.metadata == (("authorization", "Bearer two"),)
