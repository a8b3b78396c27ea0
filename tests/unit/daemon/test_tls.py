"""Renewed certificate files are taken into use by servers that run."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import grpc
import grpc.aio
import pytest

from wharfinger import pki
from wharfinger.daemon import TLSFiles


@pytest.fixture
def files(tmp_path: Path) -> TLSFiles:
    renew(tmp_path)
    return TLSFiles(tmp_path / "s.crt", tmp_path / "s.key", tmp_path / "ca.crt")


def renew(folder: Path) -> None:
    ca = pki.ensure_ca(folder, "ca")
    pki.write_pair(folder, "s", pki.issue_server(ca, "server", ["localhost"], ["127.0.0.1"]))


async def test_https_believes_an_authority_no_longer_that_was_taken_out(files: TLSFiles) -> None:
    folder = files.cert.parent
    old = pki.issue_client(pki.load_ca(folder), "me")
    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=files.ssl_context(alpn=["http/1.1"]))

    async def ask() -> bytes:
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        context.set_alpn_protocols(["http/1.1"])
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        (folder / "old.pem").write_bytes(old.cert + old.key)
        context.load_cert_chain(folder / "old.pem")
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        try:
            return await reader.read()
        finally:
            writer.close()

    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await ask() == b"hello"
        (folder / "ca.crt").unlink()
        (folder / "ca.key").unlink()
        renew(folder)
        assert await ask() == b"", "refused"
        old = pki.issue_client(pki.load_ca(folder), "me")
        assert await ask() == b"hello"


async def handle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    writer.close()


async def serial(port: int, folder: Path) -> str:
    """Return the serial number of what a server shows."""
    ca = pki.load_ca(folder)
    client = pki.issue_client(ca, "me")
    (folder / "client.pem").write_bytes(client.cert + client.key)
    context = ssl.create_default_context(cafile=str(ca.path))
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(folder / "client.pem")
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    shown = writer.get_extra_info("peercert")["serialNumber"]
    writer.close()
    return str(shown)


async def test_https(files: TLSFiles) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=files.ssl_context())
    async with server:
        await renewed_is_shown(server.sockets[0].getsockname()[1], files)


async def test_grpc(files: TLSFiles) -> None:
    server = grpc.aio.server()
    port = server.add_secure_port("127.0.0.1:0", files.server_credentials(require_client=True))
    await server.start()
    try:
        await renewed_is_shown(port, files)
        credentials = grpc.ssl_channel_credentials((files.cert.parent / "ca.crt").read_bytes())
        async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
            call = channel.unary_unary("/a/b", bytes, bytes)
            with pytest.raises(grpc.aio.AioRpcError):  # nobody without a certificate
                await call(b"", timeout=5)
    finally:
        await server.stop(None)


async def renewed_is_shown(port: int, files: TLSFiles) -> None:
    folder = files.cert.parent
    first = await serial(port, folder)
    assert await serial(port, folder) == first
    files.cert.write_text("half a file")
    assert await serial(port, folder) == first, "what cannot be used is passed over"
    renew(folder)
    await serial(port, folder)  # HTTPS: the next connection has it
    assert await serial(port, folder) != first
