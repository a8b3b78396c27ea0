"""Where the apiservers are and who we are to them, read from a kubeconfig or given directly.

A kubeconfig's cluster entry names the gRPC endpoints in an extension::

    extensions: [{name: wharfinger.dev/grpc, extension: {endpoints: ["host:6444"], tokenEndpoints: ["host:6445"]}}]

Clients with a certificate use ``endpoints``; those with only a token use ``tokenEndpoints`` (Python's gRPC server
either demands a client certificate or never asks for one, hence two ports).
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

GRPC_EXTENSION = "wharfinger.dev/grpc"


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

    @classmethod
    def load(cls, kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None) -> ClientConfig:
        """Read a kubeconfig: the given file, else the files of KUBECONFIG, else ``~/.kube/config``.

        Raises ConfigError when no usable cluster and user are found.
        """
        return from_document(load_document(kubeconfig), context)


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
        try:
            document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {}
        except yaml.YAMLError as error:
            raise ConfigError(f"kubeconfig {path} is not YAML: {error}") from error
        if not isinstance(document, dict):
            raise ConfigError(f"kubeconfig {path} must hold a mapping, not {type(document).__name__}")
        found = True
        _merge(merged, document, path.resolve().parent)
    if not found:
        names = ", ".join(str(path) for path in paths)
        raise ConfigError(f"no kubeconfig found (looked at {names}); give one with --kubeconfig or KUBECONFIG")
    return merged


def _merge(merged: dict[str, Any], document: Mapping[str, Any], folder: Path) -> None:
    for name, value in document.items():
        if name in ("clusters", "users", "contexts"):
            taken = {entry["name"] for entry in merged[name]}
            for entry in value or []:
                if isinstance(entry, dict) and entry.get("name") not in taken:
                    merged[name].append({**entry, "_folder": str(folder)})
        else:
            merged.setdefault(name, value)


def from_document(document: Mapping[str, Any], context: str | None = None) -> ClientConfig:
    """Build the configuration of a context (default: ``current-context``) of a merged kubeconfig."""
    name = context or document.get("current-context")
    if not name:
        raise ConfigError("the kubeconfig sets no current-context; choose one with --context")
    chosen = _entry(document, "contexts", "context", str(name))
    cluster = _entry(document, "clusters", "cluster", str(chosen.get("cluster", "")))
    user = _entry(document, "users", "user", str(chosen.get("user", "")))
    ca = _data(cluster, "certificate-authority")
    if ca is None:
        raise ConfigError(f"cluster {chosen.get('cluster')!r} names no certificate-authority")
    cert, key = _data(user, "client-certificate"), _data(user, "client-key")
    token = user.get("token")
    if not token and (path := user.get("tokenFile")):
        token = _read(_resolve(user, path)).decode().strip()
    extension = next(
        (item.get("extension") or {} for item in cluster.get("extensions") or [] if item.get("name") == GRPC_EXTENSION),
        {},
    )
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


def _entry(document: Mapping[str, Any], section: str, key: str, name: str) -> dict[str, Any]:
    for entry in document.get(section) or []:
        if entry.get("name") == name:
            return {**(entry.get(key) or {}), "_folder": entry.get("_folder", "")}
    raise ConfigError(f"the kubeconfig has no {key} named {name!r}")


def _resolve(entry: Mapping[str, Any], path: str) -> Path:
    return Path(entry["_folder"]) / path


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
