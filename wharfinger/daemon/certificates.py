"""How long a daemon's certificates are good: a metric for each, and a word in the log in good time.

Metric and warnings come from the files (or from what a client was given), read anew each time, so they show what a
restart would find. Long-lived certificates are warned about thirty days before their end and called an error in their
last week; short ones, which renew themselves, when a tenth of their life is left, since by then a renewal has failed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from prometheus_client import Gauge

from wharfinger.daemon import validity
from wharfinger.daemon.validity import Validity

log = logging.getLogger(__name__)

EXPIRATION = Gauge(
    "wharfinger_certificate_expiration_timestamp_seconds", "When a certificate of this process ends, Unix time",
    ["certificate"],
)  # fmt: skip
"""``certificate`` is what it is for: ``server``, ``client``, ``etcd-client``, ``kubelet-client``, ``client-ca``."""

Source = Path | Callable[[], bytes | None]
"""A file, or who knows the PEM by now (None: there is none)."""

LOOK_SECONDS = 300.0
SAY_AGAIN_SECONDS = 86_400.0
_WARNING_SECONDS = 30 * 86_400.0
_ERROR_SECONDS = 7 * 86_400.0


def level_of(certificate: Validity, now: float) -> int | None:
    """Return how loudly a certificate's end is to be told of by now; None: not at all."""
    end = certificate.ends.timestamp()
    life = end - certificate.begins.timestamp()
    left = end - now
    if left > min(_WARNING_SECONDS, life / 10):
        return None
    return logging.ERROR if left <= min(_ERROR_SECONDS, life / 50) else logging.WARNING


class CertificateWatch:
    """Looks after the certificates of a process."""

    def __init__(self, sources: Mapping[str, Source | None], *, clock: Callable[[], float] = time.time) -> None:
        """`sources` by what they are for; None is left out."""
        self._sources = {name: source for name, source in sources.items() if source is not None}
        self._clock = clock
        self._said: dict[str, tuple[int, int, float]] = {}

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Look at each certificate once; one that cannot be read is told of, too."""
        for name, source in self._sources.items():
            try:
                pem = source.read_bytes() if isinstance(source, Path) else source()
                if pem is None:
                    continue
                certificate = validity.read(pem)
            except (OSError, ValueError) as error:
                log.error("a certificate cannot be read", extra={"certificate": name, "error": str(error)})
                continue
            EXPIRATION.labels(name).set(certificate.ends.timestamp())
            self._tell(name, certificate)

    def _tell(self, name: str, certificate: Validity) -> None:
        now = self._clock()
        level = level_of(certificate, now)
        if level is None:
            self._said.pop(name, None)
            return
        serial, before, at = self._said.get(name, (0, 0, 0.0))
        if serial == certificate.serial and before == level and now - at < SAY_AGAIN_SECONDS:
            return
        self._said[name] = (certificate.serial, level, now)
        end = certificate.ends
        what = "a certificate has expired" if end.timestamp() <= now else "a certificate ends soon: renew it"
        log.log(level, what, extra={"certificate": name, "end": end.isoformat(), "serial": certificate.serial})
