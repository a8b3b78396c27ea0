"""Cluster roles that are the sum of others: their rules are those of all cluster roles that their selectors choose.

So whoever adds a kind can add rights on it to ``view``, ``edit`` and ``admin`` by a label alone. Rules stand in the
order of the selectors, and for each in that of the roles' names, each rule once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.controllers.context import Context, work
from wharfinger.api import errors, labels
from wharfinger.api.codec import canonical_bytes
from wharfinger.api.types import rbac

if TYPE_CHECKING:
    from collections.abc import Iterable

WORKERS = 2


class RoleAggregationController:
    """See the module."""

    name = "clusterrole-aggregation-controller"

    def __init__(self, context: Context) -> None:
        self._roles = context.informers.of(rbac.ClusterRole)
        self._client = context.client.resource(rbac.ClusterRole)
        self._queue = context.queue(self.name)

    async def run(self) -> None:
        """Watch and sync."""
        self._roles.add_handler(
            on_add=lambda _: self._enqueue(),
            on_update=lambda _, __: self._enqueue(),
            on_delete=lambda _: self._enqueue(),
        )
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _enqueue(self) -> None:
        """Look at every aggregated role: any change may be part of any of them."""
        for role in self._roles.items():
            if role.HasField("aggregationRule"):
                self._queue.add(role.metadata.name)

    async def _sync(self, name: str) -> None:
        role = self._roles.get(name)
        if role is None or not role.HasField("aggregationRule"):
            return
        wanted = rules_for(role, self._roles.items())
        if list(map(canonical_bytes, wanted)) == list(map(canonical_bytes, role.rules)):
            return
        new = rbac.ClusterRole()
        new.CopyFrom(role)
        del new.rules[:]
        new.rules.extend(wanted)
        try:
            await self._client.update(new)
        except errors.NotFoundError:
            return  # it was deleted meanwhile


def rules_for(role: rbac.ClusterRole, roles: Iterable[rbac.ClusterRole]) -> list[rbac.PolicyRule]:
    """Return the rules that an aggregated role should have."""
    chosen: dict[str, rbac.ClusterRole] = {}
    everything = sorted(roles, key=lambda one: one.metadata.name)
    for selector in role.aggregationRule.clusterRoleSelectors:
        fits = labels.from_label_selector(selector)
        for one in everything:
            if one.metadata.name != role.metadata.name and fits.matches(one.metadata.labels):
                chosen.setdefault(one.metadata.name, one)
    found: dict[bytes, rbac.PolicyRule] = {}
    for name in chosen:
        for rule in chosen[name].rules:
            found.setdefault(canonical_bytes(rule), rule)
    return list(found.values())
