"""The apiserver as a client: of agents and of etcd. Renewed files are used for new calls, and nothing is broken off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from controlplane.apiserver.podstreams import Peers
from controlplane.apiserver.store.client import EtcdClient, EtcdConfig
from wharfinger import pki
from wharfinger.daemon import TLSFiles
from wharfinger.proto.etcd import rpc_pb2, rpc_pb2_grpc


def renew(folder: Path) -> bytes:
    pair = pki.issue_client(pki.load_ca(folder), "apiserver")
    pki.write_pair(folder, "c", pair)
    return pair.cert


class Etcd(rpc_pb2_grpc.KVServicer):
    """Counts the calls by the certificate that was shown; what else is called is echoed with that certificate."""

    def __init__(self) -> None:
        self.shown: list[bytes] = []

    async def Range(self, _: Any, context: Any) -> rpc_pb2.RangeResponse:  # noqa: N802
        self.shown.append(pem_of(context))
        return rpc_pb2.RangeResponse(header=rpc_pb2.ResponseHeader(revision=7))


def pem_of(context: Any) -> bytes:
    (pem,) = context.auth_context()["x509_pem_cert"]
    assert isinstance(pem, bytes)
    return pem


async def echo(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    async for request in requests:
        yield request + pem_of(context)


class Echo(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    def service(self, details: Any) -> Any:
        return grpc.stream_stream_rpc_method_handler(echo) if details.method == "/test/Echo" else None


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[tuple[int, Etcd]]:
    ca = pki.ensure_ca(tmp_path, "ca")
    pki.write_pair(tmp_path, "s", pki.issue_server(ca, "server", ["node"], ["127.0.0.1"]))
    files = TLSFiles(tmp_path / "s.crt", tmp_path / "s.key", tmp_path / "ca.crt")
    running, etcd = grpc.aio.server(), Etcd()
    rpc_pb2_grpc.add_KVServicer_to_server(etcd, running)  # type: ignore[no-untyped-call]
    running.add_generic_rpc_handlers((Echo(),))
    port = running.add_secure_port("127.0.0.1:0", files.server_credentials(require_client=True))
    await running.start()
    yield port, etcd
    await running.stop(None)


async def test_agents(server: tuple[int, Etcd], tmp_path: Path) -> None:
    first = renew(tmp_path)
    peers = Peers(ca=tmp_path / "ca.crt", cert=tmp_path / "c.crt", key=tmp_path / "c.key")
    follower = peers.follower()

    def call() -> Any:
        channel: Any = peers.channel(f"127.0.0.1:{server[0]}", "node")
        return channel.stream_stream("/test/Echo")()

    shell = call()
    await shell.write(b"1")
    assert await shell.read() == b"1" + first
    second = renew(tmp_path)
    follower.look()
    other = call()
    await other.write(b"2")
    assert await other.read() == b"2" + second
    await shell.write(b"3")
    assert await shell.read() == b"3" + first, "somebody's shell goes on"
    other.cancel()
    shell.cancel()
    await peers.close()


async def test_etcd(server: tuple[int, Etcd], tmp_path: Path) -> None:
    first = renew(tmp_path)
    config = EtcdConfig(
        endpoints=(f"127.0.0.1:{server[0]}",),
        ca_file=str(tmp_path / "ca.crt"), cert_file=str(tmp_path / "c.crt"), key_file=str(tmp_path / "c.key"),
    )  # fmt: skip
    client = EtcdClient(config)
    await client.start()
    moved: list[int] = []
    client.moved.append(lambda _: moved.append(1))
    follower = client.follower()
    assert await client.revision() == 7
    second = renew(tmp_path)
    follower.look()
    assert moved == [1], "whoever has a stream opens it anew"
    assert await client.revision() == 7
    assert server[1].shown == [first, second]
    (tmp_path / "c.key").write_text("half")
    follower.look()
    assert await client.revision() == 7
    assert server[1].shown[-1] == second
    await client.close()
    (tmp_path / "c.crt").write_text("other half")
    with pytest.raises(OSError, match=r"c\.crt"):
        await EtcdClient(config).start()
