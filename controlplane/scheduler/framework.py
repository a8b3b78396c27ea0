"""The contract between the engine and its plugins.

A plugin is one file: a class with a name, that *prepares* itself for a kind of pod. What it prepares answers for
**all nodes at once**, or for a few rows of the node table:

* a :class:`Filter` gives an integer a node: 0 lets the pod pass, anything else is a code of the plugin's own, which it
  can turn into a :class:`Refusal` (plugin, code, reasons) and, with the numbers of a node, into a sentence. So a
  verdict costs one byte-sized number a node until somebody asks for it, and 5,000 nodes are one numpy expression.
* a :class:`Score` gives a raw integer a node, and how raw scores become 0 to 100 over the nodes that passed.

Both say with :attr:`Filter.reads` what of a node they look at. A placement only touches :attr:`Aspect.USAGE`, so all
other verdicts of a kind of pod stay as they are, and only one row of the rest is computed again. Preparing returns
None when the plugin has nothing to say about a pod; it then costs nothing at all. The names (filter, score, normalise,
unschedulable and unresolvable) are those of kube-scheduler's framework.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from controlplane.scheduler.nodetable import NodeTable
    from controlplane.scheduler.podinfo import PodClass, PodInfo
    from wharfinger.api.types import core

Rows = slice | NDArray[np.intp]
"""Rows of the node table: all, one, or those of an index array."""
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MAX_SCORE = 100
"""The best normalised score of a plugin."""


class Aspect:
    """What of a node a verdict depends on, and what an event has changed: bits of an int (enum flags are slow)."""

    USAGE: Final = 1
    """Sums and ports of the pods placed there."""
    ALLOCATABLE: Final = 2
    LABELS: Final = 4
    TAINTS: Final = 8
    """Taints and ``spec.unschedulable``."""
    IMAGES: Final = 16
    EXISTENCE: Final = 32
    """The node came or went: always computed again."""
    PEERS: Final = 64
    """Which pods are where."""


class Code(Enum):
    """How final a refusal is."""

    UNSCHEDULABLE = "Unschedulable"
    """Removing pods from the node might help."""
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """It would not."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a plugin refuses a node, or a pod as a whole."""

    plugin: str
    code: Code
    reasons: tuple[str, ...]
    """As counted in events: ``Insufficient cpu``."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change that would make one plugin let the pod pass on one node."""

    text: str
    """In the imperative: ``uncordon node-1``."""
    cost: float
    """The smaller, the easier: 1 is a setting of the pod or node, more with the amount to be freed."""
    of_pod: bool = False
    """Whether the pod would change, not the node."""


class Filter(ABC):
    """A filter prepared for one kind of pod."""

    plugin: str
    reads: int
    only: frozenset[str] | None = None
    """If not None: names of the only nodes that can pass, known beforehand."""
    sums_only: bool = False
    """Whether, of the pods on a node, only the sums of what they take count."""
    stamped: bool = False
    """Whether a change of one node may change the verdict of others; then only :meth:`stamp` says what is new."""

    def stamp(self) -> int:
        """Return a number that changes when the codes of *any* rows may have; for filters that are `stamped`."""
        return 0

    @abstractmethod
    def codes(self, rows: Rows) -> NDArray[np.int32]:
        """Return a code for each of the rows: 0 passes."""

    @abstractmethod
    def refusal(self, code: int) -> Refusal:
        """Say what a code other than 0 means."""

    def facts(self) -> Any:
        """Return a copy of the numbers that :meth:`detail` needs, so that it can speak of this moment later."""
        return None

    def detail(self, row: int, code: int, facts: Any) -> str:
        """Say in a few words, with numbers, why the node of this row is refused; `facts` as returned at that time."""
        return ", ".join(self.refusal(code).reasons)

    def changes(self, row: int, code: int, facts: Any) -> list[Change] | None:
        """Return what would have to change for the node to pass; None if nothing sensible would."""
        return None


class Score(ABC):
    """A score prepared for one kind of pod."""

    plugin: str
    reads: int

    focused: bool = False
    """Whether raw scores depend on which nodes are feasible; then :meth:`focus` is called before any other method."""

    def focus(self, feasible: Bools) -> None:
        """Take note of which nodes are feasible."""
        return

    def stamp(self) -> int:
        """Return a number that changes when the scores of *all* rows may have, for scores that compare nodes."""
        return 0

    @abstractmethod
    def raw(self, rows: Rows) -> Ints:
        """Return the raw score of each row."""

    def published(self, raw: Ints) -> Ints:
        """Return raw scores as people see them, without marks of the score's own."""
        return raw

    def bounds(self, raw: Ints) -> Hashable:
        """Return what normalising needs to know of the raw scores of the feasible nodes; None: raw is 0 to 100."""
        return None

    def scale(self, raw: Ints, bounds: Any) -> Ints:
        """Normalise to 0 to 100, given :meth:`bounds`."""
        return raw


class ScaledToMaximum(Score):
    """A score whose best node gets 100 and the others their share of it, as kube-scheduler does by default."""

    reverse: ClassVar[bool] = False
    """Whether the highest raw score is the worst."""

    def bounds(self, raw: Ints) -> int:
        """Return the highest raw score."""
        return int(raw.max(initial=0))

    def scale(self, raw: Ints, bounds: Any) -> Ints:
        """Return each score as its share of the highest."""
        if bounds == 0:
            return np.full_like(raw, MAX_SCORE) if self.reverse else raw
        scaled: Ints = raw * MAX_SCORE // int(bounds)
        return MAX_SCORE - scaled if self.reverse else scaled


class Plugin:
    """What every plugin has; it takes part where it overrides a method."""

    name: ClassVar[str]

    takes: ClassVar[tuple[str, ...]] = ()
    """Names of the arguments that a profile may give it."""

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        self._arguments = dict(arguments or {})
        unknown = sorted(set(self._arguments) - {"apiVersion", "kind", *self.takes})
        if unknown:
            known = f"only {', '.join(self.takes)}" if self.takes else "no arguments"
            raise ValueError(f"{self.name} takes {known}, got {', '.join(unknown)}")

    def argument(self, name: str, default: Any) -> Any:
        """Return an argument; the default when it is missing or null."""
        value = self._arguments.get(name)
        return default if value is None else value

    def class_key(self, pod: core.Pod) -> Hashable:
        """Return what, beyond the usual fields, makes pods differ for this plugin."""
        return None

    def basis(self, pod: PodClass, table: NodeTable) -> Hashable:
        """Return what, beyond the nodes, a preparation rests on; when it has changed, all is prepared again.

        Asked when other pods with terms, workloads or namespaces have come (``table.basis`` has moved).
        """
        return None


class QueueSortPlugin(Plugin, ABC):
    """Orders the queue."""

    @abstractmethod
    def sort_key(self, pod: PodInfo) -> tuple[Any, ...]:
        """Return a key: the pod with the smallest is taken first."""


class PreEnqueuePlugin(Plugin, ABC):
    """Decides whether a pod may enter the queue at all."""

    @abstractmethod
    def gate(self, pod: PodInfo) -> Refusal | None:
        """Return why the pod must wait outside of the queue, or None."""


class FilterPlugin(Plugin, ABC):
    """Says which nodes can take a pod."""

    @abstractmethod
    def prepare_filter(self, pod: PodClass, table: NodeTable) -> Filter | Refusal | None:
        """Prepare for a kind of pod; a Refusal refuses it on every node, None has nothing against any node."""


class PostFilterPlugin(Plugin, ABC):
    """Says how far to look for pods that could make room."""

    @abstractmethod
    def candidates(self, nodes: int) -> int:
        """Return after how many candidates the search among some nodes may end."""


class ScorePlugin(Plugin, ABC):
    """Says how good a node is for a pod."""

    @abstractmethod
    def prepare_score(self, pod: PodClass, table: NodeTable) -> Score | None:
        """Prepare for a kind of pod; None adds nothing to any node."""
