"""What a command line names: ``pods``, ``po,no``, ``pod web``, ``pod/web node/n1``, ``deployments.v1.apps``, ``all``.

Kinds are looked up in the schema that wharf shares with the server, so no command has to ask for it first; only names
that it does not have are looked up among the custom kinds, which the server tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from wharfinger.api.kinds import KINDS, Kind
from wharfinger.cli import customkinds
from wharfinger.cli.failures import CommandError


@dataclass(frozen=True)
class Target:
    """A kind, and the names asked for (empty: all of the kind)."""

    kind: Kind
    names: tuple[str, ...] = ()


@cache
def listed_kinds() -> tuple[Kind, ...]:
    """Return the kinds that can be asked for, in the order in which names are looked up among them."""
    # The core group first, then as the schema has them: "events" are the core ones, "nodes" not those of metrics;
    # of several versions of a group, the newest.
    kinds = [kind for kind in KINDS if kind.resource and "get" in kind.verbs]
    return tuple(sorted(kinds, key=lambda kind: (kind.group != "", kind.group == "metrics.k8s.io", _age(kind))))


def _age(kind: Kind) -> int:
    return -int(kind.version[1]) if len(kind.version) == 2 and kind.version[1].isdigit() else 0


def find_kind(name: str) -> Kind:
    """Find a kind by plural, singular, short name or kind, with ``.group`` or ``.version.group`` if need be.

    Raises CommandError as kubectl says it.
    """
    word, _, rest = name.partition(".")
    lower = word.lower()
    for kinds in (listed_kinds, customkinds.known):  # the server is asked only for what the schema does not know
        for kind in kinds():
            if lower not in (kind.resource, kind.singular, kind.kind.lower()) and lower not in kind.short_names:
                continue
            if not rest or _in_group(kind, rest):
                return kind
    raise CommandError(f"the server doesn't have a resource type {_quote(name)}")


def _in_group(kind: Kind, rest: str) -> bool:
    version, _, group = rest.partition(".")
    return kind.group == rest or kind.group.startswith(f"{rest}.") or (kind.version == version and kind.group == group)


def _quote(text: str) -> str:
    return f'"{text}"'


def category(name: str) -> list[Kind]:
    """Return the kinds of a category such as ``all``; empty when there is none of that name."""
    seen: dict[tuple[str, str], Kind] = {}
    for kind in listed_kinds():
        if name in kind.categories:
            seen.setdefault((kind.group, kind.kind), kind)
    for kind in customkinds.known() if seen else ():
        if name in kind.categories:
            seen.setdefault((kind.group, kind.kind), kind)
    return list(seen.values())


def qualified(kind: Kind) -> str:
    """Return how messages name a kind: ``pod`` or ``deployment.apps``."""
    return f"{kind.singular}.{kind.group}" if kind.group else kind.singular


def parse_targets(arguments: Sequence[str], *, verb: str, names_needed: bool = False) -> list[Target]:
    """Read ``TYPE[,TYPE] [NAME…]`` or ``TYPE/NAME…``. Raises CommandError in kubectl's words."""
    if not arguments:
        raise CommandError(
            f"You must specify the type of resource to {verb}. "
            'Use "wharf api-resources" for a complete list of supported resources.'
        )
    if any("/" in argument for argument in arguments):
        targets = _slashed(arguments)
    else:
        kinds = _kinds(arguments[0])
        names = tuple(dict.fromkeys(arguments[1:]))
        targets = [Target(kind, names) for kind in kinds]
    if names_needed and not all(target.names for target in targets):
        raise CommandError("resource(s) were provided, but no name was specified")
    return targets


def _kinds(text: str) -> list[Kind]:
    kinds: dict[int, Kind] = {}
    for name in filter(None, text.split(",")):
        for kind in category(name) or [find_kind(name)]:
            kinds.setdefault(id(kind), kind)
    return list(kinds.values())


def _slashed(arguments: Sequence[str]) -> list[Target]:
    grouped: dict[int, tuple[Kind, list[str]]] = {}
    order: list[Target] = []
    for argument in arguments:
        resource, slash, name = argument.partition("/")
        if not slash:
            raise CommandError(
                "there is no need to specify a resource type as a separate argument when passing arguments in "
                "resource/name form (e.g. 'wharf get resource/<resource_name>' instead of "
                "'wharf get resource resource/<resource_name>'"
            )
        if not resource or not name or "/" in name:
            raise CommandError(f"arguments in resource/name form must have a single resource and name, not {argument}")
        kind = find_kind(resource)
        grouped.setdefault(id(kind), (kind, []))[1].append(name)
    for kind, names in grouped.values():
        order.append(Target(kind, tuple(dict.fromkeys(names))))
    return order
