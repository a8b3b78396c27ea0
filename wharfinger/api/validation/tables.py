"""Which file holds the rules of which kind, and the few kinds that go another way."""

from __future__ import annotations

from google.protobuf.message import Message

from wharfinger.api.types import (
    autoscaling_v1,
    core,
    policy,
)
from wharfinger.api.validation import (
    claims,
    config,
    endpoints,
    leases,
    namespaces,
    nodes,
    pods,
    priority_classes,
    services,
    workloads,
)
from wharfinger.api.validation import (
    events as event_rules,
)
from wharfinger.api.validation.registry import Rules

_MODULES = (
    claims, config, endpoints, event_rules, leases, namespaces, nodes, pods, priority_classes, services, workloads,
)  # fmt: skip

TRAVELLING: frozenset[type[Message]] = frozenset({autoscaling_v1.Scale, core.Binding, policy.Eviction})
"""Kinds that are never stored, so that there is no older metadata to compare with."""

UNCHECKED_METADATA: frozenset[type[Message]] = frozenset({core.Event, core.Binding})
"""Kinds whose own rules leave the metadata to the general pass."""

STRICT_NAMES: frozenset[type[Message]] = frozenset({autoscaling_v1.Scale})
"""Kinds without a general pass."""


def collect() -> dict[type[Message], Rules]:
    """Return the rules of every kind that has any beyond its metadata."""
    rules: dict[type[Message], Rules] = {}
    for module in _MODULES:
        rules.update(module.RULES)
    return rules
