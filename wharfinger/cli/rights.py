"""What roles allow, as tables show it: a resource or path a line, with all verbs that some rule allows there."""

from __future__ import annotations

from collections.abc import Sequence

HEADER = ("Resources", "Non-Resource URLs", "Resource Names", "Verbs")
Rows = dict[tuple[str, str, str], list[str]]
"""Resource, path and names -> verbs."""


def add_verbs(rows: Rows, key: tuple[str, str, str], verbs: Sequence[str]) -> None:
    """Add those verbs to a line that it does not have yet."""
    known = rows.setdefault(key, [])
    known += [verb for verb in verbs if verb not in known]


def qualified(resource: str, group: str) -> str:
    """Return a rule's resource with its group: ``deployments.apps/scale``."""
    plural, slash, subresource = resource.partition("/")
    return f"{plural}.{group}{slash}{subresource}" if group else resource
