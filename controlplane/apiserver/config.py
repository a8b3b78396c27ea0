"""The flags of ``wharf-apiserver`` as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controlplane.apiserver.store import EtcdConfig

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class AuditConfig:
    """What is logged of requests, and where to."""

    policy: Path | None = None
    log: str = ""
    """A file, or ``-`` for standard output; both this and a policy, or neither."""
    max_age: int = 0
    """Days that old files are kept; 0: without limit. So with the others."""
    max_backups: int = 0
    max_size: int = 100
    """MiB of a file."""


@dataclass(frozen=True)
class Config:
    """How a server is to run."""

    etcd: EtcdConfig = field(default_factory=EtcdConfig)
    bind_address: str = "0.0.0.0"
    grpc_port: int = 6444
    """With client certificates; 0: any free port."""
    grpc_token_port: int = 6445
    """With tokens; 0: any free port, negative: none."""
    secure_port: int = 6443
    """The Kubernetes HTTP API, health and metrics; 0: any free port, negative: none."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    client_ca: Path | None = None
    tokens: Path | None = None
    account_keys: tuple[Path, ...] = ()
    """Keys of which tokens of service accounts are accepted, besides the signing one."""
    account_signing_key: Path | None = None
    account_issuer: str = "https://kubernetes.default.svc"
    account_max_seconds: int = 0
    """Longest life of a token; 0: as Kubernetes allows."""
    account_extend: bool = True
    """Whether tokens that pods get unasked hold for a year."""
    audiences: tuple[str, ...] = ()
    """This server's names in tokens; none: the issuer."""
    bootstrap_tokens: bool = True
    """Whether Secrets of type ``bootstrap.kubernetes.io/token`` authenticate."""
    authorization_modes: tuple[str, ...] = ("Node", "RBAC")
    """Who decides what is allowed, in this order; see :mod:`.auth.modes`."""
    kubelet_cert: Path | None = None
    kubelet_key: Path | None = None
    kubelet_ca: Path | None = None
    disabled: frozenset[tuple[str, str]] = frozenset()
    """Groups and versions that are not served."""
    service_cidr: str = "10.96.0.0/16"
    service_ports: tuple[int, int] = (30000, 32767)
    audit: AuditConfig = field(default_factory=AuditConfig)
    encryption: Path | None = None
    """An EncryptionConfiguration: how values are encrypted in etcd."""
    encryption_reload: bool = False
    """Whether that file is followed while the server runs."""
    event_ttl: int = 3600
    group_commit_max: int = 100
    max_request_bytes: int = 3 << 19
    request_timeout: float = 60.0
    """Seconds that a client has to send a body or to take an answer over HTTP."""
    not_ready_toleration_seconds: int = 300
    unreachable_toleration_seconds: int = 300
    shutdown_grace: float = 5.0
    """Seconds that calls under way have when the server stops; watches are cut after that."""
