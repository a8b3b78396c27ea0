"""Joining a cluster: from a bootstrap token to a kubeconfig with a certificate of the node's own.

Done once; later starts find the kubeconfig. When its certificate has ended meanwhile (a host that was off for long),
the bootstrap kubeconfig is used again, if its token still holds.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from pathlib import Path
from typing import Any

import yaml

from nodeagent import certificates as own
from wharfinger import wholefile
from wharfinger.api import errors
from wharfinger.client import Client, ClientConfig, ConfigError
from wharfinger.client.config import load_document

log = logging.getLogger(__name__)

_RETRY_SECONDS = (1.0, 2.0, 5.0, 15.0, 30.0)


def client_file(kubeconfig: str | None) -> Path | None:
    """Return the file that a kubeconfig's user has as both certificate and key: one of ours; None otherwise."""
    if not kubeconfig:
        return None
    try:
        users = load_document(kubeconfig)["users"]
    except ConfigError:
        return None
    user: dict[str, Any] = next((entry.get("user") or {} for entry in users), {})
    path = user.get("client-certificate")
    return Path(path) if path and path == user.get("client-key") and Path(path).name == own.CLIENT_FILE else None


def is_needed(kubeconfig: str) -> bool:
    """Whether a node with this kubeconfig must join: there is none, or its certificate is of no use any more."""
    if not Path(kubeconfig).exists():
        return True
    path = client_file(kubeconfig)
    if path is None:
        return False  # somebody else's certificate: theirs to look after
    certificate = own.read(path)
    return certificate is None or certificate.not_valid_after_utc.timestamp() <= time.time()


async def join(*, bootstrap: str, kubeconfig: str, directory: Path, node: str) -> None:
    """Ask for a client certificate until there is one, then write it into `directory` (absolute) and the kubeconfig.

    A kubeconfig that names that file already is left as it is: who deploys has written it, and looks after its
    addresses. Raises ConfigError when the bootstrap kubeconfig cannot be used.
    """
    document = load_document(bootstrap)
    wanted = own.Wanted(own.CLIENT_SIGNER, node)
    attempt = 0
    while True:
        try:
            # Read anew each time: the token may be replaced while we wait.
            async with Client(ClientConfig.load(bootstrap)) as client:
                content = await own.obtain(client, wanted)
            break
        except (errors.StatusError, own.RefusedError) as error:
            delay = _RETRY_SECONDS[min(attempt, len(_RETRY_SECONDS) - 1)] * random.uniform(0.8, 1.2)
            attempt += 1
            log.warning(
                "joining failed, trying again", extra={"node": node, "error": str(error), "retry_seconds": round(delay)}
            )
            await asyncio.sleep(delay)
    path = directory / own.CLIENT_FILE
    own.keep(path, content)
    if client_file(kubeconfig) != path:
        wholefile.write(Path(kubeconfig), yaml.safe_dump(_kubeconfig(document, path), sort_keys=False).encode())
    log.info("joined the cluster", extra={"node": node, "kubeconfig": kubeconfig})


def _kubeconfig(document: dict[str, Any], certificate: Path) -> dict[str, Any]:
    """Return the bootstrap kubeconfig with our certificate in the place of the token."""
    name = document.get("current-context")
    context = next((one for one in document["contexts"] if one.get("name") == name), None)
    if context is None:
        raise ConfigError("the bootstrap kubeconfig has no current-context")
    chosen = (context.get("context") or {}).get("cluster")
    cluster = next((one for one in document["clusters"] if one.get("name") == chosen), None)
    if cluster is None:
        raise ConfigError(f"the bootstrap kubeconfig has no cluster {chosen!r}")
    details = dict(cluster.get("cluster") or {})
    authority = details.get("certificate-authority")
    if authority:
        details["certificate-authority"] = str((Path(cluster["_folder"]) / authority).resolve())
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": chosen, "cluster": details}],
        "users": [
            {"name": "node", "user": {"client-certificate": str(certificate), "client-key": str(certificate)}},
        ],
        "contexts": [{"name": name, "context": {"cluster": chosen, "user": "node"}}],
        "current-context": name,
    }
