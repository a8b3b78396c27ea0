"""Mode RBAC: rights by roles, and roles by bindings.

A decision depends on few things: who, which verb, which resource, which namespace. Those are remembered until any role
or binding changes, so a check costs a look-up: about a microsecond, whatever the number of roles. Names are left out
of what is remembered; for rules with names the remembered answer is the set of names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.auth.authorizer import NO_OPINION, Authorizer, Rules, Verdict

if TYPE_CHECKING:
    from controlplane.apiserver.auth.attributes import Attributes
    from controlplane.apiserver.auth.policy import Rule
    from controlplane.apiserver.auth.rolebook import RoleBook
    from controlplane.apiserver.request import User

_REMEMBERED = 50_000
"""Decisions; when there are more, all are forgotten."""


class _Decision:
    """What is known about one kind of question."""

    __slots__ = ("names", "no", "yes")

    def __init__(self, yes: Verdict | None, names: dict[str, Verdict], no: Verdict) -> None:
        self.yes = yes
        """For every name; None: only for some, or none."""
        self.names = names
        self.no = no


class RBAC(Authorizer):
    """Answers from the role book."""

    def __init__(self, book: RoleBook) -> None:
        self.book = book
        self._generation = -1
        self._known: dict[tuple[object, ...], _Decision] = {}

    def authorize(self, asked: Attributes) -> Verdict:
        """Allow what a rule of the user's roles covers; no opinion otherwise."""
        if self.book.refresh() != self._generation or len(self._known) >= _REMEMBERED:
            self._known.clear()
            self._generation = self.book.generation
        user = asked.user
        key = (
            user.name, user.groups, asked.verb, asked.namespace, asked.group, asked.resource, asked.subresource,
            asked.path,
        )  # fmt: skip
        decision = self._known.get(key)
        if decision is None:
            decision = self._known[key] = self._decide(asked)
        if decision.yes is not None:
            return decision.yes
        return decision.names.get(asked.name, decision.no) if decision.names else decision.no

    def _decide(self, asked: Attributes) -> _Decision:
        names: dict[str, Verdict] = {}
        missing: list[str] = []
        for grant in self.book.grants(asked.user, asked.namespace):
            if grant.missing:
                missing.append(grant.missing)
            for rule in grant.rules:
                if not _allows(rule, asked):
                    continue
                verdict = Verdict(allowed=True, reason=grant.binding.describe(grant.subject))
                if not rule.names or asked.path:
                    return _Decision(verdict, {}, NO_OPINION)
                for name in rule.names:
                    names.setdefault(name, verdict)
        names.pop("", None)
        text = missing[0] if len(missing) == 1 else f"[{', '.join(missing)}]"
        return _Decision(None, names, Verdict(allowed=None, reason=f"RBAC: {text}") if missing else NO_OPINION)

    def rules(self, user: User, namespace: str) -> Rules:
        """Return the rules of all roles that the user has."""
        found: list[Rule] = []
        missing: list[str] = []
        for grant in self.book.grants(user, namespace):
            found += grant.rules
            if grant.missing:
                missing.append(grant.missing)
        return Rules(found, "; ".join(missing))


def _allows(rule: Rule, asked: Attributes) -> bool:
    if asked.path:
        return rule.on_path(asked.verb, asked.path)
    return rule.on_resource(asked.verb, asked.group, asked.resource, asked.subresource)
