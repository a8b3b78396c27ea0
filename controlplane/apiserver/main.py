"""``wharf-apiserver``: flags, named as kube-apiserver's where it has them."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import click

from controlplane.apiserver.config import AuditConfig, Config
from controlplane.apiserver.store import EtcdConfig
from wharfinger import daemon

log = logging.getLogger("apiserver")

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _endpoints(text: str) -> tuple[str, ...]:
    """Read ``http://host:port,...`` or ``host:port,...``."""
    return tuple(part.strip().removeprefix("http://").removeprefix("https://").rstrip("/") for part in text.split(","))


def _port_range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    if not first.isdigit() or not last.isdigit():
        raise ValueError(f"--service-node-port-range: {text!r}: must be FIRST-LAST")
    return int(first), int(last)


def _disabled(text: str) -> frozenset[tuple[str, str]]:
    """Read --runtime-config. Raises ValueError."""
    from wharfinger.api.types import API_GROUPS

    off = set()
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = item.partition("=")
        group, _, version = name.rpartition("/")
        if (group, version) not in API_GROUPS or value not in ("true", "false"):
            raise ValueError(f"--runtime-config: {item!r}: must be GROUP/VERSION=true or =false, with a group of ours")
        if value == "false":
            off.add((group, version))
    if ("", "v1") in off:
        raise ValueError("--runtime-config: v1 cannot be switched off: everything else needs it")
    return frozenset(off)


@click.command(context_settings={"auto_envvar_prefix": "WHARF_APISERVER", "show_default": True})
@click.option("--etcd-servers", default="127.0.0.1:2379", help="etcd's endpoints, with commas between.")
@click.option("--etcd-cafile", type=_FILE, help="The authority that signed etcd's certificates.")
@click.option("--etcd-certfile", type=_FILE, help="Our client certificate for etcd.")
@click.option("--etcd-keyfile", type=_FILE, help="Its key.")
@click.option("--bind-address", default="0.0.0.0", help="The address to listen on.")
@click.option("--grpc-port", default=6444, help="The gRPC port that demands client certificates; 0: any free one.")
@click.option("--grpc-token-port", default=6445, help="The gRPC port for bearer tokens; 0: any free one, -1: none.")
@click.option("--secure-port", default=6443, help="The HTTPS port (Kubernetes API, health, metrics); 0: any.")
@click.option("--tls-cert-file", type=_FILE, required=True, help="The serving certificate.")
@click.option("--tls-private-key-file", type=_FILE, required=True, help="Its key.")
@click.option("--client-ca-file", type=_FILE, required=True, help="The authority of clients' certificates.")
@click.option("--token-auth-file", type=_FILE, help='Users with tokens: token,user,uid,"group1,group2" a line.')
@click.option(
    "--service-account-key-file",
    type=_FILE,
    multiple=True,
    help="Keys of which tokens of service accounts are accepted (again for more files), besides the signing key.",
)
@click.option("--service-account-signing-key-file", type=_FILE, help="The private key that signs such tokens.")
@click.option("--service-account-issuer", default="https://kubernetes.default.svc", help="Who such tokens are from.")
@click.option(
    "--service-account-max-token-expiration",
    default=0,
    type=click.IntRange(min=0),
    help="The longest life of such a token in seconds; 0: 2^32.",
)
@click.option(
    "--service-account-extend-token-expiration",
    type=bool,
    default=True,
    help="Whether tokens that pods get unasked hold for a year, so that programs that never read them anew go on; "
    "using one after its hour is counted and audited.",
)
@click.option("--api-audiences", default="", help="This server's names in tokens, with commas; default: the issuer.")
@click.option(
    "--enable-bootstrap-token-auth",
    type=bool,
    default=True,
    help="Whether bootstrap tokens (wharf token) let hosts ask for a certificate.",
)
@click.option(
    "--authorization-mode", default="Node,RBAC", help="Who decides: Node, RBAC, AlwaysAllow, AlwaysDeny, with commas."
)
@click.option("--kubelet-client-certificate", type=_FILE, help="Our client certificate for node agents.")
@click.option("--kubelet-client-key", type=_FILE, help="Its key.")
@click.option("--kubelet-certificate-authority", type=_FILE, help="The authority of agents; default: of clients.")
@click.option(
    "--audit-policy-file", type=_FILE, help="What is logged of requests: a Policy of audit.k8s.io/v1. Without: nothing."
)
@click.option("--audit-log-path", default="", help="The file of the audit log; -: standard output.")
@click.option("--audit-log-format", default="json", type=click.Choice(["json"]), help="Of its lines.")
@click.option(
    "--audit-log-maxage", default=0, type=click.IntRange(min=0), help="Days that rotated files are kept; 0: for ever."
)
@click.option(
    "--audit-log-maxbackup", default=10, type=click.IntRange(min=0), help="Rotated files that are kept; 0: all."
)
@click.option(
    "--audit-log-maxsize", default=100, type=click.IntRange(min=0), help="MiB of a file before it is rotated; 0: never."
)
@click.option(
    "--encryption-provider-config",
    type=_FILE,
    help="How values are encrypted in etcd: an EncryptionConfiguration of apiserver.config.k8s.io/v1.",
)
@click.option(
    "--encryption-provider-config-automatic-reload",
    type=bool,
    default=False,
    help="Whether that file is followed while the server runs.",
)
@click.option("--runtime-config", default="", help="API groups and versions on or off: metrics.k8s.io/v1beta1=false,…")
@click.option("--service-cluster-ip-range", default="10.96.0.0/16", help="Where services' addresses are taken from.")
@click.option("--service-node-port-range", default="30000-32767", help="The first and last node port of services.")
@click.option("--event-ttl", default=3600, type=click.IntRange(min=1), help="Seconds that events are kept.")
@click.option(
    "--group-commit-max", default=100, type=click.IntRange(1, 120), help="Writes a transaction; 1: no groups."
)
@click.option("--max-request-bytes", default=3 << 19, type=click.IntRange(min=1024), help="The largest object taken.")
@click.option(
    "--request-timeout",
    default=60.0,
    type=click.FloatRange(min=0.1),
    help="Seconds that a client has to send a body or to take an answer over HTTP.",
)
@click.option("--default-not-ready-toleration-seconds", default=300, help="How long pods stay on a node not ready.")
@click.option("--default-unreachable-toleration-seconds", default=300, help="How long on one out of reach.")
@click.option("--shutdown-grace", default=5.0, help="Seconds that calls under way have when the server stops.")
@click.option("--log-level", default="INFO", help="DEBUG, INFO, WARNING or ERROR.")
@click.option("--log-format", default="text", type=click.Choice(["text", "json"]), help="Of the log lines.")
def main(**flags: Any) -> None:
    """Serve the API over an etcd."""
    daemon.setup_logging(flags["log_level"], flags["log_format"])
    # Imported late: the schema of all kinds takes a moment, and --help needs none of it.
    from controlplane.apiserver.server import Server

    try:
        config = _config(flags)
        server = Server(config)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error

    async def serve(stop: asyncio.Event) -> None:
        starting = asyncio.ensure_future(server.start())
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            daemon.notify("READY=1")
            watchdog = daemon.spawn(daemon.watchdog(), name="watchdog")
            await stopping
            daemon.notify("STOPPING=1")
            watchdog.cancel()
        else:
            starting.cancel()
        await server.stop()

    try:
        daemon.run(serve)
    except (OSError, RuntimeError) as error:
        log.critical("cannot serve", extra={"error": str(error)})
        sys.exit(1)


def _config(flags: dict[str, Any]) -> Config:
    def text(path: Path | None) -> str:
        return str(path) if path is not None else ""

    return Config(
        etcd=EtcdConfig(
            endpoints=_endpoints(flags["etcd_servers"]),
            ca_file=text(flags["etcd_cafile"]),
            cert_file=text(flags["etcd_certfile"]),
            key_file=text(flags["etcd_keyfile"]),
        ),
        bind_address=flags["bind_address"],
        grpc_port=flags["grpc_port"],
        grpc_token_port=flags["grpc_token_port"],
        secure_port=flags["secure_port"],
        tls_cert=flags["tls_cert_file"],
        tls_key=flags["tls_private_key_file"],
        client_ca=flags["client_ca_file"],
        tokens=flags["token_auth_file"],
        account_keys=tuple(flags["service_account_key_file"]),
        account_signing_key=flags["service_account_signing_key_file"],
        account_issuer=flags["service_account_issuer"],
        account_max_seconds=flags["service_account_max_token_expiration"],
        account_extend=flags["service_account_extend_token_expiration"],
        audiences=tuple(filter(None, (name.strip() for name in flags["api_audiences"].split(",")))),
        bootstrap_tokens=flags["enable_bootstrap_token_auth"],
        authorization_modes=tuple(part.strip() for part in flags["authorization_mode"].split(",")),
        kubelet_cert=flags["kubelet_client_certificate"],
        kubelet_key=flags["kubelet_client_key"],
        kubelet_ca=flags["kubelet_certificate_authority"],
        disabled=_disabled(flags["runtime_config"]),
        service_cidr=flags["service_cluster_ip_range"],
        service_ports=_port_range(flags["service_node_port_range"]),
        audit=AuditConfig(
            policy=flags["audit_policy_file"],
            log=flags["audit_log_path"],
            max_age=flags["audit_log_maxage"],
            max_backups=flags["audit_log_maxbackup"],
            max_size=flags["audit_log_maxsize"],
        ),
        encryption=flags["encryption_provider_config"],
        encryption_reload=flags["encryption_provider_config_automatic_reload"],
        event_ttl=flags["event_ttl"],
        group_commit_max=flags["group_commit_max"],
        max_request_bytes=flags["max_request_bytes"],
        request_timeout=flags["request_timeout"],
        not_ready_toleration_seconds=flags["default_not_ready_toleration_seconds"],
        unreachable_toleration_seconds=flags["default_unreachable_toleration_seconds"],
        shutdown_grace=flags["shutdown_grace"],
    )


if __name__ == "__main__":
    main()
