"""Roles and bindings of the watch cache, indexed by whom they are about.

Nothing is copied in the background: the cache tells which keys have changed, and the next question reads those. So a
check always sees what the cache sees, and an unchanged cluster costs nothing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlplane.apiserver.auth.policy import Rule, of_messages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.apiserver.request import User
    from controlplane.apiserver.store import Cache, Entry
    from wharfinger.api.types import rbac

log = logging.getLogger(__name__)

CLUSTER_ROLES, ROLES = "/registry/clusterroles/", "/registry/roles/"
CLUSTER_BINDINGS, BINDINGS = "/registry/clusterrolebindings/", "/registry/rolebindings/"
_PREFIXES = (CLUSTER_ROLES, ROLES, CLUSTER_BINDINGS, BINDINGS)
_ACCOUNT = "system:serviceaccount:"


class RoleMissingError(LookupError):
    """Raised when a binding is to a role that does not exist."""


@dataclass(frozen=True, slots=True)
class Binding:
    """What a binding says, without who wrote it when."""

    namespace: str
    """Empty: for the whole cluster."""
    name: str
    role_kind: str
    role: str
    subjects: tuple[tuple[str, str], ...]
    """For each subject the key that users are found by, and how messages name it."""

    @property
    def role_key(self) -> str:
        """The key of the role in the store."""
        return role_key(self.role_kind, self.role, self.namespace)

    def describe(self, subject: str) -> str:
        """Say that it is why a subject may do something, in Kubernetes' words."""
        own = f'RoleBinding "{self.name}/{self.namespace}"' if self.namespace else f'ClusterRoleBinding "{self.name}"'
        return f'RBAC: allowed by {own} of {self.role_kind} "{self.role}" to {subject}'


@dataclass(frozen=True, slots=True)
class Grant:
    """A role that somebody has, and through what."""

    binding: Binding
    subject: str
    rules: tuple[Rule, ...]
    missing: str = ""
    """Why there are no rules: the role does not exist."""


def role_key(kind: str, name: str, namespace: str) -> str:
    """Return the key of a role in the store."""
    return f"{CLUSTER_ROLES}{name}" if kind == "ClusterRole" else f"{ROLES}{namespace}/{name}"


class RoleBook:
    """See the module."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._changed: set[str] = set()
        self._roles: dict[str, tuple[Rule, ...]] = {}
        self._bindings: dict[str, Binding] = {}
        self._by_subject: dict[tuple[str, str], dict[str, Binding]] = {}
        """By namespace and subject; in it by key."""
        self.generation = 0
        for prefix in _PREFIXES:
            cache.listen(prefix, self._changed.add)

    def refresh(self) -> int:
        """Take in what has changed; returns a number that is another one afterwards if anything has."""
        if self._changed:
            changed = self._changed.copy()
            self._changed.clear()
            self.generation += 1
            for key in changed:
                if key in _PREFIXES:
                    self._load(key)
            for key in changed:
                if key not in _PREFIXES:
                    self._take(key, self._cache.get(key))
        return self.generation

    def _load(self, prefix: str) -> None:
        """Read all of a prefix anew."""
        for known in (self._roles, self._bindings):
            for key in [key for key in known if key.startswith(prefix)]:
                self._take(key, None)
        for entry in self._cache.list(prefix).entries:
            self._take(entry.key, entry)

    def _take(self, key: str, entry: Entry | None) -> None:
        is_role = key.startswith((CLUSTER_ROLES, ROLES))
        try:
            decoded = None if entry is None else entry.decoded
        except Exception:  # one odd object must not lock everybody out
            log.exception("a stored role or binding cannot be read; it grants nothing", extra={"key": key})
            decoded = None
        if is_role:
            if decoded is None:
                self._roles.pop(key, None)
            else:
                self._roles[key] = of_messages(decoded.rules)
            return
        self._forget(key)
        if decoded is not None:
            binding = self._bindings[key] = read_binding(decoded)
            for subject, _ in binding.subjects:
                self._by_subject.setdefault((binding.namespace, subject), {})[key] = binding

    def _forget(self, key: str) -> None:
        binding = self._bindings.pop(key, None)
        for subject, _ in binding.subjects if binding is not None else ():
            found = self._by_subject.get((binding.namespace if binding else "", subject))
            if found is not None:
                found.pop(key, None)
                if not found:
                    del self._by_subject[binding.namespace if binding else "", subject]

    def role(self, kind: str, name: str, namespace: str) -> tuple[Rule, ...]:
        """Return a role's rules. Raises RoleMissingError."""
        self.refresh()
        found = self._roles.get(role_key(kind, name, namespace))
        if found is None:
            raise RoleMissingError(f'{kind.lower()}.rbac.authorization.k8s.io "{name}" not found')
        return found

    def grants(self, user: User, namespace: str) -> Iterator[Grant]:
        """Return what bindings give a user: those of the cluster, then those of the namespace (empty: none)."""
        self.refresh()
        mine = dict.fromkeys([f"u:{user.name}", *(f"g:{group}" for group in user.groups)])
        for where in ("", namespace) if namespace else ("",):
            found: dict[str, Binding] = {}
            for subject in mine:
                found.update(self._by_subject.get((where, subject), ()))
            for key in sorted(found):
                binding = found[key]
                shown = next(text for subject, text in binding.subjects if subject in mine)
                rules = self._roles.get(binding.role_key)
                if rules is None:
                    why = f'{binding.role_kind.lower()}.rbac.authorization.k8s.io "{binding.role}" not found'
                    yield Grant(binding, shown, (), why)
                else:
                    yield Grant(binding, shown, rules)


def read_binding(message: rbac.RoleBinding | rbac.ClusterRoleBinding) -> Binding:
    """Read a stored binding; subjects of unknown kinds are nobody."""
    namespace = message.metadata.namespace
    subjects: list[tuple[str, str]] = []
    for subject in message.subjects:
        if subject.kind == "User":
            subjects.append((f"u:{subject.name}", f'User "{subject.name}"'))
        elif subject.kind == "Group":
            subjects.append((f"g:{subject.name}", f'Group "{subject.name}"'))
        elif subject.kind == "ServiceAccount":
            where = subject.namespace or namespace
            if where:
                shown = f'ServiceAccount "{subject.name}/{where}"'
                subjects.append((f"u:{_ACCOUNT}{where}:{subject.name}", shown))
    reference = message.roleRef
    return Binding(namespace, message.metadata.name, reference.kind, reference.name, tuple(subjects))
