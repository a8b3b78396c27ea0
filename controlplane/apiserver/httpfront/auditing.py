"""What the audit log has to know of an HTTP request: what it asks by its path alone, from where, and how it is put."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.audit import Source, source
from controlplane.apiserver.auth.attributes import Attributes, exact
from controlplane.apiserver.httpfront import options, routing
from controlplane.apiserver.request import User
from wharfinger.api.errors import StatusError

if TYPE_CHECKING:
    from aiohttp import web

    from controlplane.apiserver.audit import Auditor

ID = "audit-id"
"""Under which a request remembers its id."""
_NOBODY = User("")


def audit_id(http: web.BaseRequest) -> str:
    """Return the request's id: the client's, or a new one."""
    return source.audit_id(http.headers.get(source.HEADER, ""))


def _asked(user: User, http: web.BaseRequest, parts: list[str], *, resource: bool) -> Attributes:
    if resource:
        try:
            address = routing.address(parts)
        except StatusError:
            pass  # nothing is there; the path says what was asked for
        else:
            query = http.query
            name = address.name or exact(query.get("fieldSelector", ""), "metadata.name")
            verb = "watch" if address.watching else options.verb_of(http.method, address, query)
            if verb:
                namespace = address.namespace
                if (address.group, address.resource) == ("", "namespaces"):
                    namespace = address.name
                return Attributes(
                    user, verb, address.group, address.resource, address.subresource, namespace, name,
                    version=address.version,
                )  # fmt: skip
    return Attributes(user, http.method.lower(), path="/" + "/".join(parts))


def _source(http: web.BaseRequest) -> Source:
    headers = http.headers
    return Source(
        source.written(http.raw_path),
        source.addresses(http.remote or "", headers.get("X-Forwarded-For", ""), headers.get("X-Real-Ip", "")),
        source.agent(headers.get("User-Agent", "")),
        http[ID],
    )


def begin(auditor: Auditor, user: User, http: web.BaseRequest, parts: list[str], *, resource: bool) -> None:
    """Begin the record of a request."""
    auditor.begin(_asked(user, http, parts, resource=resource), lambda: _source(http))


def refused(auditor: Auditor, http: web.BaseRequest, parts: list[str], *, resource: bool) -> None:
    """Record a request whose credentials are nobody's."""
    auditor.refused(_asked(_NOBODY, http, parts, resource=resource), lambda: _source(http), tried=("bearer",))
