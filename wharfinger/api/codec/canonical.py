"""The very bytes that Kubernetes stores for an object.

Kubernetes' encoder writes every field that is not a pointer, list or map, zero or not, and map keys in order. Our
messages have explicit presence and may leave such fields unset. So a *template* of each type, with everything present
that Kubernetes always writes, is parsed first and the object's own bytes over it (protobuf merges): presence of the
whole skeleton at the price of one parse. What hangs below pointers, lists and maps is then visited by a generated
function a type, which leaves out every branch that has nothing to fill in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

import orjson

from wharfinger.api import quantity, times
from wharfinger.api.codec import schema
from wharfinger.api.codec.schema import FieldInfo, info_of
from wharfinger.api.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

_ZERO: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "uint32": 0, "uint64": 0, "double": 0.0}
_ALTERNATIVES = (schema.SCHEMA_OR_ARRAY, schema.SCHEMA_OR_BOOL, schema.SCHEMA_OR_STRING_ARRAY)
"""Forms of messages that hold one thing or another, told apart by presence."""
_MANY = 4
"""From so many fields on, one call that handles them together is cheaper than one a field."""
_WIDE = 9
"""Types with so many fields (containers, volumes) are completed once for equal contents."""
_REMEMBERED = 2048
_REMEMBERED_BYTES = 8192


def _fill_time(message: Any) -> None:
    if message.HasField("seconds"):
        if message.seconds == times.ZERO_SECONDS:
            message.Clear()
        elif message.nanos or not message.HasField("nanos"):
            message.nanos = 0
    elif message.HasField("nanos"):
        message.Clear()


def _fill_micro_time(message: Any) -> None:
    if message.HasField("seconds"):
        if message.seconds == times.ZERO_SECONDS:
            message.Clear()
        else:
            message.nanos = message.nanos // 1000 * 1000
    elif message.HasField("nanos"):
        message.Clear()


def _fill_quantity(message: Any) -> None:
    text = message.string
    try:
        canonical = quantity.canonical(text)
    except ValueError:
        return  # kept as it came: whoever validates names the field
    if canonical != text:
        message.string = canonical


@lru_cache(maxsize=4096)
def _json_problem(raw: bytes) -> str:
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return str(error)
    return ""


def _check_raw(message: Any) -> None:
    raw = message.raw
    if raw and (problem := _json_problem(raw)):
        raise BadRequestError(f"an embedded {message.DESCRIPTOR.name} must hold JSON: {problem}")


_SPECIAL: dict[int, Callable[[Any], None]] = {
    schema.RAW_JSON: _check_raw,
    schema.TIME: _fill_time,
    schema.MICRO_TIME: _fill_micro_time,
    schema.QUANTITY: _fill_quantity,
}


@dataclass(frozen=True)
class _Plan:
    """How messages of one type are completed."""

    template: bytes
    """What Kubernetes writes for an empty message of the type."""
    fill: Callable[[Any], None]
    """Completes a message in place."""
    below: Callable[[Any], None]
    """Completes only what the template does not reach."""


_PLANS: dict[str, _Plan] = {}


def _plan(descriptor: Descriptor) -> _Plan:
    return _PLANS.get(descriptor.full_name) or _Compiler().plan(descriptor)


class _Compiler:
    """Compiles a type with all types below it; types that contain themselves are why it needs a state."""

    def __init__(self) -> None:
        self._open: set[str] = set()

    def plan(self, descriptor: Descriptor) -> _Plan:
        name = descriptor.full_name
        if found := _PLANS.get(name):
            return found
        special = _SPECIAL.get(schema.form_of(descriptor))
        if special is not None:
            plan = _Plan(b"", special, special)
        else:
            self._open.add(name)
            template = self._template(descriptor).SerializeToString()
            below = self._below(descriptor)
            plan = _Plan(template, self._fill(descriptor, template, below), below)
            self._open.discard(name)
        _PLANS[name] = plan
        return plan

    def _template(self, descriptor: Descriptor) -> Message:
        message = schema.class_of(descriptor)()
        for field in info_of(descriptor).fields:
            if _optional(field):
                continue
            if field.message is None:
                if field.scalar != "bytes" and not self._wrapped(descriptor):
                    setattr(message, field.name, _ZERO[field.scalar])
                continue
            if self._wrapped(descriptor):
                continue
            nested = getattr(message, field.name)
            nested.SetInParent()
            if schema.form_of(field.message) == schema.QUANTITY:
                nested.string = "0"
            elif schema.form_of(field.message) not in _SPECIAL:
                nested.MergeFrom(self._template(field.message))
        return message

    @staticmethod
    def _wrapped(descriptor: Descriptor) -> bool:
        """Whether a type's alternatives are told apart by presence, so that nothing may be filled in."""
        return schema.form_of(descriptor) in _ALTERNATIVES

    def _below(self, descriptor: Descriptor) -> Callable[[Any], None]:
        """Make the function that visits what may have something to fill below a message."""
        names: dict[str, Any] = {}
        lines: list[str] = []
        fillers: dict[int, Callable[[Any], None]] = {}
        for field in info_of(descriptor).fields:
            lines += self._visit(field, names, fillers)
        if not fillers:
            return _nothing
        always = sum(1 for field in info_of(descriptor).fields if field.message is None and not _optional(field))
        if always or len(fillers) < _MANY:
            return _made(descriptor, lines, names)
        return _by_presence(fillers)

    def _visit(self, field: FieldInfo, names: dict[str, Any], fillers: dict[int, Callable[[Any], None]]) -> list[str]:
        if field.message is None:
            return []
        pointer = field.pointer or (field.owner is not None and self._wrapped(field.owner))
        optional = pointer or _optional(field)
        filler = self._filler(field.message, whole=optional)
        if filler is _nothing:
            return []
        call, read = f"f_{field.number}", _read(field)
        names[call] = filler
        if field.is_map:
            fillers[field.number] = lambda values: _each(filler, values.values())
            return [f"v = {read}", f"if v: [{call}(e) for e in v.values()]"]
        if field.repeated:
            fillers[field.number] = lambda values: _each(filler, values)
            return [f"v = {read}", f"if v: [{call}(e) for e in v]"]
        fillers[field.number] = filler
        return [f"if m.HasField({field.name!r}): {call}({read})" if pointer else f"{call}({read})"]

    def _fill(self, descriptor: Descriptor, template: bytes, below: Callable[[Any], None]) -> Callable[[Any], None]:
        """Make the function that fills a message by itself: by its template, or field by field if there are few."""
        if not template:
            return below
        if len(template) // 2 < _MANY:
            lines = []
            for field in info_of(descriptor).fields:
                if _optional(field) or field.scalar == "bytes":
                    continue
                if field.message is not None:
                    break
                put = f"m.{field.name} = {_ZERO[field.scalar]!r}"
                if iskeyword(field.name):
                    put = f"setattr(m, {field.name!r}, {_ZERO[field.scalar]!r})"
                lines.append(f"if not m.HasField({field.name!r}): {put}")
            else:
                if below is not _nothing:
                    lines.append("below(m)")
                return _made(descriptor, lines, {"below": below})

        def fill(message: Any) -> None:
            message.ParseFromString(template + message.SerializePartialToString())
            below(message)

        if _width(descriptor) < _WIDE or _holds_times(descriptor, frozenset()):
            return fill
        return _remembering(fill)

    def _filler(self, descriptor: Descriptor, *, whole: bool) -> Callable[[Any], None]:
        if descriptor.full_name in self._open:
            return lambda message: _plan(descriptor).fill(message)
        plan = self.plan(descriptor)
        return plan.fill if whole else plan.below


def _optional(field: FieldInfo) -> bool:
    """Whether Kubernetes may leave the field out of what it stores."""
    return field.pointer or field.repeated or field.is_map


def _each(filler: Callable[[Any], None], values: Iterable[Any]) -> None:
    for value in values:
        filler(value)


@cache
def _width(descriptor: Descriptor) -> int:
    """Count the fields of a type, with those of the messages that are always in it."""
    return sum(
        1 + (_width(field.message) if field.message is not None and not _optional(field) else 0)
        for field in info_of(descriptor).fields
    )


@cache
def _holds_times(descriptor: Descriptor, above: frozenset[str]) -> bool:
    """Whether messages of a type differ by when they were made; metadata does not count."""
    if schema.form_of(descriptor) in (schema.TIME, schema.MICRO_TIME):
        return True
    if descriptor.name == "ObjectMeta" or descriptor.full_name in above:
        return False
    inner = above | {descriptor.full_name}
    return any(_holds_times(field.message, inner) for field in info_of(descriptor).fields if field.message is not None)


def _remembering(fill: Callable[[Any], None]) -> Callable[[Any], None]:
    """Complete equal messages once: the containers and volumes of a cluster's pods are few, and many times the same."""
    known: dict[bytes, bytes] = {}

    def remembered(message: Any) -> None:
        raw = message.SerializePartialToString()
        done = known.get(raw)
        if done is None:
            fill(message)
            if len(raw) > _REMEMBERED_BYTES:
                return
            if len(known) >= _REMEMBERED:
                known.clear()
            done = message.SerializePartialToString()
            known[raw] = raw if done == raw else done
        elif done is not raw and done != raw:
            message.ParseFromString(done)

    return remembered


def _by_presence(fillers: dict[int, Callable[[Any], None]]) -> Callable[[Any], None]:
    find = fillers.get

    def below(message: Any) -> None:
        for field, value in message.ListFields():
            filler = find(field.number)
            if filler is not None:
                filler(value)

    return below


def _read(field: FieldInfo) -> str:
    return f"getattr(m, {field.name!r})" if iskeyword(field.name) else f"m.{field.name}"


def _made(descriptor: Descriptor, lines: list[str], names: dict[str, Any]) -> Callable[[Any], None]:
    exec("\n".join([f"def fill_{descriptor.name}(m):", *("    " + line for line in lines)]), names)
    made: Callable[[Any], None] = names[f"fill_{descriptor.name}"]
    return made


def _nothing(_: Any) -> None:
    """Fill a type that has nothing to fill."""


def canonical_bytes(message: Message) -> bytes:
    """Return the bytes that Kubernetes would store for this message; the message itself is left as it is.

    Raises BadRequestError when bytes that must be JSON (a ControllerRevision's data, managed fields) are none: they
    would spoil each list that shows them.
    """
    plan = _plan(schema.descriptor_of(message))
    copy = message.FromString(plan.template + message.SerializePartialToString())
    plan.below(copy)
    return copy.SerializeToString(deterministic=True)
