"""Failure zones, and how fast nodes of a zone may be given up.

One node that falls silent is broken; most nodes that fall silent together say that *we* are cut off, or that a zone
is. So the rate at which nodes get their evicting taint depends on the state of their zone, and when every zone has
lost every node nothing is evicted at all. Source: "Nodes" in Kubernetes' documentation (rate limits on eviction) and
the flags of kube-controller-manager, whose names and defaults :class:`EvictionRates` uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wharfinger.api.types import core

ZoneState = Literal["Normal", "PartialDisruption", "FullDisruption"]

REGION_LABELS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
EXCLUDE_LABEL = "node.kubernetes.io/exclude-disruption"


@dataclass(frozen=True, slots=True)
class EvictionRates:
    """Nodes a second, by the state of their zone."""

    normal: float = 0.1
    secondary: float = 0.01
    unhealthy_threshold: float = 0.55
    """The share of nodes not ready from which a zone is partially disrupted (with at least three of them)."""
    large_cluster: int = 50
    """Up to this many nodes a partially disrupted zone loses none."""


@dataclass(frozen=True, slots=True)
class ZoneVerdict:
    """The state of a zone with the numbers it follows from."""

    state: ZoneState
    ready: int
    not_ready: int

    def describe(self) -> str:
        """Say it in one line."""
        return f"{self.state}: {self.not_ready} of {self.ready + self.not_ready} nodes are not ready"


def zone_of(node: core.Node) -> str:
    """Return the zone's key, ``region/zone``; nodes without such labels share the empty one."""
    labels = node.metadata.labels
    region = next((labels[label] for label in REGION_LABELS if label in labels), "")
    zone = next((labels[label] for label in ZONE_LABELS if label in labels), "")
    return f"{region}/{zone}" if region or zone else ""


def judge_zone(*, ready: int, not_ready: int, rates: EvictionRates) -> ZoneVerdict:
    """Decide a zone's state from its counts of nodes."""
    state: ZoneState = "Normal"
    if not_ready and not ready:
        state = "FullDisruption"
    elif not_ready > 2 and not_ready / (ready + not_ready) >= rates.unhealthy_threshold:
        state = "PartialDisruption"
    return ZoneVerdict(state, ready, not_ready)


def all_disrupted(verdicts: Mapping[str, ZoneVerdict]) -> bool:
    """Whether every zone has lost every node: then it is more likely that we have lost sight."""
    return bool(verdicts) and all(verdict.state == "FullDisruption" for verdict in verdicts.values())


def rate_for(verdict: ZoneVerdict, rates: EvictionRates) -> float:
    """Return nodes a second for one zone while others are alive."""
    if verdict.state == "PartialDisruption":
        return rates.secondary if verdict.ready + verdict.not_ready > rates.large_cluster else 0.0
    return rates.normal


@dataclass(slots=True)
class ZoneQueue:
    """Nodes of one zone that wait for leave to be tainted, and the token bucket that gives it (burst of one)."""

    rate: float
    refilled_at: float
    tokens: float = 1.0
    waiting: dict[str, None] = field(default_factory=dict)

    def set_rate(self, rate: float, now: float) -> None:
        """Change the rate from now on."""
        if rate != self.rate:
            self._refill(now)
            self.rate = rate

    def take(self, now: float) -> list[str]:
        """Return the nodes that have leave by now, first come first served."""
        self._refill(now)
        granted: list[str] = []
        while self.waiting and self.tokens >= 1.0 and self.rate > 0:
            name = next(iter(self.waiting))
            del self.waiting[name]
            self.tokens -= 1.0
            granted.append(name)
        return granted

    def _refill(self, now: float) -> None:
        self.tokens = min(1.0, self.tokens + max(0.0, now - self.refilled_at) * self.rate)
        self.refilled_at = now
