"""Kubeconfig files: where a cluster's servers are, and who somebody is to them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from wharfinger import wholefile

GRPC_EXTENSION = "wharfinger.dev/grpc"
"""Name of the kubeconfig cluster extension that lists the gRPC endpoints."""


def write_kubeconfig(
    path: Path | str,
    *,
    server: str,
    grpc_endpoints: Sequence[str] = (),
    grpc_token_endpoints: Sequence[str] = (),
    ca: bytes | Path | None = None,
    cert: bytes | Path | None = None,
    key: bytes | Path | None = None,
    token: str = "",
    user: str = "admin",
    cluster: str = "wharfinger",
    context: str = "",
    namespace: str = "",
) -> Path:
    """Write a kubeconfig to `path` (0600, atomically, replacing what is there).

    PEM bytes are embedded, a Path is written as a file reference. `server` is the HTTPS address for kubectl and the
    client libraries; `grpc_endpoints` (``host:port``) the native API for ``wharf`` and the daemons with a certificate,
    `grpc_token_endpoints` for those with a token. `context` defaults to ``user@cluster``.
    """
    at: dict[str, Any] = {"server": server}
    _reference(at, "certificate-authority", ca)
    extension = {
        name: list(addresses)
        for name, addresses in (("endpoints", grpc_endpoints), ("tokenEndpoints", grpc_token_endpoints))
        if addresses
    }
    if extension:
        at["extensions"] = [{"name": GRPC_EXTENSION, "extension": extension}]
    who: dict[str, Any] = {}
    _reference(who, "client-certificate", cert)
    _reference(who, "client-key", key)
    if token:
        who["token"] = token
    place = {"cluster": cluster, "user": user}
    if namespace:
        place["namespace"] = namespace
    name = context or f"{user}@{cluster}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": at}],
        "users": [{"name": user, "user": who}],
        "contexts": [{"name": name, "context": place}],
        "current-context": name,
    }
    target = Path(path)
    wholefile.write(target, yaml.safe_dump(config, sort_keys=False).encode())
    return target


def _reference(entry: dict[str, Any], name: str, value: bytes | Path | None) -> None:
    if isinstance(value, Path):
        entry[name] = str(value.resolve())
    elif value:
        entry[f"{name}-data"] = base64.b64encode(value).decode()
