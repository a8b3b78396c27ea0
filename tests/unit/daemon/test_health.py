import asyncio
import urllib.error
import urllib.request

import pytest

from wharfinger.daemon import Check, HealthServer


async def get(port: int, path: str) -> tuple[int, str]:
    def call() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
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
