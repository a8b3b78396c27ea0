"""Kubernetes' JSON to messages.

Each message type gets a table from JSON names to small generated setters, made at first use. The fast path only notes
*that* something was unknown; where it was is found by a second walk (:mod:`.issues`), so that well-formed objects pay
nothing for good messages. Rules follow Kubernetes' decoder: names are case-sensitive, ``null`` is as good as absent,
and a value of the wrong type is a 400 that names its path.
"""

from __future__ import annotations

import binascii
import json
import math
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import orjson

from wharfinger.api import durations, kinds, quantity, times
from wharfinger.api.codec import issues, schema, text
from wharfinger.api.codec.compiling import Compiled
from wharfinger.api.codec.issues import FieldIssue
from wharfinger.api.codec.schema import FieldInfo, info_of
from wharfinger.api.codec.selfcoded import SelfCoded
from wharfinger.api.errors import BadRequestError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

Validation = Literal["Strict", "Warn", "Ignore"]
M = TypeVar("M", bound="Message")

_RANGES = {"int32": 2**31, "int64": 2**63}


@dataclass
class Decoded(Generic[M]):
    """An object that was read, and what was wrong with it without making it unreadable."""

    message: M
    issues: list[FieldIssue] = field(default_factory=list)
    """Unknown and duplicate fields; empty when nobody asked (``Ignore``)."""


class WrongTypeError(Exception):
    """Raised inside this package when a value does not fit its field; becomes a BadRequestError with the path."""

    def __init__(self, value: Any, wanted: str) -> None:
        super().__init__(wanted)
        self.value = value
        self.wanted = wanted
        self.path: list[str | int] = []

    def to_status_error(self) -> BadRequestError:
        """Return the 400 that a client sees."""
        where = issues.join(reversed(self.path))
        prefix = f"{where}: " if where else ""
        return BadRequestError(f"{prefix}cannot use {_show(self.value)}: {self.wanted}")


class _Context:
    __slots__ = ("unknown",)

    def __init__(self) -> None:
        self.unknown = False


def _show(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    shown = json.dumps(value, default=str, ensure_ascii=False).encode("utf-8", "replace").decode()
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _int(value: Any, size: str) -> int:
    if value.__class__ is float and math.isfinite(value) and value == int(value):
        value = int(value)
    if value.__class__ is not int:
        raise WrongTypeError(value, f"it must be a whole number ({size})")
    limit = _RANGES[size]
    if not -limit <= value < limit:
        raise WrongTypeError(value, f"it does not fit into {size}")
    return value


def _string(value: Any) -> str:
    if value.__class__ is not str:
        raise WrongTypeError(value, "it must be a string")
    return value


def _bool(value: Any) -> bool:
    if value.__class__ is not bool:
        raise WrongTypeError(value, "it must be true or false")
    return value


def _double(value: Any) -> float:
    if value.__class__ is not float and value.__class__ is not int:
        raise WrongTypeError(value, "it must be a number")
    return float(value)


def _bytes(value: Any) -> bytes:
    if value.__class__ is not str:
        raise WrongTypeError(value, "it must be a string in base64")
    try:
        return b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError) as error:
        raise WrongTypeError(value, f"it must be base64 ({error})") from error


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "string": _string,
    "bool": _bool,
    "int32": lambda value: _int(value, "int32"),
    "int64": lambda value: _int(value, "int64"),
    "double": _double,
    "bytes": _bytes,
}
_ZEROS: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "double": 0.0, "bytes": b""}


# --- special forms ----------------------------------------------------------------------------------------------------


def _time(message: Any, value: Any, _: _Context) -> None:
    try:
        seconds, _nanos = times.parse_rfc3339(_string(value))
    except ValueError as error:
        raise WrongTypeError(value, str(error)) from error
    if seconds != times.ZERO_SECONDS:
        message.seconds = seconds
        message.nanos = 0


def _micro_time(message: Any, value: Any, _: _Context) -> None:
    try:
        seconds, nanos = times.parse_rfc3339(_string(value))
    except ValueError as error:
        raise WrongTypeError(value, str(error)) from error
    if seconds != times.ZERO_SECONDS:
        message.seconds = seconds
        message.nanos = nanos // 1000 * 1000


def _duration(message: Any, value: Any, _: _Context) -> None:
    try:
        message.duration = durations.parse(_string(value))
    except ValueError as error:
        raise WrongTypeError(value, str(error)) from error


def _quantity(message: Any, value: Any, _: _Context) -> None:
    if value.__class__ is int or value.__class__ is float:
        shown = repr(value)
    else:
        shown = _string(value).strip()
        if not shown:
            raise WrongTypeError(value, "it must be a quantity, such as 500m, 2 or 1Gi")
    try:
        message.string = quantity.canonical(shown)
    except ValueError as error:
        raise WrongTypeError(value, f"quantities must match Kubernetes' notation: {error}") from error


def _int_or_string(message: Any, value: Any, _: _Context) -> None:
    if value.__class__ is str:
        message.type, message.intVal, message.strVal = 1, 0, value
    else:
        try:
            message.type, message.intVal, message.strVal = 0, _int(value, "int32"), ""
        except WrongTypeError as error:
            raise WrongTypeError(value, "it must be a whole number or a string") from error


def _raw_json(message: Any, value: Any, _: _Context) -> None:
    message.raw = orjson.dumps(value)


_SPECIAL: dict[int, Any] = {
    schema.TIME: _time,
    schema.MICRO_TIME: _micro_time,
    schema.DURATION: _duration,
    schema.QUANTITY: _quantity,
    schema.INT_OR_STRING: _int_or_string,
    schema.RAW_JSON: _raw_json,
}

# --- objects ----------------------------------------------------------------------------------------------------------

Decoder = Callable[[Any, Any, _Context], None]


def _make(descriptor: Descriptor, announce: Callable[[Decoder], None]) -> Decoder:
    form = schema.form_of(descriptor)
    info = info_of(descriptor)
    special: Decoder | None = _SPECIAL.get(form)
    if special is not None:
        return special
    if form != schema.OBJECT:
        return _wrapper(form, info.fields)  # type: ignore[no-any-return]
    table: dict[str, Any] = {}
    made: Decoder = _object_decoder(table)
    announce(made)  # before its fields, for types that contain themselves
    for name, chain in info.json_fields.items():
        table[name] = _setter(chain)
    if info.kind:
        table["kind"] = table["apiVersion"] = _type_meta
    return made


decoder_of = Compiled(_make).of
"""The function that fills a message of a type from a JSON value, compiled at first use."""


def _type_meta(_: Any, value: Any, __: _Context) -> None:
    _string(value)


def _object_decoder(table: dict[str, Any]) -> Any:
    find = table.get

    def decode(message: Any, value: Any, context: _Context) -> None:
        if not isinstance(value, dict):
            raise WrongTypeError(value, "it must be an object")
        for name, item in value.items():
            setter = find(name)
            if setter is None:
                context.unknown = True
            elif item is not None:
                try:
                    setter(message, item, context)
                except WrongTypeError as error:
                    error.path.append(name)
                    raise

    return decode


def _wrapper(form: int, fields: tuple[FieldInfo, ...]) -> Any:
    if form == schema.LIST:
        return _repeated(fields[0])
    first, second = fields
    whole = _setter((first,)) if first.message is not None else _setter((second,))
    many = _repeated(second) if second.repeated else None

    def decode(message: Any, value: Any, context: _Context) -> None:
        if isinstance(value, dict):
            if form == schema.SCHEMA_OR_BOOL:
                message.allows = True
            whole(message, value, context)
        elif form == schema.SCHEMA_OR_BOOL:
            message.allows = _bool(value)
        elif isinstance(value, list) and many is not None:
            many(message, value, context)
        else:
            raise WrongTypeError(value, "it must be a schema or a list")

    return decode


def _setter(chain: tuple[FieldInfo, ...]) -> Any:
    *outer, last = chain
    setter = _map(last) if last.is_map else _repeated(last) if last.repeated else _single(last)
    for around in reversed(outer):
        setter = _inlined(around.name, setter)
    return setter


def _inlined(name: str, inner: Any) -> Any:
    def setter(message: Any, value: Any, context: _Context) -> None:
        inner(getattr(message, name), value, context)

    return setter


_FAST = {
    "string": "    if v.__class__ is str: {target} = v\n    else: {target} = read(v)",
    "bool": "    if v is True: {target} = True\n    else: {target} = read(v)",
    "int32": "    if v.__class__ is int and -2147483648 <= v < 2147483648: {target} = v\n    else: {target} = read(v)",
}


def _single(info: FieldInfo) -> Any:
    if info.message is None:
        names: dict[str, Any] = {"read": _SCALARS[info.scalar]}
        body = _FAST.get(info.scalar, "    {target} = read(v)")
        if not iskeyword(info.name):
            exec(f"def set_{info.name}(m, v, c):\n" + body.format(target=f"m.{info.name}"), names)
            return names[f"set_{info.name}"]
        read, name = names["read"], info.name
        return lambda message, value, _: setattr(message, name, read(value))
    inner = decoder_of(info.message)
    name = info.name

    def setter(message: Any, value: Any, context: _Context) -> None:
        nested = getattr(message, name)
        nested.SetInParent()
        inner(nested, value, context)

    return setter


def _repeated(info: FieldInfo) -> Any:
    name = info.name
    if info.message is None:
        read, zero = _SCALARS[info.scalar], _ZEROS[info.scalar]

        def scalars(message: Any, value: Any, _: _Context) -> None:
            if value.__class__ is not list:
                raise WrongTypeError(value, "it must be a list")
            target = getattr(message, name)
            del target[:]
            for index, item in enumerate(value):
                try:
                    target.append(zero if item is None else read(item))
                except WrongTypeError as error:
                    error.path.append(index)
                    raise

        return scalars
    inner = decoder_of(info.message)

    def messages(message: Any, value: Any, context: _Context) -> None:
        if value.__class__ is not list:
            raise WrongTypeError(value, "it must be a list")
        target = getattr(message, name)
        del target[:]
        for index, item in enumerate(value):
            made = target.add()
            if item is None:
                continue
            try:
                inner(made, item, context)
            except WrongTypeError as error:
                error.path.append(index)
                raise

    return messages


def _map(info: FieldInfo) -> Any:
    name = info.name
    if info.message is None:
        read, zero = _SCALARS[info.scalar], _ZEROS[info.scalar]

        def scalars(message: Any, value: Any, _: _Context) -> None:
            if not isinstance(value, dict):
                raise WrongTypeError(value, "it must be an object")
            target = getattr(message, name)
            for key, item in value.items():
                try:
                    target[key] = zero if item is None else read(item)
                except WrongTypeError as error:
                    error.path.append(key)
                    raise

        return scalars
    inner = decoder_of(info.message)

    def messages(message: Any, value: Any, context: _Context) -> None:
        if not isinstance(value, dict):
            raise WrongTypeError(value, "it must be an object")
        target = getattr(message, name)
        for key, item in value.items():
            made = target[key]
            if item is None:
                continue
            try:
                inner(made, item, context)
            except WrongTypeError as error:
                error.path.append(key)
                raise

    return messages


# --- the entry --------------------------------------------------------------------------------------------------------


def from_json(
    data: dict[str, Any] | bytes | str, message_class: type[M], *, validation: Validation = "Warn"
) -> Decoded[M]:
    """Read an object from JSON, as text or as plain values.

    `validation` is Kubernetes' ``fieldValidation``: with ``Strict`` unknown and duplicate fields are a 400, with
    ``Warn`` they are returned as issues, with ``Ignore`` nobody looks. Raises BadRequestError for a value of the wrong
    type (naming its path), for text that is no JSON or too deep, and for a ``kind`` or ``apiVersion`` of another type.
    """
    value: Any = data
    duplicated = False
    if isinstance(data, str):
        value, duplicated = text.parse(data.encode("utf-8", "surrogatepass"), duplicates=validation != "Ignore")
    elif isinstance(data, bytes):
        value, duplicated = text.parse(data, duplicates=validation != "Ignore")
    return from_value(value, message_class, validation=validation, duplicated=duplicated)


def from_value(value: Any, message_class: type[M], *, validation: Validation, duplicated: bool) -> Decoded[M]:
    """Read an object from plain values; `duplicated` says that some may stem from duplicate fields."""
    if not isinstance(value, dict):
        raise BadRequestError(f"an object is wanted, not {_show(value)}")
    if issubclass(message_class, SelfCoded):
        own: Any = message_class.from_value(value, validation=validation, duplicated=duplicated)
        decoded: Decoded[M] = own
        return decoded
    descriptor = schema.descriptor_of(message_class)
    _check_type(value, descriptor)
    message = message_class()
    context = _Context()
    try:
        decoder_of(descriptor)(message, value, context)
    except WrongTypeError as error:
        raise error.to_status_error() from error
    except UnicodeEncodeError as error:
        raise BadRequestError(f"a string holds half of a surrogate pair, which is no text: {error.reason}") from error
    except (RecursionError, orjson.JSONEncodeError) as error:
        text.check_depth(value)
        raise BadRequestError(f"the object holds what JSON cannot express: {error}") from error
    found: list[FieldIssue] = []
    if validation != "Ignore" and (duplicated or context.unknown):
        found = issues.find(value, descriptor)
    if found and validation == "Strict":
        raise issues.strict_error(found)
    return Decoded(message, found)


def _check_type(value: dict[str, Any], descriptor: Descriptor) -> None:
    info = info_of(descriptor)
    if not info.kind:
        return
    kind, api_version = value.get("kind"), value.get("apiVersion")
    for name, got in (("kind", kind), ("apiVersion", api_version)):
        if got is not None and not isinstance(got, str):
            raise BadRequestError(f"{name}: cannot use {_show(got)}: it must be a string")
    if (kind or info.kind) != info.kind or (api_version or info.api_version) != info.api_version:
        raise BadRequestError(
            f"the object is a {kind or info.kind} of {api_version or info.api_version}, "
            f"but a {info.kind} of {info.api_version} is wanted here"
        )


def read_object(data: dict[str, Any] | bytes, *, validation: Validation = "Warn") -> Decoded[Message]:
    """Read an object of whatever kind its own ``apiVersion`` and ``kind`` name.

    Raises BadRequestError when they are missing or name no kind that the schema knows.
    """
    value: Any = data
    duplicated = False
    if isinstance(data, bytes):
        value, duplicated = text.parse(data, duplicates=validation != "Ignore")
    if not isinstance(value, dict):
        raise BadRequestError(f"an object is wanted, not {_show(value)}")
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
        raise BadRequestError("the object must say what it is: both apiVersion and kind are required")
    known = kinds.by_kind(api_version, kind)
    if known is None:
        raise BadRequestError(f'no kind "{kind}" is known in version "{api_version}"')
    return from_value(value, known.message, validation=validation, duplicated=duplicated)
