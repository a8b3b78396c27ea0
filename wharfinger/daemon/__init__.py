"""What every daemon does alike: logs, signals, background tasks, health and metrics, systemd notification."""

from wharfinger.daemon.attend import attend
from wharfinger.daemon.certificates import CertificateWatch
from wharfinger.daemon.following import ClientFiles, Follower, Pair, check_pair
from wharfinger.daemon.health import Check, HealthServer
from wharfinger.daemon.logs import setup_logging
from wharfinger.daemon.notify import notify, watchdog
from wharfinger.daemon.retirement import Retirement
from wharfinger.daemon.run import run
from wharfinger.daemon.settle import settle, stay_settled
from wharfinger.daemon.tasks import spawn
from wharfinger.daemon.tls import TLSFiles

__all__ = [
    "CertificateWatch", "Check", "ClientFiles", "Follower", "HealthServer", "Pair", "Retirement", "TLSFiles", "attend",
    "check_pair", "notify", "run", "settle", "setup_logging", "spawn", "stay_settled", "watchdog",
]  # fmt: skip
