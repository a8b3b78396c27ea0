"""A table of compiled functions by message type, filled at first use, also from several threads.

Types may contain themselves, so that a function must be known before it is finished. Nothing of a compilation is
published before all of it is done: another thread never meets half a function.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

F = TypeVar("F")


class Compiled(Generic[F]):
    """The functions of one codec; `build` makes one and may ask for those of other types by :meth:`of`.

    `build` gets the descriptor and a function to announce what others may hold on to before it returns.
    """

    def __init__(self, build: Callable[[Descriptor, Callable[[F], None]], F]) -> None:
        self._build = build
        self._ready: dict[str, F] = {}
        self._pending: dict[str, F] = {}
        self._depth = 0
        self._lock = threading.RLock()

    def of(self, descriptor: Descriptor) -> F:
        """Return the function of a type, compiled now if it was never asked for."""
        found = self._ready.get(descriptor.full_name)
        return found if found is not None else self._compile(descriptor)

    def _compile(self, descriptor: Descriptor) -> F:
        name = descriptor.full_name
        with self._lock:
            known = self._ready.get(name) or self._pending.get(name)
            if known is not None:
                return known
            self._depth += 1
            try:
                made = self._build(descriptor, lambda early: self._pending.__setitem__(name, early))
                self._pending[name] = made
                if self._depth == 1:
                    self._ready.update(self._pending)
                return made
            finally:
                self._depth -= 1
                if not self._depth:
                    self._pending.clear()
