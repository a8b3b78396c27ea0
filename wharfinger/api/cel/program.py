"""An expression compiled into nested Python functions, which run under a budget.

Each function takes the frame (variables and what is left of the budget) and returns a value. ``&&`` and ``||`` do not
care which side fails as long as the other decides, as the language wants it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wharfinger.api.cel import library
from wharfinger.api.cel.fields import get, unescaped
from wharfinger.api.cel.frame import BUDGET, BudgetError, Frame, Run, depth_weight, truth, weight
from wharfinger.api.cel.loops import LOOPS, chosen, mapped
from wharfinger.api.cel.operators import OPERATORS
from wharfinger.api.cel.syntax import Node, parse
from wharfinger.api.cel.values import NONE, CelError, Optional, TypeName, UInt, is_number, type_of, whole

_TYPES = {
    name: TypeName(name)
    for name in ("int", "uint", "double", "string", "bytes", "bool", "list", "map", "null_type", "type")
}
_OF_PAIRS = {
    "all": "all", "exists": "exists", "exists_one": "exists_one", "existsOne": "existsOne", "transformList": "map",
    "transformMap": "map",
}  # fmt: skip
"""Loops with two variables, and the loop over pairs that each is."""
_PAIR = " pair"
"""A variable that no expression can name."""


@dataclass(frozen=True)
class Program:
    """A compiled expression."""

    text: str
    names: frozenset[str]
    """The variables that it uses."""
    _run: Run = field(repr=False)

    def run(self, variables: dict[str, Any], *, budget: int = BUDGET) -> Any:
        """Evaluate it. Raises CelError."""
        return self.measure(variables, budget=budget)[0]

    def measure(self, variables: dict[str, Any], *, budget: int = BUDGET) -> tuple[Any, int]:
        """Evaluate it, and return what is left of the budget, too. Raises CelError."""
        frame = Frame(dict(variables), budget)
        try:
            return self._run(frame), frame.left
        except (RecursionError, OverflowError, ArithmeticError, ValueError, TypeError, KeyError, IndexError) as error:
            raise CelError(f"{type(error).__name__}: {error}") from error


def compile_expression(text: str, variables: frozenset[str]) -> Program:
    """Compile an expression over variables. Raises CelError for what is wrong with it as it stands."""
    try:
        tree = parse(text)
        compiler = _Compiler(variables)
        run = compiler.of(tree)
        return Program(text, frozenset(compiler.used), run)
    except RecursionError as error:
        raise CelError("the expression is nested too deeply") from error


class _Compiler:
    def __init__(self, variables: frozenset[str]) -> None:
        self._scope = [set(variables)]
        self._outer = variables
        self.used: set[str] = set()

    def of(self, node: Node) -> Run:
        make: Callable[[Node], Run] = getattr(self, f"_{node.kind}")
        return make(node)

    # --- leaves ----------------------------------------------------------------------------------------------------

    @staticmethod
    def _literal(node: Node) -> Run:
        value = node.value
        return lambda _: value

    def _name(self, node: Node) -> Run:
        name = node.value
        if any(name in scope for scope in self._scope):
            if name in self._outer:
                self.used.add(name)
            return lambda frame: frame.variables[name]
        if name in _TYPES:
            kind = _TYPES[name]
            return lambda _: kind
        raise CelError(f"undeclared reference to {name!r}")

    def _list(self, node: Node) -> Run:
        parts = [self.of(part) for part in node.parts]

        def run(frame: Frame) -> list[Any]:
            frame.spend(len(parts) + 1)
            return [part(frame) for part in parts]

        return run

    def _map(self, node: Node) -> Run:
        entries = [(self.of(key), self.of(value)) for key, value in node.parts]

        def run(frame: Frame) -> dict[Any, Any]:
            frame.spend(len(entries) + 1)
            return {key(frame): value(frame) for key, value in entries}

        return run

    # --- access ----------------------------------------------------------------------------------------------------

    def _select(self, node: Node) -> Run:
        qualified = _qualified(node)
        if qualified in _QUALIFIED and not any(qualified.split(".")[0] in scope for scope in self._scope):
            kind = TypeName(qualified)
            return lambda _: kind
        below, name, optional = self.of(node.parts[0]), node.value, node.optional

        def run(frame: Frame) -> Any:
            frame.spend()
            return get(below(frame), name, optional=optional, field=True)

        return run

    def _index(self, node: Node) -> Run:
        below, inner, optional = self.of(node.parts[0]), self.of(node.parts[1]), node.optional

        def run(frame: Frame) -> Any:
            frame.spend()
            return get(below(frame), inner(frame), optional=optional)

        return run

    # --- operators -------------------------------------------------------------------------------------------------

    def _unary(self, node: Node) -> Run:
        inner, sign = self.of(node.parts[0]), node.value

        def run(frame: Frame) -> Any:
            value = inner(frame)
            if sign == "!":
                if isinstance(value, bool):
                    return not value
            elif is_number(value) and not isinstance(value, UInt):
                return whole(-value) if isinstance(value, int) else -value
            raise CelError(f"no such overload: {sign}{type_of(value)}")

        return run

    def _choice(self, node: Node) -> Run:
        condition, yes, no = (self.of(part) for part in node.parts)

        def run(frame: Frame) -> Any:
            return yes(frame) if truth(condition(frame), "?:") else no(frame)

        return run

    def _binary(self, node: Node) -> Run:
        sign = node.value
        left, right = (self.of(part) for part in node.parts)
        if sign in ("&&", "||"):
            return _logical(left, right, decisive=sign == "||", sign=sign)
        operator, compares = OPERATORS[sign], sign in ("==", "!=", "in")

        def run(frame: Frame) -> Any:
            one, other = left(frame), right(frame)
            frame.spend(1 + weight((one, other)))
            if compares and isinstance(other, (list, dict)):
                frame.spend(depth_weight(other, frame.left))
            return operator(one, other)

        return run

    # --- calls -----------------------------------------------------------------------------------------------------

    def _call(self, node: Node) -> Run:
        name = node.value
        target, *arguments = node.parts
        if target is None and name == "has":
            return self._has(arguments)
        two = len(arguments) > 2 and all(part.kind == "name" for part in arguments[:2])
        if target is not None and name in _OF_PAIRS and two:
            return self._of_pairs(name, target, arguments)
        if target is not None and name in LOOPS and arguments and arguments[0].kind == "name":
            return self._comprehension(name, target, arguments)
        if target is not None and name in ("optMap", "optFlatMap") and len(arguments) == 2:
            return self._optional_map(name, target, arguments)
        space = _qualified(target) if target is not None else ""
        if space in library.NAMESPACES and not any(space in scope for scope in self._scope):
            name, target = f"{space}.{name}", None
        function = library.find(name, method=target is not None, count=len(arguments))
        parts = [self.of(part) for part in ([] if target is None else [target])] + [self.of(one) for one in arguments]

        work = library.WORK.get(name)

        def run(frame: Frame) -> Any:
            values = [part(frame) for part in parts]
            frame.spend(1 + weight(values))
            if work is not None:
                frame.spend(work(values, frame.left))
            return function(*values)

        return run

    def _has(self, arguments: list[Node]) -> Run:
        if len(arguments) != 1 or arguments[0].kind != "select":
            raise CelError("has() takes the selection of a field, such as has(self.name)")
        below, name = self.of(arguments[0].parts[0]), arguments[0].value

        def run(frame: Frame) -> bool:
            frame.spend()
            value = below(frame)
            if isinstance(value, Optional):
                value = value.held if value.present else {}
            if not isinstance(value, dict):
                raise CelError(f"no such overload: has() on {type_of(value)}")
            return name in value or unescaped(name) in value

        return run

    def _comprehension(self, name: str, target: Node, arguments: list[Node]) -> Run:
        variable = arguments[0].value
        if len(arguments) not in ((2, 3) if name == "map" else (2,)):
            raise CelError(f"{name}() takes a variable and an expression")
        over = self.of(target)
        self._scope.append({variable})
        inner = [self.of(part) for part in arguments[1:]]
        self._scope.pop()
        loop = LOOPS[name]

        def run(frame: Frame) -> Any:
            values = over(frame)
            if not isinstance(values, (list, dict)):
                raise CelError(f"no such overload: {name}() over {type_of(values)}")
            hidden = frame.variables.get(variable, frame)
            try:
                return loop(frame, variable, list(values), inner)
            finally:
                if hidden is frame:
                    frame.variables.pop(variable, None)
                else:
                    frame.variables[variable] = hidden

        return run

    def _of_pairs(self, name: str, target: Node, arguments: list[Node]) -> Run:
        """Compile a loop with two variables: index and element of a list, key and value of a map."""
        key, value = arguments[0].value, arguments[1].value
        if len(arguments) != 3 and not (name.startswith("transform") and len(arguments) == 4):
            raise CelError(f"{name}() takes two variables and an expression")
        over = self.of(target)
        self._scope.append({key, value})
        parts = [self.of(part) for part in arguments[2:]]
        self._scope.pop()

        def bound(part: Run) -> Run:
            def run(frame: Frame) -> Any:
                frame.variables[key], frame.variables[value] = frame.variables[_PAIR]
                return part(frame)

            return run

        inner = [bound(part) for part in parts]
        loop = LOOPS[_OF_PAIRS[name]]

        def run(frame: Frame) -> Any:
            values = over(frame)
            if not isinstance(values, (list, dict)):
                raise CelError(f"no such overload: {name}() over {type_of(values)}")
            pairs: list[Any] = list(values.items() if isinstance(values, dict) else enumerate(values))
            inside = Frame(dict(frame.variables), frame.left)
            try:
                if name != "transformMap":
                    return loop(inside, _PAIR, pairs, inner)
                kept = pairs if len(inner) == 1 else chosen(inside, _PAIR, pairs, inner[:1])
                made = mapped(inside, _PAIR, kept, inner[-1:])
                return {pair[0]: item for pair, item in zip(kept, made, strict=True)}
            finally:
                frame.left = inside.left

        return run

    def _optional_map(self, name: str, target: Node, arguments: list[Node]) -> Run:
        variable = arguments[0].value
        over = self.of(target)
        self._scope.append({variable})
        inner = self.of(arguments[1])
        self._scope.pop()

        def run(frame: Frame) -> Any:
            value = over(frame)
            if not isinstance(value, Optional):
                raise CelError(f"no such overload: {name}() on {type_of(value)}")
            if not value.present:
                return NONE
            inside = Frame({**frame.variables, variable: value.held}, frame.left)
            try:
                result = inner(inside)
            finally:
                frame.left = inside.left
            return result if name == "optFlatMap" else Optional(result)

        return run


_QUALIFIED = frozenset({"google.protobuf.Timestamp", "google.protobuf.Duration", "net.IP", "net.CIDR"})


def _qualified(node: Node) -> str:
    if node.kind == "name":
        return str(node.value)
    if node.kind == "select" and not node.optional:
        return f"{_qualified(node.parts[0])}.{node.value}"
    return ""


def _logical(left: Run, right: Run, *, decisive: bool, sign: str) -> Run:
    def run(frame: Frame) -> bool:
        try:
            if truth(left(frame), sign) is decisive:
                return decisive
        except BudgetError:
            raise
        except CelError:
            if truth(right(frame), sign) is decisive:
                return decisive
            raise
        return truth(right(frame), sign)

    return run
