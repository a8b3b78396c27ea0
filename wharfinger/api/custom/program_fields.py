"""Whether a rule names fields that its schema does not have.

CEL in Kubernetes is typed: a selection of an unknown field is refused when the definition is stored. Rules here are
typed when they run; this walk finds the mistakes that matter most, misspelt fields, wherever the way from ``self`` to a
field is plain: selections, indexes, and the variables of loops over lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wharfinger.api.cel.fields import unescaped

if TYPE_CHECKING:
    from wharfinger.api.cel.syntax import Node
    from wharfinger.api.custom.schema import Schema

_LOOPS = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter", "transformList", "transformMap"})
_OWN = frozenset({"apiVersion", "kind", "metadata"})


def undeclared(tree: Node, schema: Schema) -> str:
    """Return what is wrong; empty when nothing is found."""
    walk = _Walk(schema)
    walk.look(tree, {"self": schema, "oldSelf": schema})
    return walk.wrong


class _Walk:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self.wrong = ""

    def look(self, node: Node, known: dict[str, Schema | None]) -> Schema | None:
        """Return the schema of a node's value if it is plain."""
        if node.kind == "name":
            return known.get(node.value)
        if node.kind == "select":
            return self._select(node, known)
        if node.kind == "index":
            below = self.look(node.parts[0], known)
            self.look(node.parts[1], known)
            return None if below is None else below.items or below.additional_schema
        if node.kind == "call":
            return self._call(node, known)
        if node.kind == "map":
            for key, value in node.parts:
                self.look(key, known)
                self.look(value, known)
            return None
        for part in node.parts:
            self.look(part, known)
        return None

    def _select(self, node: Node, known: dict[str, Schema | None]) -> Schema | None:
        below = self.look(node.parts[0], known)
        if below is None or node.optional:
            return None
        name = unescaped(node.value)
        child = below.child(name)
        if child is not None:
            return child
        open_ended = below.preserve or below.additional is not None or below.type != "object"
        own = name in _OWN and (below is self._root or below.embedded)
        if not (open_ended or own or self.wrong):
            self.wrong = f"undefined field {node.value!r}"
        return None

    def _call(self, node: Node, known: dict[str, Schema | None]) -> Schema | None:
        target, *arguments = node.parts
        below = self.look(target, known) if target is not None else None
        inner = known
        if node.value in _LOOPS and arguments and arguments[0].kind == "name":
            # Over a map the variable is a key, over a list an element.
            inner = {**known, arguments[0].value: below.items if below is not None else None}
            arguments = arguments[1:]
            if len(arguments) > 1 and arguments[0].kind == "name" and node.value != "map":  # index or key, and element
                element = below.items or below.additional_schema if below is not None else None
                inner = {**known, node.parts[1].value: None, arguments[0].value: element}
                arguments = arguments[1:]
        elif node.value in ("optMap", "optFlatMap") and arguments:
            inner = {**known, arguments[0].value: None}
            arguments = arguments[1:]
        for argument in arguments:
            self.look(argument, inner)
        return below if node.value == "filter" else None
