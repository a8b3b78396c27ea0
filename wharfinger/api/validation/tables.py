"""Which file holds the rules of which kind, and the few kinds that go another way."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from wharfinger.api.types import core, policy
from wharfinger.api.validation import (
    autoscalers,
    budgets,
    certificates,
    claims,
    config,
    definitions,
    endpoints,
    flow_control,
    jobs,
    leases,
    namespaces,
    networks,
    nodes,
    persistent_volumes,
    pod_groups,
    pods,
    priority_classes,
    quotas,
    reviews,
    roles,
    runtime_classes,
    services,
    webhooks,
    workloads,
)
from wharfinger.api.validation import events as event_rules
from wharfinger.api.validation.registry import Rules

_MODULES: tuple[Any, ...] = (
    autoscalers, budgets, certificates, claims, config, definitions, endpoints, event_rules, flow_control, jobs, leases,
    namespaces, networks, nodes, persistent_volumes, pod_groups, pods, priority_classes, quotas, reviews, roles,
    runtime_classes, services, webhooks, workloads,
)  # fmt: skip

UNCHECKED_METADATA: frozenset[type[Message]] = frozenset({core.Event, policy.PodDisruptionBudget})
"""Kinds whose own rules leave the metadata to the general pass."""


def collect() -> dict[type[Message], Rules]:
    """Return the rules of every kind that has any beyond its metadata."""
    rules: dict[type[Message], Rules] = {}
    for module in _MODULES:
        rules.update(module.RULES)
    return rules
