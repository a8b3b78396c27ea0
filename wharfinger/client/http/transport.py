"""Requests to an HTTPS apiserver: kept-alive connections, credentials, errors as the classes of wharfinger.api.errors.

Nothing is repeated that may have happened. What the server refused to begin with (429 with Retry-After, by API priority
and fairness) and what it did not know us for (401, with credentials that can be renewed) is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp
from google.protobuf.message import DecodeError

from wharfinger.api import codec, errors, storage
from wharfinger.api.types import meta
from wharfinger.client.http.access import Credentials, HttpAccess, ssl_context
from wharfinger.daemon import Retirement

log = logging.getLogger(__name__)

JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
ACCEPT = f"{PROTOBUF}, {JSON}"
"""Protobuf costs a tenth of JSON to read; a server without it answers JSON."""
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
TRIES = 6
"""Of a request that the server asked to come back with later."""
MOST_RETRY_AFTER = 10.0
_RETIRE_SECONDS = 3700.0
"""That connections with replaced credentials are kept for the calls on them."""


class HttpTransport:
    """The connections to one server; made at first use, to be closed."""

    def __init__(self, access: HttpAccess) -> None:
        self.access = access
        self._credentials = Credentials(access)
        self._session: aiohttp.ClientSession | None = None
        self._generation = -1
        self._retired = Retirement("connections")

    def renew(self, access: HttpAccess) -> None:
        """Use other credentials from now on, on new connections."""
        self.access = access
        self._credentials = Credentials(access)
        self._generation = -1

    async def close(self) -> None:
        """Close every connection; what is under way fails."""
        await self._retired.close()
        if self._session is not None:
            await self._session.close()
        self._session = None

    def _current(self) -> aiohttp.ClientSession:
        if self._session is None or self._generation != self._credentials.generation:
            if self._session is not None:
                # Watches that are open go on with the certificate of their time; servers end them within the hour.
                self._retired.add(self._session.close, seconds=_RETIRE_SECONDS)
            self._generation = self._credentials.generation
            context = ssl_context(self.access, self._credentials.pair)
            auth = aiohttp.BasicAuth(self.access.username, self.access.password) if self.access.username else None
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context, limit=0, limit_per_host=0, keepalive_timeout=90),
                auth=auth,
                auto_decompress=True,
                read_bufsize=1 << 20,
            )
        return self._session

    @asynccontextmanager
    async def open(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: bytes | None = None,
        content_type: str = "", endless: bool = False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:  # fmt: skip
        """Make a request and yield its answer, which has not been read yet. Raises StatusError."""
        seconds = None if endless else ANSWER_SECONDS
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        for attempt in range(TRIES):
            headers = [("Accept", ACCEPT), ("User-Agent", "wharfinger"), *await self._credentials.headers()]
            if content_type:
                headers.append(("Content-Type", content_type))
            options: dict[str, Any] = {"server_hostname": self.access.server_name} if self.access.server_name else {}
            request = self._current().request(
                method, self.access.server.rstrip("/") + path, params=query, data=body, headers=headers,
                timeout=timeout, allow_redirects=False, **options,
            )  # fmt: skip
            async with request as response:
                if response.status < 300:
                    yield response
                    return
                error = await _error(response)
            again = attempt + 1 < TRIES
            if again and response.status == 429 and "Retry-After" in response.headers:
                await asyncio.sleep(min(error.retry_after or 1.0, MOST_RETRY_AFTER))
                continue
            if attempt == 0 and response.status == 401 and self._credentials.refused():
                continue
            raise error

    async def call(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: bytes | None = None,
        content_type: str = "",
    ) -> tuple[bytes, str]:  # fmt: skip
        """Make a request; returns the body and its content type. Raises StatusError."""
        with translated():
            async with self.open(method, path, query=query, body=body, content_type=content_type) as response:
                return await response.read(), response.content_type


@contextmanager
def translated() -> Iterator[None]:
    """Turn what goes wrong on the way into the errors that callers know."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise errors.ServiceUnavailableError(f"the apiserver cannot be reached: {error}") from error
    except TimeoutError as error:
        raise errors.TimeoutError_("the apiserver did not answer in time; a write may have happened") from error
    except (aiohttp.ClientError, OSError) as error:
        raise errors.ServiceUnavailableError(f"the apiserver cannot be reached: {error or repr(error)}") from error


async def _error(response: aiohttp.ClientResponse) -> errors.StatusError:
    body = await response.read()
    status = meta.Status(code=response.status, message=f"{response.status} {response.reason}")
    try:
        if response.content_type == PROTOBUF:
            _, kind, raw = storage.unwrap(body)
            if kind == "Status":
                status = meta.Status.FromString(raw)
        elif response.content_type == JSON:
            status = codec.from_json(body, meta.Status, validation="Ignore").message
        elif text := body.decode(errors="replace").strip():
            status.message = text[:300]
    except (errors.StatusError, DecodeError) as error:
        log.debug("an error without a Status", extra={"code": response.status, "error": str(error)})
    if not status.code:
        status.code = response.status
    found = errors.from_status(status)
    if not found.retry_after:
        after = response.headers.get("Retry-After", "")
        found.retry_after = int(after) if after.isdigit() else 0
    return found
