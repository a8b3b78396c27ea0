"""What was applied joined with what is there, and fields taken out that their last owner gave up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wharfinger.api.ownership import fields

if TYPE_CHECKING:
    from collections.abc import Collection

    from wharfinger.api.ownership.fields import Path, Type


def merge(live: Any, config: Any, at: Type) -> Any:
    """Return `live` with everything that `config` sets; neither is changed.

    Raises StatusError for what the schema does not know or what stands twice in a list with keys.
    """
    at = at.resolved(live, config)
    if config is None or live is None or at.kind == "scalar":
        return config
    if at.kind in ("list", "set"):
        wanted = fields.keyed(config, at)
        merged = []
        for element in live:
            key = at.key_of(element)
            if key in wanted:
                mine = wanted.pop(key)
                merged.append(merge(element, mine, at.element) if at.kind == "list" else mine)
            else:
                merged.append(element)
        return [*merged, *wanted.values()]
    result = dict(live)
    for name, value in config.items():
        result[name] = merge(live.get(name), value, at.child(name))
    return result


def remove(value: Any, paths: Collection[Path], at: Type) -> Any:
    """Return a value without the fields that `paths` names; containers that this empties go, too."""
    tree: dict[str, Any] = {}
    for path in paths:
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    return _remove(value, tree, at)


def _remove(value: Any, tree: dict[str, Any], at: Type) -> Any:
    """Return what is left of a value; None when nothing is."""
    at = at.resolved(value)
    if at.kind == "scalar" or value is None:
        return value
    if at.kind in ("list", "set"):
        left = []
        for element in value:
            below = tree.get(at.key_of(element))
            if below is None:
                left.append(element)
            elif "." not in below:
                left.append(_remove(element, below, at.element))
        return left or None
    result = {}
    for name, child in value.items():
        below = tree.get(f"f:{name}")
        if below is None:
            result[name] = child
        elif "." not in below:
            rest = _remove(child, below, at.child(name))
            if rest is not None:
                result[name] = rest
    return result or None
