"""What is no resource: health, metrics, the version, and the documents that say what is served.

Health is answered as soon as the port is open; everything else about what is served follows the definitions of custom
kinds that are stored by now.
"""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING, Any

from prometheus_client import REGISTRY, generate_latest

from controlplane.apiserver import version
from controlplane.apiserver.httpfront import health, media, render, routing
from controlplane.apiserver.httpfront.calls import Reply, method_not_allowed
from controlplane.apiserver.httpfront.discovery import Discovery
from controlplane.apiserver.httpfront.documents import Documents
from controlplane.apiserver.request import JSON, PROTOBUF
from wharfinger.api import codec
from wharfinger.daemon.health import METRICS_TYPE, TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from controlplane.apiserver.auth.serviceaccounts import ServiceAccountTokens
    from controlplane.apiserver.chain import Api
    from wharfinger.daemon import Check


class NonResource:
    """Answers such requests; `accounts` None: this server makes no tokens, so nobody asks for its keys."""

    def __init__(self, api: Api, *, checks: Sequence[Check], accounts: ServiceAccountTokens | None) -> None:
        self._api = api
        self._checks = tuple(checks)
        self._accounts = accounts
        self._discovery = Discovery(api.served())
        self._documents = Documents(self._discovery)
        self._changes = api.changes
        self.port = 0
        """The server's, for clients that do not say by which name they know it."""

    async def answer(self, http: web.BaseRequest, parts: list[str], accept: str) -> Reply:
        """Answer a request that its sender may make; `parts` are the segments of its path. Raises StatusError."""
        top, method = parts[0], http.method
        if top in health.PATHS:
            query = http.query
            code, text = health.answer(
                parts, self._checks, verbose="verbose" in query, exclude=query.getall("exclude", [])
            )
            return Reply(code, text.encode(), TEXT)
        if top == "metrics" and len(parts) == 1:
            return Reply(200, generate_latest(REGISTRY), METRICS_TYPE)
        known = await self._document(http, parts, accept)
        if known is None:
            return Reply(404, health.NOT_FOUND.encode(), TEXT)
        if method != "GET":
            raise method_not_allowed(method)
        return known

    async def _document(self, http: web.BaseRequest, parts: list[str], accept: str) -> Reply | None:
        path = parts if parts[-1] else parts[:-1]
        if not all(path):
            return None
        if not path or path[0] in ("api", "apis", "openapi"):
            await self._look_around()
        if not path:
            return Reply(200, render.dump({"paths": self._paths()}, JSON), JSON)
        match path:
            case ["version"]:
                return Reply(200, render.dump(_version(), JSON), JSON)
            case ["api"]:
                return self._aggregated(accept, core=True) or self._legacy(
                    self._discovery.api_versions(http.headers.get("Host", "")), accept, bare=True
                )
            case ["apis"]:
                return self._aggregated(accept, core=False) or self._legacy(self._discovery.api_group_list(), accept)
            case ["apis", group]:
                found = self._discovery.api_group(group)
                return None if found is None else self._legacy(found, accept)
            case ["api", "v1"]:
                return self._legacy(self._discovery.api_resource_list("", "v1"), accept, bare=True)
            case ["api", _]:
                raise routing.not_found()
            case ["apis", group, group_version] if all(parts[:3]):
                resources = self._discovery.api_resource_list(group, group_version)
                if resources is None:
                    raise routing.not_found()
                return self._legacy(resources, accept)
            case ["openid", "v1", "jwks"] if self._accounts is not None:
                return Reply(200, render.dump(self._accounts.key_set(), JSON), "application/jwk-set+json")
            case [".well-known", "openid-configuration"] if self._accounts is not None:
                address = http.headers.get("Host", "") or f"127.0.0.1:{self.port}"
                return Reply(200, render.dump(self._accounts.discovery(address), JSON), JSON)
            case ["openapi", *rest]:
                return await self._documents.serve(rest, accept)
        return None

    async def _look_around(self) -> None:
        """Make the documents follow what is served."""
        await self._api.look_around()
        if self._changes != self._api.changes:
            self._changes = self._api.changes
            self._discovery = Discovery(self._api.served())
            self._documents.follow(self._discovery)

    def _paths(self) -> list[str]:
        paths = ["/api", "/api/v1", "/apis"]
        for group in self._discovery.groups():
            paths += [f"/apis/{group}", *(f"/apis/{group}/{item}" for item in self._discovery.versions(group))]
        return [*paths, "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]

    def _aggregated(self, accept: str, *, core: bool) -> Reply | None:
        for clause in media.clauses(accept):
            if clause.media == JSON and clause.get("as") == "APIGroupDiscoveryList":
                api_version = clause.get("v")
                # v2beta1 is no more in this version of Kubernetes; old clients that name another way out still get it.
                known = api_version == "v2" or (api_version == "v2beta1" and len(media.clauses(accept)) > 1)
                if clause.get("g") == "apidiscovery.k8s.io" and known:
                    document = self._discovery.aggregated(f"apidiscovery.k8s.io/{api_version}", core=core)
                    kind = f"{JSON};g=apidiscovery.k8s.io;v={api_version};as=APIGroupDiscoveryList"
                    return Reply(200, render.dump(document, JSON), kind)
            elif clause.media in (JSON, PROTOBUF, "*/*") and not clause.get("as"):
                return None
        return None

    @staticmethod
    def _legacy(message: Any, accept: str, *, bare: bool = False) -> Reply:
        """Return a discovery document; the core group's own bear no apiVersion in JSON."""
        form = media.negotiate(accept)
        if form.media == PROTOBUF or not bare:
            return Reply(200, render.message_bytes(message, form.media), form.media)
        value = codec.to_json(message)
        del value["apiVersion"]
        return Reply(200, render.dump(value, form.media), form.media)


def _version() -> dict[str, str]:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": version.MAJOR,
        "minor": version.MINOR,
        "emulationMajor": version.MAJOR,
        "emulationMinor": version.MINOR,
        "minCompatibilityMajor": version.MAJOR,
        "minCompatibilityMinor": str(int(version.MINOR) - 1),
        "gitVersion": version.GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{platform.system().lower()}/{machine}",
    }
