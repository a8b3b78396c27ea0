"""The small HTTP server beside each daemon: /healthz, /livez, /readyz and /metrics.

Written on asyncio's streams because it answers four GET paths and must not cost a daemon the memory of a web
framework (the apiserver's HTTP front is another matter). With TLS when files are given; where these name an authority
of clients, /metrics is for those alone who show its certificate, while health is anybody's, as in Kubernetes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

from wharfinger.daemon.tls import TLSFiles

log = logging.getLogger(__name__)

REQUEST_SECONDS = 10.0
MAX_HEADER_LINES = 100
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}


@dataclass(frozen=True)
class Check:
    """A named condition. `probe` returns None when all is well, else what is wrong."""

    name: str
    probe: Callable[[], str | None]
    liveness: bool = False
    """Whether it also counts for /livez and /healthz (else only for /readyz)."""


class HealthServer:
    """Serves until closed."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        checks: tuple[Check, ...] = (),
        tls: TLSFiles | None = None,
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        self._host = host
        self._port = port
        self._checks = checks
        self._tls = tls
        self._registry = registry
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port that is listened on (the one chosen, when 0 was asked for)."""
        if self._server is None:
            return self._port
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Listen. Raises OSError when the address is taken."""
        context = self._tls.ssl_context() if self._tls else None
        self._server = await asyncio.start_server(self._serve, self._host, self._port, ssl=context)

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def answer(self, method: str, target: str, *, known: bool = True) -> tuple[int, str, bytes]:
        """Return code, content type and body for a request; `known`: the client has shown a certificate if it must."""
        path, _, query = target.partition("?")
        if path == "/metrics" and not known:
            return 401, TEXT, b"/metrics needs a client certificate of the cluster's authority\n"
        if path == "/metrics":
            code, kind, body = 200, METRICS_TYPE, generate_latest(self._registry)
        elif path in ("/healthz", "/livez", "/readyz"):
            code, text = self._health(path.strip("/"), verbose="verbose" in query)
            kind, body = TEXT, text.encode()
        else:
            return 404, TEXT, b"not found: this port serves /healthz, /livez, /readyz and /metrics\n"
        if method not in ("GET", "HEAD"):
            return 405, TEXT, b"only GET and HEAD are served here\n"
        return code, kind, b"" if method == "HEAD" else body

    def _health(self, name: str, *, verbose: bool) -> tuple[int, str]:
        lines = ["[+]ping ok"]
        failed = False
        for check in self._checks:
            if name != "readyz" and not check.liveness:
                continue
            trouble = _probed(check)
            failed = failed or trouble is not None
            lines.append(f"[+]{check.name} ok" if trouble is None else f"[-]{check.name} failed: {trouble}")
        if failed:
            return 503, "\n".join([*lines, f"{name} check failed", ""])
        return 200, "\n".join([*lines, f"{name} check passed", ""]) if verbose else "ok"

    def _knows(self, writer: asyncio.StreamWriter) -> bool:
        demanded = self._tls is not None and self._tls.client_ca is not None
        return not demanded or bool(writer.get_extra_info("ssl_object").getpeercert())  # {} or None: none was shown

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                request = (await reader.readline()).decode("latin-1").split()
                for _ in range(MAX_HEADER_LINES):
                    if (await reader.readline()).strip() == b"":
                        break
                if len(request) != 3:
                    code, kind, body = 400, TEXT, b"not an HTTP request\n"
                else:
                    code, kind, body = self.answer(request[0], request[1], known=self._knows(writer))
                head = (
                    f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: {kind}\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                )
                writer.write(head.encode() + body)
                await writer.drain()
        except (TimeoutError, OSError, ValueError) as error:  # a broken TLS connection is an OSError
            log.debug("health request broken off", extra={"error": repr(error)})
        finally:
            writer.close()


def _probed(check: Check) -> str | None:
    try:
        return check.probe()
    except Exception as error:  # a probe that cannot tell is no good news; whoever asks gets an answer
        log.exception("a health check failed on a fault of ours", extra={"check": check.name})
        return f"the check itself failed: {type(error).__name__}"
