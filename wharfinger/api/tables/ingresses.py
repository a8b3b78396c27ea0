"""Ingresses, their classes, and network policies."""

from __future__ import annotations

from wharfinger.api.tables import text
from wharfinger.api.tables.table import AGE, NAME, Cell, Column, Table
from wharfinger.api.types import networking

_HOSTS_SHOWN = 3


def _hosts(obj: networking.Ingress) -> str:
    hosts = [rule.host for rule in obj.spec.rules if rule.host]
    if not hosts:
        return "*"
    more = len(hosts) - _HOSTS_SHOWN
    return ",".join(hosts[:_HOSTS_SHOWN]) + (f" + {more} more..." if more > 0 else "")


def _row(obj: networking.Ingress, now: float) -> list[Cell]:
    return [
        obj.metadata.name,
        obj.spec.ingressClassName or text.NONE,
        _hosts(obj),
        text.joined(entry.ip or entry.hostname for entry in obj.status.loadBalancer.ingress),
        "80, 443" if obj.spec.tls else "80",
        text.age(obj, now),
    ]


def _class_row(obj: networking.IngressClass, now: float) -> list[Cell]:
    parameters = text.NONE
    if obj.spec.HasField("parameters"):
        group = obj.spec.parameters.apiGroup
        parameters = f"{obj.spec.parameters.kind}{'.' + group if group else ''}/{obj.spec.parameters.name}"
    return [obj.metadata.name, obj.spec.controller, parameters, text.age(obj, now)]


def _policy_row(obj: networking.NetworkPolicy, now: float) -> list[Cell]:
    return [obj.metadata.name, text.selector(obj.spec.podSelector), text.age(obj, now)]


TABLE = Table(
    (
        NAME,
        Column("Class", description="Who serves it."),
        Column("Hosts", description="Host names that it answers to."),
        Column("Address", description="Where it is reachable."),
        Column("Ports", description="Its ports."),
        AGE,
    ),
    _row,
)
CLASSES = Table(
    (
        NAME,
        Column("Controller", description="Who serves ingresses of the class."),
        Column("Parameters", description="The controller's settings."),
        AGE,
    ),
    _class_row,
)
POLICIES = Table((NAME, Column("Pod-Selector", description="Which pods it is for."), AGE), _policy_row)
