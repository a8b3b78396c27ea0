"""Encryption at rest in the server: the file, followed on demand, and what is counted of it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from wharfinger.api import encryption
from wharfinger.daemon import Follower

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from prometheus_client.metrics_core import Metric

    from controlplane.apiserver.store import Cache

log = logging.getLogger(__name__)


class Encrypting(Collector):
    """The transformer of a file; see the module."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError, which names the file and the field."""
        self._path = path
        self._follower = Follower(lambda: (path,), self._load, what=str(path))
        self.transformer = encryption.Transformer(encryption.load(path))
        self._cache: Cache | None = None
        self._reloads = 0
        self._loaded = time.time()
        REGISTRY.register(self)

    def follower(self, cache: Cache) -> Follower:
        """Return who follows the file; what could not be read before is read anew with what is new in it."""
        self._cache = cache
        return self._follower

    def _load(self) -> None:
        loaded = encryption.load(self._path)  # what is wrong is told of by who follows; the old one stays in use
        unreadable = self.transformer.unreadable
        self.transformer.replace(loaded)
        self._reloads += 1
        self._loaded = time.time()
        log.info("a new encryption configuration is in use", extra={"file": str(self._path)})
        if unreadable and self._cache is not None:
            self._cache.read_anew("values that could not be decrypted are read with another encryption configuration")

    def collect(self) -> Iterable[Metric]:
        """Return the families, under kube-apiserver's names where it has them."""
        done = CounterMetricFamily(
            "apiserver_storage_transformation_operations",
            "Values encrypted and decrypted.",
            labels=["resource", "transformation_type", "transformer_prefix", "status"],
        )
        for labels, count in self.transformer.counts.items():
            done.add_metric(labels, count)
        prefix = "apiserver_encryption_config_controller_automatic_reload"
        return [
            done,
            CounterMetricFamily(f"{prefix}s", "New configurations that were taken into use.", value=self._reloads),
            GaugeMetricFamily(
                f"{prefix}_last_timestamp_seconds", "When the present configuration was read.", value=self._loaded
            ),
        ]
