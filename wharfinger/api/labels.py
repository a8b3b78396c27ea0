"""Label selectors: the notation of ``-l`` and ``labelSelector=``, LabelSelector messages and node selector terms.

All three become a :class:`Selector`: a conjunction of requirements that is parsed once and matched many times.
Grammar and meaning follow Kubernetes' page "Labels and Selectors"; a requirement with ``notin`` or ``!=`` also holds
for objects that lack the label.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from wharfinger.api.errors import BadRequestError, FieldError
from wharfinger.api.types import core, meta

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]

MAX_SELECTOR_BYTES = 64 * 1024
"""Longer selectors are refused; no client writes such."""

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+|$)")
_OPERATORS: dict[str, Operator] = {
    "=": "In", "==": "In", "in": "In", "!=": "NotIn", "notin": "NotIn", ">": "Gt", "<": "Lt",
}  # fmt: skip


@lru_cache(maxsize=16384)
def key_problem(key: str) -> str:
    """Return what is wrong with a label key (a qualified name); empty when nothing is."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not _PREFIX.fullmatch(prefix)):
        return "the part before the slash must be a DNS subdomain in lower case of at most 253 characters"
    if not name or len(name) > 63:
        return "the name must have 1 to 63 characters"
    if not _NAME.fullmatch(name):
        return "the name must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit"
    return ""


@lru_cache(maxsize=16384)
def value_problem(value: str) -> str:
    """Return what is wrong with a label value; empty when nothing is."""
    if len(value) > 63:
        return "a label value must have at most 63 characters"
    if value and not _NAME.fullmatch(value):
        return (
            "a label value must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit"
        )
    return ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet the condition."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        if value is None or not _INTEGER.fullmatch(value):
            return False
        (bound,) = self.values
        return int(value) > int(bound) if self.operator == "Gt" else int(value) < int(bound)

    def __str__(self) -> str:
        match self.operator:
            case "In" if len(self.values) == 1:
                return f"{self.key}={next(iter(self.values))}"
            case "NotIn" if len(self.values) == 1:
                return f"{self.key}!={next(iter(self.values))}"
            case "In" | "NotIn":
                return f"{self.key} {self.operator.lower()} ({','.join(sorted(self.values))})"
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case _:
                return f"{self.key}{'>' if self.operator == 'Gt' else '<'}{next(iter(self.values))}"


@dataclass(frozen=True, slots=True)
class Selector:
    """A conjunction of requirements; without any it selects everything."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = field(default=False)
    """Selects nothing whatever the requirements (an absent LabelSelector)."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        if self.nothing:
            return False
        for requirement in self.requirements:  # noqa: SIM110  (a generator costs more than the match)
            if not requirement.matches(labels):
                return False
        return True

    @property
    def everything(self) -> bool:
        """Whether each object is selected."""
        return not self.requirements and not self.nothing

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


@lru_cache(maxsize=4096)
def parse(text: str) -> Selector:
    """Read a selector such as ``app=web,tier in (a, b),!legacy``. Raises BadRequestError that says where it breaks."""
    if len(text) > MAX_SELECTOR_BYTES:
        raise BadRequestError(f"the label selector has {len(text)} characters; at most {MAX_SELECTOR_BYTES} are read")
    return Selector(tuple(sorted(_Parser(text).requirements(), key=lambda requirement: requirement.key)))


class _Parser:
    """A lexer with one token of look-ahead and a method a rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [match[1] for match in _TOKEN.finditer(text)]
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _fail(self, found: str, wanted: str) -> BadRequestError:
        shown = f'"{found}"' if found else "the end"
        text = self._text if len(self._text) <= 200 else self._text[:197] + "..."
        return BadRequestError(f'cannot read the label selector "{text}": {shown} stands where {wanted} is wanted')

    def requirements(self) -> Iterator[Requirement]:
        if not self._peek():
            return
        while True:
            yield self._requirement()
            token = self._next()
            if not token:
                return
            if token != ",":
                raise self._fail(token, "a comma or the end")
            if not _is_word(self._peek()) and self._peek() != "!":
                raise self._fail(self._peek(), "a label key")

    def _requirement(self) -> Requirement:
        negated = self._peek() == "!"
        if negated:
            self._next()
        key = self._next()
        if not _is_word(key):
            raise self._fail(key, "a label key")
        if problem := key_problem(key):
            raise self._bad(key, "key", problem)
        if negated:
            return Requirement(key, "DoesNotExist")
        if self._peek() in ("", ","):
            return Requirement(key, "Exists")
        token = self._next()
        operator = _OPERATORS.get(token)
        if operator is None:
            raise self._fail(token, "one of = == != in notin > <")
        values = self._values() if token in ("in", "notin") else {self._value()}
        for value in values:
            if operator in ("Gt", "Lt"):
                if not _INTEGER.fullmatch(value):
                    raise self._bad(value, "value", "> and < compare whole numbers")
            elif problem := value_problem(value):
                raise self._bad(value, "value", problem)
        return Requirement(key, operator, frozenset(values))

    def _bad(self, part: str, what: str, problem: str) -> BadRequestError:
        shown = part if len(part) <= 80 else part[:77] + "..."
        return BadRequestError(f'cannot read the label selector: "{shown}" is no label {what}: {problem}')

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        token = self._next()
        if not _is_word(token):
            raise self._fail(token, "a value")
        return token

    def _values(self) -> set[str]:
        token = self._next()
        if token != "(":
            raise self._fail(token, '"("')
        values: set[str] = set()
        previous = "("
        while True:
            token = self._next()
            if token in (",", ")"):
                if not _is_word(previous):
                    values.add("")
                if token == ")":
                    return values
            elif not _is_word(token) or _is_word(previous):
                raise self._fail(token, '"," or ")"')
            else:
                values.add(token)
            previous = token


def _is_word(token: str) -> bool:
    return bool(token) and token not in ("==", "!=") and token not in "=!(),<>"


# --- messages ---------------------------------------------------------------------------------------------------------


def selector_errors(selector: meta.LabelSelector, path: str) -> list[FieldError]:
    """Return what is wrong with a LabelSelector at `path`, by Kubernetes' validation rules."""
    found = []
    for key, value in selector.matchLabels.items():
        if problem := key_problem(key):
            found.append(FieldError.invalid(f"{path}.matchLabels", key, problem))
        if problem := value_problem(value):
            found.append(FieldError.invalid(f"{path}.matchLabels", value, problem))
    for index, expression in enumerate(selector.matchExpressions):
        here = f"{path}.matchExpressions[{index}]"
        match expression.operator:
            case "In" | "NotIn":
                if not expression.values:
                    found.append(FieldError.required(f"{here}.values", "must be given for operator In and NotIn"))
            case "Exists" | "DoesNotExist":
                if expression.values:
                    found.append(
                        FieldError.forbidden(f"{here}.values", "may not be given for operator Exists and DoesNotExist")
                    )
            case other:
                found.append(FieldError.invalid(f"{here}.operator", other, "not a valid selector operator"))
        if problem := key_problem(expression.key):
            found.append(FieldError.invalid(f"{here}.key", expression.key, problem))
        found += [
            FieldError.invalid(f"{here}.values[{at}]", value, problem)
            for at, value in enumerate(expression.values)
            if (problem := value_problem(value))
        ]
    return found


def from_label_selector(selector: meta.LabelSelector | None) -> Selector:
    """Return what a LabelSelector selects: None nothing, an empty one everything.

    Raises ValueError naming the field when it is malformed.
    """
    if selector is None:
        return NOTHING
    if errors := selector_errors(selector, "selector"):
        raise ValueError("; ".join(f"{error.field}: {error.message}" for error in errors))
    return Selector(
        (
            *(Requirement(key, "In", frozenset((value,))) for key, value in sorted(selector.matchLabels.items())),
            *(_of_expression(item.key, item.operator, item.values) for item in selector.matchExpressions),
        )
    )


def from_map(labels: Mapping[str, str]) -> Selector:
    """Return the selector of a plain map, such as a Service's or a ReplicationController's."""
    return Selector(tuple(Requirement(key, "In", frozenset((value,))) for key, value in sorted(labels.items())))


def from_node_expressions(expressions: Iterable[core.NodeSelectorRequirement]) -> Selector:
    """Return what the expressions of one node selector term select. Raises ValueError when one is malformed."""
    return Selector(tuple(_of_expression(item.key, item.operator, item.values) for item in expressions))


def _of_expression(key: str, operator: str, values: Sequence[str]) -> Requirement:
    match operator:
        case "In" | "NotIn":
            if not values:
                raise ValueError(f'"{key}": operator {operator} needs at least one value')
        case "Exists" | "DoesNotExist":
            if values:
                raise ValueError(f'"{key}": operator {operator} takes no values')
        case "Gt" | "Lt":
            if len(values) != 1 or not _INTEGER.fullmatch(values[0]):
                raise ValueError(f'"{key}": operator {operator} needs exactly one whole number')
        case _:
            raise ValueError(f'"{key}": "{operator}" is none of In, NotIn, Exists, DoesNotExist, Gt, Lt')
    return Requirement(key, operator, frozenset(values))


def node_selector_matches(selector: core.NodeSelector, labels: Mapping[str, str], name: str) -> bool:
    """Whether any term of a node selector holds for a node; a term without expressions holds for none.

    Raises ValueError when an expression is malformed.
    """
    for term in selector.nodeSelectorTerms:
        if not term.matchExpressions and not term.matchFields:
            continue
        if from_node_expressions(term.matchExpressions).matches(labels) and from_node_expressions(
            term.matchFields
        ).matches({"metadata.name": name}):
            return True
    return False
