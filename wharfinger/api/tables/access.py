"""Roles, bindings and certificate requests."""

from __future__ import annotations

from collections.abc import Iterable

from wharfinger.api.tables import text
from wharfinger.api.tables.table import AGE, CREATED, NAME, Cell, Column, Table
from wharfinger.api.types import certificates, rbac


def _created_row(obj: rbac.Role, now: float) -> list[Cell]:
    return [obj.metadata.name, text.created(obj)]


def _subjects(subjects: Iterable[rbac.Subject], kind: str) -> str:
    return ", ".join(
        f"{one.namespace}/{one.name}" if kind == "ServiceAccount" else one.name for one in subjects if one.kind == kind
    )


def _binding_row(obj: rbac.RoleBinding, now: float) -> list[Cell]:
    return [
        obj.metadata.name,
        f"{obj.roleRef.kind}/{obj.roleRef.name}",
        text.age(obj, now),
        *(_subjects(obj.subjects, kind) for kind in ("User", "Group", "ServiceAccount")),
    ]


def _request_status(obj: certificates.CertificateSigningRequest) -> str:
    words: list[str] = [c.type for c in obj.status.conditions if c.type in ("Approved", "Denied", "Failed")]
    order: list[str] = [word for word in ("Approved", "Denied", "Failed") if word in words] or ["Pending"]
    if obj.status.certificate:
        order.append("Issued")
    return ",".join(order)


def _request_row(obj: certificates.CertificateSigningRequest, now: float) -> list[Cell]:
    spec = obj.spec
    return [
        obj.metadata.name,
        text.age(obj, now),
        spec.signerName or text.NONE,
        spec.username,
        text.duration(spec.expirationSeconds) if spec.HasField("expirationSeconds") else text.NONE,
        _request_status(obj),
    ]


ROLES = Table((NAME, CREATED), _created_row)
BINDINGS = Table(
    (
        NAME,
        Column("Role", description="The role that is given."),
        AGE,
        Column("Users", priority=1, description="Users that get it."),
        Column("Groups", priority=1, description="Groups that get it."),
        Column("ServiceAccounts", priority=1, description="Service accounts that get it."),
    ),
    _binding_row,
)
REQUESTS = Table(
    (
        NAME,
        AGE,
        Column("SignerName", description="Who shall sign."),
        Column("Requestor", description="Who asked."),
        Column("RequestedDuration", description="For how long."),
        Column("Condition", description="What became of it."),
    ),
    _request_row,
)
