"""Which names a definition gets: those that no other definition of its group has.

The two conditions follow from that. ``NamesAccepted`` says whether all wanted names are its own; ``Established``
becomes true with the first full acceptance and stays so. Names that are taken keep their former value. Pure:
definitions in, status out. Source: the descriptions of CustomResourceDefinitionStatus in Kubernetes' API reference.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wharfinger.api import times
from wharfinger.api.types import apiextensions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""On a definition that is being deleted while its objects are."""
ACCEPTED, ESTABLISHED, TERMINATING = "NamesAccepted", "Established", "Terminating"
Definition = apiextensions.CustomResourceDefinition
Names = apiextensions.CustomResourceDefinitionNames


@dataclass(frozen=True)
class Verdict:
    """What a definition gets."""

    names: Names
    """The accepted names."""
    reason: str
    """``NoConflicts``, or which name is taken."""
    message: str

    @property
    def accepted(self) -> bool:
        """Whether all names are as wanted."""
        return self.reason == "NoConflicts"


def condition(definition: Definition, kind: str) -> apiextensions.CustomResourceDefinitionCondition | None:
    """Return a condition by type; None when it is not there."""
    return next((item for item in definition.status.conditions if item.type == kind), None)


def is_true(definition: Definition, kind: str) -> bool:
    """Whether a condition holds."""
    found = condition(definition, kind)
    return found is not None and found.status == "True"


def set_condition(definition: Definition, kind: str, status: str, reason: str, message: str) -> None:
    """Set a condition; its time changes with its status alone."""
    found = condition(definition, kind)
    if found is None:
        found = definition.status.conditions.add(type=kind)
    if found.status != status:
        found.lastTransitionTime.CopyFrom(times.now())
    found.status, found.reason, found.message = status, reason, message


class Taken:
    """The names that definitions of a group have been given."""

    def __init__(self, definitions: Iterable[Definition] = ()) -> None:
        self.resources: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        for definition in definitions:
            self.add(definition.status.acceptedNames)

    def add(self, names: Names) -> None:
        """Take note of names."""
        self.resources.update(filter(None, (names.plural, names.singular, *names.shortNames)))
        self.kinds.update(filter(None, (names.kind, names.listKind)))

    def remove(self, names: Names) -> None:
        """Forget names: those of the definition that is judged are no obstacle to it."""
        self.resources.subtract(filter(None, (names.plural, names.singular, *names.shortNames)))
        self.kinds.subtract(filter(None, (names.kind, names.listKind)))


def judge(definition: Definition, taken: Taken) -> Verdict:
    """Decide about the names of a definition; `taken` are those of the others of its group."""
    resources, kinds = taken.resources, taken.kinds
    wanted, had = definition.spec.names, definition.status.acceptedNames
    names = Names()
    names.CopyFrom(had)
    reason, message = "NoConflicts", "no conflicts found"
    for field, others, cause in (
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ):
        value = getattr(wanted, field)
        if others[value] > 0 and value != getattr(had, field):
            reason, message = cause, f'"{value}" is already in use'
        else:
            setattr(names, field, value)
    clashing = sorted(name for name in wanted.shortNames if resources[name] > 0 and name not in had.shortNames)
    if clashing:
        reason, message = "ShortNamesConflict", ", ".join(f'"{name}" is already in use' for name in clashing)
    else:
        del names.shortNames[:]
        names.shortNames.extend(wanted.shortNames)
    del names.categories[:]
    names.categories.extend(wanted.categories)
    return Verdict(names, reason, message)


def settle_group(definitions: Sequence[Definition]) -> list[Definition]:
    """Return what the status of each definition of a group should be, in copies that hold little else.

    Those that have names already keep them; of the others the first in order comes first.
    """
    taken = Taken(definitions)
    settled = []
    for definition in definitions:
        copy = Definition()
        copy.metadata.name = definition.metadata.name
        copy.spec.names.CopyFrom(definition.spec.names)
        copy.status.CopyFrom(definition.status)
        taken.remove(copy.status.acceptedNames)
        settle(copy, taken)
        taken.add(copy.status.acceptedNames)
        settled.append(copy)
    return settled


def settle(definition: Definition, taken: Taken) -> None:
    """Write the verdict into a definition's status."""
    verdict = judge(definition, taken)
    definition.status.acceptedNames.CopyFrom(verdict.names)
    set_condition(definition, ACCEPTED, "True" if verdict.accepted else "False", verdict.reason, verdict.message)
    if not is_true(definition, ESTABLISHED):
        if verdict.accepted:
            set_condition(
                definition, ESTABLISHED, "True", "InitialNamesAccepted", "the initial names have been accepted"
            )
        else:
            set_condition(definition, ESTABLISHED, "False", "NotAccepted", "not all names are accepted")
