"""What an authoriser is asked: who wants to do what with which resource, or with which path.

Requests are one source of such questions; access reviews, impersonation and checks on roles ask about things that no
request of this server could name (foreign groups, verbs such as ``bind``), hence a value of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wharfinger.api import fields
from wharfinger.api.errors import BadRequestError

if TYPE_CHECKING:
    from controlplane.apiserver.request import Request, User

_COLLECTION = frozenset({"list", "watch", "deletecollection"})


@dataclass(slots=True)
class Attributes:
    """One question. With a `path` it is about that path, else about a resource."""

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    """Empty: all namespaces, or the resource has none."""
    name: str = ""
    path: str = ""
    version: str = ""
    field_selector: str = ""

    @property
    def full_resource(self) -> str:
        """As rules name it: ``pods`` or ``pods/log``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    @property
    def group_resource(self) -> str:
        """As messages name it: ``pods`` or ``deployments.apps``."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


def of_request(request: Request) -> Attributes:
    """Return the question that a request is.

    As in Kubernetes, a list or watch of one name (``metadata.name=x``) is about that object: who may only see x may
    watch it. And a namespace counts as being in itself, so that a role there may be about it.
    """
    kind = request.kind
    name, namespace, selector = request.name, request.namespace, request.field_selector
    if not name and selector and request.verb in _COLLECTION:
        name = exact(selector, "metadata.name")
    if kind.resource == "namespaces" and not kind.group:
        namespace = request.name
    return Attributes(
        request.user, request.verb, kind.group, kind.resource, request.subresource, namespace, name,
        version=kind.version, field_selector=selector,
    )  # fmt: skip


def exact(selector: str, path: str) -> str:
    """Return the only value of a field that a selector lets through; empty when there is no such value.

    A selector that cannot be parsed chooses nothing here; the request fails on it later, with its own error.
    """
    if path not in selector:
        return ""
    try:
        return fields.parse(selector).exact(path) or ""
    except BadRequestError:
        return ""
