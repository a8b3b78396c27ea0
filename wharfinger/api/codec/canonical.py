"""The very bytes that Kubernetes stores for an object.

Kubernetes' encoder writes every field that is not a pointer, list or map, zero or not, and map keys in order. Our
messages have explicit presence and may leave such fields unset. So a *template* of each type, with everything present
that Kubernetes always writes, is parsed first and the object's own bytes over it (protobuf merges): presence of the
whole skeleton at the price of one parse. What hangs below pointers, lists and maps is then visited by a generated
function a type, which only touches types that have something to fill in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wharfinger.api import quantity, times
from wharfinger.api.codec import schema
from wharfinger.api.codec.schema import FieldInfo, info_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

_ZERO: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "uint32": 0, "uint64": 0, "double": 0.0}


def _fill_time(message: Any) -> None:
    if message.HasField("seconds"):
        if message.seconds == times.ZERO_SECONDS:
            message.Clear()
        else:
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
    try:
        message.string = quantity.canonical(message.string)
    except ValueError:
        return  # kept as it came: whoever validates names the field


_FILLERS: dict[str, Any] = {}


def _filler(descriptor: Descriptor) -> Callable[[Any], None]:
    name = descriptor.full_name
    found = _FILLERS.get(name)
    if found is not None:
        return found  # type: ignore[no-any-return]
    special = {
        schema.TIME: _fill_time, schema.MICRO_TIME: _fill_micro_time, schema.QUANTITY: _fill_quantity,
    }.get(schema.form_of(descriptor))  # fmt: skip
    if special is not None:
        _FILLERS[name] = special
        return special
    cell: list[Callable[[Any], None]] = []
    _FILLERS[name] = lambda message: cell[0](message)
    names: dict[str, Any] = {}
    lines = [f"def fill_{descriptor.name}(m):", "    has = m.HasField"]
    for field in info_of(descriptor).fields:
        lines += ["    " + line for line in _statement(field, names)]
    exec("\n".join(lines), names)
    cell.append(names[f"fill_{descriptor.name}"])
    _FILLERS[name] = cell[0]
    return cell[0]


def _statement(field: FieldInfo, names: dict[str, Any]) -> list[str]:
    read = f"getattr(m, {field.name!r})"
    if field.message is None:
        if field.pointer or field.repeated or field.is_map or field.scalar == "bytes":
            return []
        return [f"if not has({field.name!r}): setattr(m, {field.name!r}, {_ZERO[field.scalar]!r})"]
    names[f"f_{field.number}"] = _filler(field.message)
    call = f"f_{field.number}"
    if field.is_map:
        return [f"for e in {read}.values(): {call}(e)"]
    if field.repeated:
        return [f"for e in {read}: {call}(e)"]
    if field.pointer:
        return [f"if has({field.name!r}): {call}({read})"]
    return [f"v = {read}", f"if not has({field.name!r}): v.SetInParent()", f"{call}(v)"]


def canonical_bytes(message: Message) -> bytes:
    """Return the bytes that Kubernetes would store for this message; the message itself is left as it is."""
    copy = type(message)()
    copy.CopyFrom(message)
    _filler(message.DESCRIPTOR)(copy)
    return copy.SerializeToString(deterministic=True)
