"""Nobody gives away more than they have.

Whoever writes a role must have all that it grants, or the verb ``escalate`` on it; whoever writes a binding must have
all that the role grants, or the verb ``bind`` on the role ("Privilege escalation prevention" in Kubernetes'
documentation). In Kubernetes this is part of the storage of these kinds; here it runs where admission does, at the same
place in the order: before validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step
from controlplane.apiserver.auth.attributes import Attributes
from controlplane.apiserver.auth.authorizer import MASTERS
from controlplane.apiserver.auth.policy import EVERYTHING, compacted, of_messages, uncovered
from controlplane.apiserver.auth.rolebook import RoleMissingError
from controlplane.apiserver.strategies.base import all_same, same
from wharfinger.api.errors import ForbiddenError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from controlplane.apiserver.auth.authorizer import Authorizers
    from controlplane.apiserver.auth.policy import Rule
    from controlplane.apiserver.auth.rolebook import RoleBook
    from controlplane.apiserver.request import Request, User
    from wharfinger.api.kinds import Kind

GROUP = "rbac.authorization.k8s.io"
_ROLES = frozenset({"roles", "clusterroles"})
_SHOWN, _SHOWN_TEXT = 50, 20_000
"""Rules, and characters of them, that an error names."""
_BINDINGS = frozenset({"rolebindings", "clusterrolebindings"})
_ROLE_KINDS = {"rolebindings": ("ClusterRole", "Role"), "clusterrolebindings": ("ClusterRole",)}


class Escalation(Step):
    """Checks new and changed roles and bindings."""

    name: ClassVar[str] = "PrivilegeEscalation"

    def __init__(self, authorizers: Authorizers, book: RoleBook) -> None:
        self._authorizers = authorizers
        self._book = book

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """Roles and bindings that are created or changed."""
        return operation in ("create", "update") and kind.group == GROUP

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Refuse with 403; with 404 when a binding's role does not exist."""
        if MASTERS in request.user.groups:
            return None
        if request.kind.resource in _ROLES:
            self._role(request, obj, old)
        elif request.kind.resource in _BINDINGS:
            self._binding(request, obj, old)
        return None

    def _role(self, request: Request, obj: Any, old: Any) -> None:
        aggregates = request.kind.resource == "clusterroles" and obj.HasField("aggregationRule")
        if old is not None:
            grows = aggregates and not same(obj.aggregationRule, old.aggregationRule)
            if all_same(obj.rules, old.rules) and not grows:
                return
        asked = Attributes(
            request.user, "escalate", GROUP, request.kind.resource, "", request.namespace, obj.metadata.name
        )
        if self._authorizers.decide(asked).allowed:
            return
        if aggregates and uncovered(self._owned(request.user, ""), EVERYTHING):
            raise _forbidden(request, obj, "must have cluster-admin privileges to use the aggregationRule")
        self._check(request, obj, of_messages(obj.rules))

    def _binding(self, request: Request, obj: Any, old: Any) -> None:
        if old is not None and same(obj.roleRef, old.roleRef) and all_same(obj.subjects, old.subjects):
            return
        reference = obj.roleRef
        if reference.kind not in _ROLE_KINDS[request.kind.resource]:
            return  # validation says what would be right
        resource = "clusterroles" if reference.kind == "ClusterRole" else "roles"
        # A cluster role bound in a namespace may be bound by who may bind it there.
        asked = Attributes(request.user, "bind", GROUP, resource, "", request.namespace, reference.name)
        if self._authorizers.decide(asked).allowed:
            return
        try:
            rules = self._book.role(reference.kind, reference.name, request.namespace)
        except RoleMissingError as error:
            raise NotFoundError(str(error), name=reference.name, kind=request.kind.resource, group=GROUP) from error
        self._check(request, obj, rules)

    def _owned(self, user: User, namespace: str) -> tuple[Rule, ...]:
        return tuple(rule for grant in self._book.grants(user, namespace) for rule in grant.rules)

    def _check(self, request: Request, obj: Any, rules: Iterable[Rule]) -> None:
        missing = uncovered(self._owned(request.user, request.namespace), rules)
        if missing:
            user = request.user
            lines = [rule.compact() for rule in compacted(missing)]
            shown = "\n".join(lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more"])
            if len(shown) > _SHOWN_TEXT:
                shown = f"{shown[:_SHOWN_TEXT]}…"
            raise _forbidden(
                request,
                obj,
                f'user "{user.name}" (groups={list(user.groups)}) is attempting to grant RBAC permissions '
                f"not currently held:\n{shown}",
            )


def _forbidden(request: Request, obj: Any, why: str) -> ForbiddenError:
    kind, name = request.kind, obj.metadata.name
    return ForbiddenError(
        f'{kind.group_resource} "{name}" is forbidden: {why}', name=name, kind=kind.resource, group=kind.group
    )
