"""ResourceQuota: a namespace's objects and what they ask for stay within its quotas.

What a new object uses is written into the quotas' status before the object is stored, by a compare-and-swap on every
quota concerned in one transaction: so several apiservers together never admit more than is allowed. Requests that come
while such a write is under way wait and are charged by the next one, all at once: creates side by side in one namespace
cost two writes each at worst, and share one at best. When the object is refused later on, its charge is taken back; an
apiserver that dies in between leaves too high a count, which the quota controller mends.

Bounds hold once they stand in the status, where the controller puts them together with what is used already.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step
from controlplane.apiserver.admission.bounded import NamespacesWith
from controlplane.apiserver.store import Compare, CompareFailed, Put, Write
from wharfinger.api import errors, quantity, quota, storage
from wharfinger.api.errors import ForbiddenError
from wharfinger.daemon import spawn

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache, Store
    from wharfinger.api.kinds import Kind
    from wharfinger.api.quota import Usage
    from wharfinger.api.types import core

_PREFIX = "/registry/resourcequotas/"
_ATTEMPTS = 20
_UNCOUNTED = frozenset({"events", "events.events.k8s.io", "bindings"})
_CHANGING = frozenset({"pods", "services", "persistentvolumeclaims"})
_ZERO = quantity.parse("0")


@dataclass(slots=True)
class _Charge:
    """One request that waits for its charge."""

    request: Request
    group_resource: str
    obj: Any
    delta: Usage
    """What it uses beyond what it used before; negative to take a charge back."""
    only: frozenset[str]
    """Keys of the quotas to charge; empty: all that it is in the scope of."""
    done: asyncio.Future[frozenset[str]]


@dataclass(slots=True)
class _Turn:
    """The requests of one namespace."""

    waiting: list[_Charge] = field(default_factory=list)
    known: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """What we wrote last, by key: revision and value; the cache may not show it yet."""


class ResourceQuota(Step):
    """Charges new objects, and changed ones that may use more."""

    name: ClassVar[str] = "ResourceQuota"

    def __init__(self, cache: Cache, store: Store) -> None:
        self._cache = cache
        self._store = store
        self._turns: dict[str, _Turn] = {}
        self._bounded = NamespacesWith(cache, _PREFIX)

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """Creates in namespaces; changes of what has a size."""
        if not kind.namespaced or kind.group_resource in _UNCOUNTED:
            return False
        return operation == "create" or (operation == "update" and kind.group_resource in _CHANGING)

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Charge, or refuse with 403."""
        if request.namespace not in self._bounded:
            return None
        resource = request.kind.group_resource
        if request.subresource and (resource, request.subresource) != ("pods", "resize"):
            return None
        if old is not None and resource == "pods" and request.subresource != "resize":
            return None
        return self._charge(request, obj, old)

    async def _charge(self, request: Request, obj: Any, old: Any) -> None:
        await request.undo_all()  # of an attempt before this one
        resource = request.kind.group_resource
        delta = quota.usage(resource, obj)
        if old is not None:
            before = quota.usage(resource, old)
            delta = {name: size - before.get(name, _ZERO) for name, size in delta.items()}
            delta = {name: size for name, size in delta.items() if size > _ZERO}
        delta = {name: size for name, size in delta.items() if size}
        if not delta:
            return
        charged = await self._enqueue(request, obj, delta, frozenset())
        if charged and not request.options.dry_run:
            back = {name: -size for name, size in delta.items()}

            async def undo() -> None:
                await self._enqueue(request, obj, back, charged)

            request.undo.append(undo)

    def _enqueue(
        self, request: Request, obj: Any, delta: Usage, only: frozenset[str]
    ) -> asyncio.Future[frozenset[str]]:
        done: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()
        charge = _Charge(request, request.kind.group_resource, obj, delta, only, done)
        turn = self._turns.get(request.namespace)
        if turn is None:
            turn = self._turns[request.namespace] = _Turn([charge])
            spawn(self._work(request.namespace, turn), name=f"quota of {request.namespace}")
        else:
            turn.waiting.append(charge)
        return done

    async def _work(self, namespace: str, turn: _Turn) -> None:
        """Charge whoever waits, until nobody does."""
        batch: list[_Charge] = []
        try:
            while turn.waiting:
                batch, turn.waiting = turn.waiting, []
                try:
                    await self._settle(namespace, turn, batch)
                except errors.StatusError as error:
                    _fail(batch, error)
        finally:
            del self._turns[namespace]
            # Only when something went wrong that nobody foresaw: whoever waits must hear of it.
            _fail([*batch, *turn.waiting], errors.InternalError("the quotas of the namespace could not be charged"))

    async def _settle(self, namespace: str, turn: _Turn, batch: list[_Charge]) -> None:
        fresh = False
        for _ in range(_ATTEMPTS):
            books = self._books(namespace, turn)
            outcomes = [_book(charge, books) for charge in batch]
            if not fresh and any(isinstance(outcome, ForbiddenError) for outcome in outcomes):
                await self._cache.fresh()  # nobody is told of a bound that only an old cache saw
                fresh = True
                continue
            changed = [book for book in books.values() if book.changed]
            if changed:
                compares = [Compare(book.key, book.revision) for book in changed]
                puts = [Put(book.key, book.value()) for book in changed]
                try:
                    done = await self._store.commit(Write(compares, puts))
                except CompareFailed as failed:
                    for key, current in failed.current.items():
                        if current is None:
                            turn.known[key] = (1 << 62, b"")  # deleted: whatever the cache says
                        else:
                            turn.known[key] = (current.mod_revision, current.value)
                    continue
                for put in puts:
                    turn.known[put.key] = (done.revision, put.value)
            for charge, outcome in zip(batch, outcomes, strict=True):
                if charge.done.done():
                    continue  # nobody waits any more
                if isinstance(outcome, ForbiddenError):
                    charge.done.set_exception(outcome)
                else:
                    charge.done.set_result(outcome)
            return
        raise errors.conflict("resourcequotas", "", "the quotas of the namespace change all the time; try again")

    def _books(self, namespace: str, turn: _Turn) -> dict[str, _Book]:
        """Return the quotas as new as we know them."""
        values = {
            entry.key: (entry.mod_revision, entry.value)
            for entry in self._cache.list(_PREFIX, namespace=namespace).entries
        }
        for key, known in turn.known.items():
            if key in values and known[0] > values[key][0]:
                values[key] = known
        return {key: _Book(key, revision, value) for key, (revision, value) in values.items() if value}


def _fail(charges: list[_Charge], error: errors.StatusError) -> None:
    for charge in charges:
        if not charge.done.done():
            charge.done.set_exception(error)


class _Book:
    """One quota while charges are booked on it."""

    def __init__(self, key: str, revision: int, value: bytes) -> None:
        self.key = key
        self.revision = revision
        self.quota: core.ResourceQuota = storage.decode(value)  # type: ignore[assignment]
        self.hard = quota.read(self.quota.status.hard)
        self.used = quota.read(self.quota.status.used)
        self.changed = False

    def value(self) -> bytes:
        """Return the quota with what is used now."""
        quota.write(self.quota.status.used, self.used)
        return storage.encode(self.quota)

    def refusal(self, charge: _Charge) -> str:
        """Return why a charge goes beyond the bounds; empty when it does not."""
        name = self.quota.metadata.name
        if charge.group_resource == "pods":
            unstated = quota.unstated(charge.obj, self.hard)
            if unstated:
                return f"failed quota: {name}: must specify {unstated}"
        asked = {key: size for key, size in charge.delta.items() if key in self.hard}
        unknown = sorted(key for key in asked if key not in self.used)
        if unknown:
            return f"status unknown for quota: {name}, resources: {','.join(unknown)}"
        over = {key for key, size in asked.items() if self.hard[key] < self.used[key] + size}
        if not over:
            return ""
        requested, used, limited = (
            quota.shown({key: amounts[key] for key in over}) for amounts in (asked, self.used, self.hard)
        )
        return f"exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}"

    def add(self, charge: _Charge) -> bool:
        """Book a charge; whether anything of it is bounded here."""
        concerned = [key for key in charge.delta if key in self.hard]
        for key in concerned:
            self.used[key] = max(self.used.get(key, _ZERO) + charge.delta[key], _ZERO)
        if concerned and not charge.request.options.dry_run:
            self.changed = True
        return bool(concerned)


def _book(charge: _Charge, books: dict[str, _Book]) -> frozenset[str] | ForbiddenError:
    """Book a charge on all quotas that it concerns, or on none; returns their keys, or why not."""
    if charge.done.done():
        return frozenset()
    if charge.only:
        return frozenset(key for key in charge.only if key in books and books[key].add(charge))
    concerned = [book for book in books.values() if quota.in_scope(book.quota, charge.group_resource, charge.obj)]
    for book in concerned:
        why = book.refusal(charge)
        if why:
            name, kind = charge.obj.metadata.name, charge.request.kind
            text = f'{kind.group_resource} "{name}" is forbidden: {why}'
            return ForbiddenError(text, name=name, kind=kind.resource, group=kind.group)
    if charge.request.options.dry_run:
        return frozenset()
    return frozenset(book.key for book in concerned if book.add(charge))
