"""Connections whose requests cannot be read: the answer is a Status as everywhere, and one line of log.

aiohttp's parser refuses what is malformed (methods that are no words, headers that are too long or ambiguous, bad
chunks) before a request exists; only here can the answer be ours.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMethod

from controlplane.apiserver.httpfront import render
from controlplane.apiserver.request import JSON
from wharfinger.api import errors

if TYPE_CHECKING:
    from aiohttp.web_request import BaseRequest

log = logging.getLogger(__name__)


class Connection(web.RequestHandler):
    """One connection of a client."""

    __slots__ = ()

    def handle_error(
        self, request: BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer a request that could not be read, and close the connection."""
        log.info("a request cannot be read", extra={"peer": str(request.remote), "error": repr(exc)[:200]})
        error: errors.StatusError
        if isinstance(exc, BadHttpMethod):
            error = errors.MethodNotAllowedError("the server does not know this method", details={})
        elif status < 500:
            error = errors.BadRequestError(f"the request is not well-formed HTTP: {message or exc}"[:500])
            error.status_code = status
        else:
            error = errors.InternalError("an error on the server has prevented the request from succeeding")
        body = render.message_bytes(error.to_status(), JSON)
        response = web.Response(status=error.status_code, body=body, content_type=JSON)
        response.force_close()
        return response


class Server(web.Server):
    """Makes such connections."""

    def __call__(self) -> web.RequestHandler:
        """Return the handler of a new connection."""
        return Connection(self, loop=self._loop, **self._kwargs)
