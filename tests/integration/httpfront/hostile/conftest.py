"""What a hostile client sends: the right 4xx as a Status, nothing above, nothing hangs, nobody else is hurt.

Afterwards the server is asked something plain, and its log must hold no stack: what a client can bring about is no
mistake of the server's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.httpfront.conftest import Http
from tests.support.apiserver import Apiserver


@pytest.fixture(autouse=True)
async def unhurt(http: Http, server: Apiserver) -> AsyncIterator[None]:
    """Whatever was sent: the next request is answered, and the log shows no stack."""
    seen = server.log.stat().st_size
    yield
    assert (await http.ask("GET", "/api/v1/namespaces/default")).status == 200
    with server.log.open() as log:
        log.seek(seen)
        written = log.read()
    assert "Traceback" not in written, written
