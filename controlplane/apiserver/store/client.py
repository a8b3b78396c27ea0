"""skeleton"""

from dataclasses import dataclass


@dataclass(frozen=True)
class EtcdConfig:
    """Where etcd is and how to reach it."""

    endpoints: tuple[str, ...] = ("127.0.0.1:2379",)
    """``host:port`` each, of one cluster."""
    ca_file: str = ""
    """Any of the three files turns TLS on."""
    cert_file: str = ""
    key_file: str = ""
    timeout: float = 5.0
    """Seconds a single call may take."""
    patience: float = 10.0
    """Seconds a caller waits in total while etcd is away or a write's outcome is being settled."""
