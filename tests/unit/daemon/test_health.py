import asyncio
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from wharfinger import pki
from wharfinger.daemon import Check, HealthServer, TLSFiles


async def get(port: int, path: str, *, tls: ssl.SSLContext | None = None) -> tuple[int, str]:
    def call() -> tuple[int, str]:
        scheme = "https" if tls else "http"
        try:
            with urllib.request.urlopen(f"{scheme}://127.0.0.1:{port}{path}", timeout=5, context=tls) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    return await asyncio.to_thread(call)


async def test_what_is_wrong_is_said_and_only_liveness_counts_for_healthz() -> None:
    trouble: list[str] = []
    checks = (
        Check("etcd", lambda: trouble[0] if trouble else None),
        Check("loop", lambda: None, liveness=True),
    )
    server = HealthServer("127.0.0.1", 0, checks=checks)
    await server.start()
    try:
        assert await get(server.port, "/readyz") == (200, "ok")
        code, text = await get(server.port, "/readyz?verbose")
        assert code == 200
        assert "[+]etcd ok" in text
        trouble.append("etcd cannot be reached")
        code, text = await get(server.port, "/readyz")
        assert code == 503
        assert "[-]etcd failed: etcd cannot be reached" in text
        assert (await get(server.port, "/healthz"))[0] == 200
        assert (await get(server.port, "/livez"))[0] == 200
        code, text = await get(server.port, "/metrics")
        assert code == 200
        assert "process_resident_memory_bytes" in text
        assert (await get(server.port, "/other"))[0] == 404
    finally:
        await server.close()


@pytest.mark.parametrize("raw", [b"\r\n\r\n", b"GET\r\n\r\n", b"\xff\xfe\x00 x y\r\n\r\n"])
async def test_what_is_no_http_is_answered_or_closed_and_harms_nobody(raw: bytes) -> None:
    server = HealthServer("127.0.0.1", 0)
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(raw)
        assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 40")
        writer.close()
        assert (await get(server.port, "/healthz"))[0] == 200
    finally:
        await server.close()


async def test_a_check_that_fails_itself_is_bad_news_and_not_a_broken_connection() -> None:
    def broken() -> str | None:
        raise RuntimeError("a fault")

    server = HealthServer("127.0.0.1", 0, checks=(Check("odd", broken),))
    await server.start()
    try:
        code, text = await get(server.port, "/readyz")
        assert code == 503
        assert "[-]odd failed: the check itself failed: RuntimeError" in text
        assert (await get(server.port, "/healthz"))[0] == 200
    finally:
        await server.close()


async def test_metrics_are_for_those_with_a_certificate_where_there_is_an_authority(tmp_path: Path) -> None:
    ca = pki.ensure_ca(tmp_path, "test")
    pki.ensure_server(ca, tmp_path, "server", name="server", ips=["127.0.0.1"])
    pki.ensure_client(ca, tmp_path, "client", name="somebody")
    files = TLSFiles(tmp_path / "server.crt", tmp_path / "server.key", tmp_path / "ca.crt")
    server = HealthServer("127.0.0.1", 0, tls=files)
    await server.start()
    try:
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        assert (await get(server.port, "/readyz", tls=context))[0] == 200
        assert (await get(server.port, "/metrics", tls=context))[0] == 401
        context.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
        assert (await get(server.port, "/metrics", tls=context))[0] == 200
    finally:
        await server.close()
