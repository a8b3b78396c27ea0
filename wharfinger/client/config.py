"""Where the apiservers are and who we are to them, read from a kubeconfig or given directly.

A kubeconfig's cluster entry names the gRPC endpoints in an extension::

    extensions: [{name: wharfinger.dev/grpc, extension: {endpoints: ["host:6444"], tokenEndpoints: ["host:6445"]}}]

Clients with a certificate use ``endpoints``; those with only a token use ``tokenEndpoints`` (Python's gRPC server
either demands a client certificate or never asks for one, hence two ports).

A cluster without that extension is some Kubernetes: with ``api="auto"`` it is spoken to over its HTTPS port
(:mod:`wharfinger.client.http`), which daemons can, and ``wharf`` cannot.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import yaml

from wharfinger.client.http.access import ExecPlugin, HttpAccess

GRPC_EXTENSION = "wharfinger.dev/grpc"
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

Api = Literal["grpc", "http", "auto"]
"""How to speak with a cluster; auto: gRPC where the kubeconfig names endpoints, else HTTP."""


class ConfigError(Exception):
    """Raised when a kubeconfig cannot be used; says which file, which entry and what is missing."""


@dataclass(frozen=True)
class Impersonation:
    """Whom to act as; the server allows it to those who may ``impersonate``."""

    user: str = ""
    groups: Sequence[str] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return what goes with each call: the headers of the HTTP API, in lower case."""
        pairs = [("impersonate-user", self.user)] if self.user else []
        pairs += [("impersonate-group", group) for group in self.groups]
        if self.uid:
            pairs.append(("impersonate-uid", self.uid))
        for key, values in self.extra.items():
            pairs += [(f"impersonate-extra-{quote(key.lower(), safe='')}", value) for value in values]
        return tuple(pairs)


@dataclass(frozen=True)
class ClientConfig:
    """Endpoints and credentials of one user in one cluster."""

    endpoints: Sequence[str]
    """``host:port`` of each apiserver's gRPC port, in order of preference."""
    ca: bytes
    """PEM of the authority that signed the servers' certificates."""
    cert: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    namespace: str = "default"
    server: str = ""
    """The HTTPS address in the kubeconfig, for messages."""
    acting_as: Impersonation | None = None
    http: HttpAccess | None = None
    """Set when the cluster is spoken to over HTTP; then there are no `endpoints`."""
    files: tuple[Path, ...] = field(default=(), compare=False)
    """All that was read for it: kubeconfigs, and what they name (:mod:`wharfinger.client.renewal` follows them)."""

    @property
    def hosts(self) -> frozenset[str]:
        """The names and addresses of the apiservers, without ports."""
        return frozenset(endpoint.rpartition(":")[0].strip("[]") for endpoint in self.endpoints)

    @classmethod
    def load(
        cls, kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None, *, api: Api = "grpc"
    ) -> ClientConfig:
        """Read a kubeconfig: the given file, else the files of KUBECONFIG, else ``~/.kube/config``.

        Raises ConfigError when no usable cluster and user are found.
        """
        found = from_document(load_document(kubeconfig), context, api=api)
        return replace(found, files=(*kubeconfig_paths(kubeconfig), *found.files))


def kubeconfig_paths(kubeconfig: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the files that make up the configuration, first ones winning."""
    if kubeconfig:
        return [Path(kubeconfig)]
    if variable := os.environ.get("KUBECONFIG"):
        return [Path(part) for part in variable.split(os.pathsep) if part]
    return [Path.home() / ".kube" / "config"]


def load_document(kubeconfig: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Merge the kubeconfig files as kubectl does: the first to set a value or to name an entry wins."""
    paths = kubeconfig_paths(kubeconfig)
    merged: dict[str, Any] = {"clusters": [], "users": [], "contexts": []}
    found = False
    for path in paths:
        try:
            text = path.read_text()
        except FileNotFoundError:
            if kubeconfig:
                raise ConfigError(f"kubeconfig {path} does not exist") from None
            continue
        except OSError as error:
            raise ConfigError(f"kubeconfig {path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"kubeconfig {path} is no text in UTF-8: {error}") from error
        try:
            document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {}
        except yaml.YAMLError as error:
            raise ConfigError(f"kubeconfig {path} is not YAML: {error}") from error
        _check_shape(document, _SHAPE, f"kubeconfig {path}", "")
        found = True
        _merge(merged, document, path.resolve().parent)
    if not found:
        names = ", ".join(str(path) for path in paths)
        raise ConfigError(f"no kubeconfig found (looked at {names}); give one with --kubeconfig or KUBECONFIG")
    return merged


_SHAPE: dict[str, Any] = {
    "clusters": [{"name": "", "cluster": {"extensions": [{"name": ""}], "server": "", "certificate-authority": ""}}],
    "users": [
        {
            "name": "",
            "user": {"as-groups": [""], "as-user-extra": {}, "exec": {"args": [""], "env": [{}]}, "tokenFile": "",
                     "client-certificate": "", "client-key": ""},
        }
    ],
    "contexts": [{"name": "", "context": {"cluster": "", "user": "", "namespace": ""}}],
    "current-context": "",
}  # fmt: skip
"""What is read of a kubeconfig: mappings, lists, and (empty texts here) plain values. Nothing has to be there."""


def _check_shape(value: Any, shape: Any, what: str, path: str) -> None:
    """Raise ConfigError where a document has something else than is read there."""
    if value is None:
        return
    if isinstance(shape, str):
        if isinstance(value, (dict, list)):
            raise ConfigError(f"{what}: {path} must be a plain value, not a {_KINDS[type(value)]}")
        return
    if not isinstance(value, type(shape)):
        kind = _KINDS.get(type(value), repr(value)[:40])
        raise ConfigError(f"{what}{f': {path} must be' if path else ' must hold'} a {_KINDS[type(shape)]}, not {kind}")
    if isinstance(shape, list):
        for index, item in enumerate(value):
            _check_shape(item, shape[0], what, f"{path}[{index}]")
    else:
        for name, part in shape.items():
            _check_shape(value.get(name), part, what, f"{path}.{name}".lstrip("."))


_KINDS: dict[type, str] = {dict: "mapping", list: "list"}


def _merge(merged: dict[str, Any], document: Mapping[str, Any], folder: Path) -> None:
    for name, value in document.items():
        if name in ("clusters", "users", "contexts"):
            taken = {entry.get("name") for entry in merged[name]}
            for entry in value or []:
                if isinstance(entry, dict) and entry.get("name") not in taken:
                    merged[name].append({**entry, "_folder": str(folder)})
        else:
            merged.setdefault(name, value)


def from_document(
    document: Mapping[str, Any], context: str | None = None, *, api: Api = "grpc"
) -> ClientConfig:  # fmt: skip
    """Build the configuration of a context (default: ``current-context``) of a merged kubeconfig."""
    name = context or document.get("current-context")
    if not name:
        raise ConfigError("the kubeconfig sets no current-context; choose one with --context")
    chosen = _entry(document, "contexts", "context", str(name))
    cluster = _entry(document, "clusters", "cluster", str(chosen.get("cluster", "")))
    user = _entry(document, "users", "user", str(chosen.get("user", "")))
    extension = next(
        (
            item.get("extension") or {}
            for item in cluster.get("extensions") or []
            if item and item.get("name") == GRPC_EXTENSION
        ),
        {},
    )
    if not isinstance(extension, dict) or not all(isinstance(one, list) for one in extension.values() if one):
        raise ConfigError(
            f"cluster {chosen.get('cluster')!r}: the extension {GRPC_EXTENSION} must hold lists of host:port"
        )
    if api == "http" or (api == "auto" and not extension):
        return _over_http(cluster, user, chosen)
    ca = _data(cluster, "certificate-authority")
    if ca is None:
        raise ConfigError(f"cluster {chosen.get('cluster')!r} names no certificate-authority")
    cert, key = _data(user, "client-certificate"), _data(user, "client-key")
    token = user.get("token")
    if not token and (path := user.get("tokenFile")):
        token = _read(_resolve(user, path)).decode().strip()
    wanted = "endpoints" if cert else "tokenEndpoints"
    endpoints = [str(endpoint) for endpoint in extension.get(wanted) or []]
    if not endpoints:
        raise ConfigError(
            f"cluster {chosen.get('cluster')!r} has no extension {GRPC_EXTENSION} with {wanted}: "
            f"wharf speaks gRPC and needs host:port of an apiserver there"
        )
    return ClientConfig(
        endpoints=endpoints,
        ca=ca,
        cert=cert,
        key=key,
        token=str(token) if token else None,
        namespace=str(chosen.get("namespace") or "default"),
        server=str(cluster.get("server", "")),
        acting_as=_impersonation(user),
        files=_files(cluster, user),
    )


def _impersonation(user: Mapping[str, Any]) -> Impersonation | None:
    """Read whom a kubeconfig's user acts as; None when it says nothing of that."""
    wanted = Impersonation(
        str(user.get("as") or ""),
        [str(group) for group in user.get("as-groups") or ()],
        str(user.get("as-uid") or ""),
        {str(key): [str(value) for value in values] for key, values in (user.get("as-user-extra") or {}).items()},
    )
    return wanted if wanted.metadata() else None


def _over_http(cluster: Mapping[str, Any], user: Mapping[str, Any], context: Mapping[str, Any]) -> ClientConfig:
    """Build the configuration for a cluster's HTTPS port."""
    name = context.get("cluster")
    server = str(cluster.get("server") or "")
    if not server.startswith("https://"):
        raise ConfigError(f"cluster {name!r}: server must be an https:// address, not {server!r}")
    if cluster.get("proxy-url"):
        raise ConfigError(f"cluster {name!r}: proxy-url is not supported, the apiserver must be reachable itself")
    ca = _data(cluster, "certificate-authority")
    insecure = bool(cluster.get("insecure-skip-tls-verify"))
    if ca and insecure:
        raise ConfigError(f"cluster {name!r}: insecure-skip-tls-verify and a certificate-authority exclude each other")
    cert, key = _data(user, "client-certificate"), _data(user, "client-key")
    if bool(cert) != bool(key):
        raise ConfigError(f"user {context.get('user')!r}: client-certificate and client-key must be given together")
    if user.get("auth-provider"):
        raise ConfigError(f"user {context.get('user')!r}: auth-provider is no more in Kubernetes; use exec")
    token_file = user.get("tokenFile")
    acting_as = _impersonation(user)
    http = HttpAccess(
        server=server,
        ca=ca,
        insecure=insecure,
        server_name=str(cluster.get("tls-server-name") or ""),
        cert=cert,
        key=key,
        token=str(user["token"]) if user.get("token") and not token_file else None,
        token_file=str(_resolve(user, token_file)) if token_file else None,
        username=str(user.get("username") or ""),
        password=str(user.get("password") or ""),
        plugin=_plugin(user, context),
        headers=acting_as.metadata() if acting_as is not None else (),
    )
    return ClientConfig(
        endpoints=(), ca=ca or b"", cert=cert, key=key, token=http.token,
        namespace=str(context.get("namespace") or "default"), server=server, acting_as=acting_as,
        http=http, files=_files(cluster, user),
    )  # fmt: skip


def _plugin(user: Mapping[str, Any], context: Mapping[str, Any]) -> ExecPlugin | None:
    listed = user.get("exec")
    if not listed:
        return None
    where = f"user {context.get('user')!r}: exec"
    if listed.get("apiVersion") not in EXEC_VERSIONS:
        raise ConfigError(f"{where}.apiVersion {listed.get('apiVersion')!r}: must be one of {', '.join(EXEC_VERSIONS)}")
    if not listed.get("command"):
        raise ConfigError(f"{where}.command must be given")
    if listed.get("interactiveMode") == "Always":
        raise ConfigError(f"{where}.interactiveMode Always: there is nobody to ask here")
    return ExecPlugin(
        command=str(listed["command"]),
        api_version=str(listed["apiVersion"]),
        args=tuple(str(argument) for argument in listed.get("args") or ()),
        env={str(entry["name"]): str(entry["value"]) for entry in listed.get("env") or ()},
        folder=str(user.get("_folder") or "."),
        install_hint=str(listed.get("installHint") or ""),
    )


def _entry(document: Mapping[str, Any], section: str, key: str, name: str) -> dict[str, Any]:
    for entry in document.get(section) or []:
        if entry.get("name") == name:
            return {**(entry.get(key) or {}), "_folder": entry.get("_folder", "")}
    raise ConfigError(f"the kubeconfig has no {key} named {name!r}")


def _resolve(entry: Mapping[str, Any], path: str) -> Path:
    return Path(entry["_folder"]) / str(path)


def _files(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> tuple[Path, ...]:
    """Return the files that a cluster's and a user's entry name."""
    named = [(cluster, "certificate-authority"), (user, "client-certificate"), (user, "client-key")]
    found = [_resolve(entry, entry[name]) for entry, name in named if entry.get(name) and not entry.get(f"{name}-data")]
    if user.get("tokenFile") and not user.get("token"):
        found.append(_resolve(user, user["tokenFile"]))
    return tuple(found)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} (named by the kubeconfig) cannot be read: {error.strerror}") from error


def _data(entry: Mapping[str, Any], name: str) -> bytes | None:
    if inline := entry.get(f"{name}-data"):
        try:
            return base64.b64decode(inline, validate=True)
        except ValueError as error:
            raise ConfigError(f"{name}-data in the kubeconfig is not base64: {error}") from error
    if path := entry.get(name):
        return _read(_resolve(entry, str(path)))
    return None
