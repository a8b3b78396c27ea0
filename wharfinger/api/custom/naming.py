"""Which names a definition gets: those that no other definition of its group has.

The two conditions follow from that. ``NamesAccepted`` says whether all wanted names are its own; ``Established``
becomes true with the first full acceptance and stays so. Names that are taken keep their former value. Pure:
definitions in, status out. Source: the descriptions of CustomResourceDefinitionStatus in Kubernetes' API reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wharfinger.api import times
from wharfinger.api.types import apiextensions

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def judge(definition: Definition, others: Iterable[Definition]) -> Verdict:
    """Decide about the names of a definition; `others` are those of its group, with what they were given before."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        given = other.status.acceptedNames
        resources.update(filter(None, (given.plural, given.singular, *given.shortNames)))
        kinds.update(filter(None, (given.kind, given.listKind)))
    wanted, had = definition.spec.names, definition.status.acceptedNames
    names = Names()
    names.CopyFrom(had)
    reason, message = "NoConflicts", "no conflicts found"
    for field, taken, cause in (
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ):
        value = getattr(wanted, field)
        if value in taken and value != getattr(had, field):
            reason, message = cause, f'"{value}" is already in use'
        else:
            setattr(names, field, value)
    clashing = sorted(set(wanted.shortNames) & resources - set(had.shortNames))
    if clashing:
        reason, message = "ShortNamesConflict", ", ".join(f'"{name}" is already in use' for name in clashing)
    else:
        del names.shortNames[:]
        names.shortNames.extend(wanted.shortNames)
    del names.categories[:]
    names.categories.extend(wanted.categories)
    return Verdict(names, reason, message)


def settle(definition: Definition, others: Iterable[Definition]) -> None:
    """Write the verdict into a definition's status."""
    verdict = judge(definition, others)
    definition.status.acceptedNames.CopyFrom(verdict.names)
    set_condition(definition, ACCEPTED, "True" if verdict.accepted else "False", verdict.reason, verdict.message)
    if not is_true(definition, ESTABLISHED):
        if verdict.accepted:
            set_condition(
                definition, ESTABLISHED, "True", "InitialNamesAccepted", "the initial names have been accepted"
            )
        else:
            set_condition(definition, ESTABLISHED, "False", "NotAccepted", "not all names are accepted")
