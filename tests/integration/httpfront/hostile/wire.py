"""Requests as raw bytes, and their answers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

from tests.integration.httpfront.conftest import Http

SECONDS = 15.0
"""How long an answer may take before it counts as hanging."""
HOST = b"Host: x\r\n"
ADMIN = b"Authorization: Bearer admin-token\r\n"
HEAD = HOST + ADMIN
JSON_TYPE = b"Content-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
BODY = b'{"metadata":{"name":"x"}}'
LENGTH = b"Content-Length: 25\r\n"
GET = b"GET /api/v1/pods HTTP/1.1\r\n"
ACCOUNT = {"metadata": {"name": "default"}}
MAPS = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\n"
POST = MAPS + HEAD + JSON_TYPE


@dataclass
class Raw:
    """What came back for raw bytes: code 0 when the connection was just closed."""

    code: int
    headers: bytes
    body: bytes
    closed: bool

    @property
    def status(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.body)
        assert (found["kind"], found["status"], found["code"]) == ("Status", "Failure", self.code)
        return found


async def connect(http: Http) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    port = int(http.base.rpartition(":")[2])
    return await asyncio.open_connection("127.0.0.1", port, ssl=http.context, server_hostname="localhost")


async def read_answer(reader: asyncio.StreamReader) -> Raw:
    """Read one answer whole."""
    async with asyncio.timeout(SECONDS):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return Raw(0, b"", b"", True)
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
        )
        body = await reader.readexactly(length)
    return Raw(int(head.split()[1]), head, body, b"connection: close" in head.lower() or b"HTTP/1.0" in head[:9])


async def raw(http: Http, data: bytes) -> Raw:
    reader, writer = await connect(http)
    try:
        writer.write(data)
        return await read_answer(reader)
    finally:
        writer.transport.abort()
