"""Messages to Kubernetes' JSON.

For each message type a function is generated as Python source at first use, with one statement a field: a hand-written
encoder's speed without writing one. Two families exist: for dicts, in which embedded raw JSON is parsed, and for bytes,
in which it is spliced in as it stands.

Kubernetes' JSON follows Go's: a field with ``omitempty`` is left out when it is the zero value, but a message that is
not a pointer never counts as zero; without ``omitempty`` an absent pointer, list or map is ``null``.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

import orjson

from wharfinger.api import durations, quantity, times
from wharfinger.api.codec import schema
from wharfinger.api.codec.compiling import Compiled
from wharfinger.api.codec.schema import FieldInfo, MessageInfo, info_of
from wharfinger.api.codec.selfcoded import SelfCoded
from wharfinger.api.errors import InternalError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message


def _time(message: Any) -> str | None:
    if not message.HasField("seconds") or message.seconds == times.ZERO_SECONDS:
        return None
    return times.format_seconds(message.seconds)


def _micro_time(message: Any) -> str | None:
    if not message.HasField("seconds") or message.seconds == times.ZERO_SECONDS:
        return None
    return times.format_micro(message.seconds, message.nanos)


def _duration(message: Any) -> str:
    return durations.format_nanos(message.duration)


def _quantity(message: Any) -> str:
    text: str = message.string
    try:
        return quantity.canonical(text)
    except ValueError:
        return text  # what is stored is shown as it is; admission has refused it or never saw it


def _int_or_string(message: Any) -> int | str:
    value: int | str = message.strVal if message.type else message.intVal
    return value


def _base64(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def _raw_parsed(message: Any) -> Any:
    raw: bytes = message.raw
    if not raw:
        return None
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InternalError(f"an embedded {message.DESCRIPTOR.name} holds no JSON: {error}") from error


def _raw_spliced(message: Any) -> Any:
    raw: bytes = message.raw
    return orjson.Fragment(raw) if raw else None


Encoder = Callable[[Any], Any]


class _Family:
    """The encoders of all message types for one way of showing raw JSON."""

    def __init__(self, raw: Callable[[Any], Any]) -> None:
        self._raw = raw
        self.of = Compiled(self._make).of

    def _make(self, descriptor: Descriptor, announce: Callable[[Encoder], None]) -> Encoder:
        info = info_of(descriptor)
        special = self._special(info)
        if special is not None:
            return special
        cell: list[Encoder] = []
        announce(lambda message: cell[0](message))  # for types that contain themselves
        cell.append(self._compile(info))
        return cell[0]

    def _special(self, info: MessageInfo) -> Callable[[Any], Any] | None:
        form = info.form
        if form == schema.LIST:
            name = info.fields[0].name
            return lambda message: list(getattr(message, name)) or None
        if form == schema.SCHEMA_OR_ARRAY:
            nested = self._lazy(info.fields[0])
            return lambda m: nested(m.schema) if m.HasField("schema") else [nested(e) for e in m.jSONSchemas] or None
        if form == schema.SCHEMA_OR_BOOL:
            nested = self._lazy(info.fields[1])
            return lambda m: nested(m.schema) if m.HasField("schema") else m.allows
        if form == schema.SCHEMA_OR_STRING_ARRAY:
            nested = self._lazy(info.fields[0])
            return lambda m: list(m.property) or (nested(m.schema) if m.HasField("schema") else None)
        forms: dict[int, Callable[[Any], Any]] = {
            schema.TIME: _time,
            schema.MICRO_TIME: _micro_time,
            schema.DURATION: _duration,
            schema.QUANTITY: _quantity,
            schema.INT_OR_STRING: _int_or_string,
            schema.RAW_JSON: self._raw,
        }
        return forms.get(form)

    def _lazy(self, field: FieldInfo) -> Callable[[Any], Any]:
        descriptor = field.message
        assert descriptor is not None
        return lambda message: self.of(descriptor)(message)

    def _compile(self, info: MessageInfo) -> Callable[[Any], Any]:
        names: dict[str, Any] = {"b64": _base64}
        lines = [f"def encode_{info.name}(m):", "    d = {}"]
        if info.fields and any(field.pointer for field in info.fields):
            lines.append("    has = m.HasField")
        for field in info.fields:
            lines += ["    " + line for line in self._statement(field, names)]
        lines.append("    return d")
        exec("\n".join(lines), names)
        encoder: Callable[[Any], Any] = names[f"encode_{info.name}"]
        return encoder

    def _statement(self, field: FieldInfo, names: dict[str, Any]) -> list[str]:
        read = f"m.{field.name}" if not iskeyword(field.name) else f"getattr(m, {field.name!r})"
        put = f"d[{field.json!r}] = "
        show = self._value(field, names)
        if field.is_map or field.repeated:
            if field.is_map:
                made = (
                    "dict(sorted(v.items()))"
                    if show == "{}"
                    else ("{k: " + show.format("v[k]") + " for k in sorted(v)}")
                )
            else:
                made = "list(v)" if show == "{}" else "[" + show.format("e") + " for e in v]"
            lines = [f"v = {read}", f"if v: {put}{made}"]
            return lines if field.omitempty else [*lines, f"else: {put}None"]
        if field.message is not None and field.inline:
            if field.pointer:
                return [f"if has({field.name!r}): d.update({show.format(read)})"]
            return [f"d.update({show.format(read)})"]
        if field.pointer:
            lines = [f"if has({field.name!r}): {put}{show.format(read)}"]
            return lines if field.omitempty else [*lines, f"else: {put}None"]
        if field.message is not None:
            form = schema.form_of(field.message)
            if field.omitzero and form == schema.OBJECT:
                return [f"v = {show.format(read)}", f"if v: {put}v"]
            if field.omitzero or (form == schema.LIST and field.omitempty):
                return [f"v = {show.format(read)}", f"if v is not None: {put}v"]
            return [f"{put}{show.format(read)}"]
        if field.omitempty:
            return [f"v = {read}", f"if v: {put}{show.format('v')}"]
        if field.scalar == "bytes":
            return [f"{put}b64({read}) if m.HasField({field.name!r}) else None"]
        return [f"{put}{show.format(read)}"]

    def _value(self, field: FieldInfo, names: dict[str, Any]) -> str:
        if field.message is None:
            return "b64({})" if field.scalar == "bytes" else "{}"
        name = f"e_{field.number}"
        encode = names[name] = self.of(field.message)
        kind = info_of(field.message)
        if kind.kind and field.repeated and field.name != "items":
            # Objects within objects say what they are (claim templates of StatefulSets); those of a list do not.
            names[name] = lambda message: {"kind": kind.kind, "apiVersion": kind.api_version, **encode(message)}
        return name + "({})"


_PARSED = _Family(_raw_parsed)
_SPLICED = _Family(_raw_spliced)


def _object(family: _Family, message: Message) -> Any:
    descriptor = schema.descriptor_of(message)
    if isinstance(message, SelfCoded):
        return message.to_value()
    body = family.of(descriptor)(message)
    info = info_of(descriptor)
    if info.kind:
        return {"kind": info.kind, "apiVersion": info.api_version, **body}
    return body


def to_json(message: Message) -> Any:
    """Return a message as Kubernetes shows it in JSON: objects as a dict, kinds with ``kind`` and ``apiVersion``."""
    return _object(_PARSED, message)


def to_json_bytes(message: Message) -> bytes:
    """Return :func:`to_json` as compact JSON text."""
    return orjson.dumps(_object(_SPLICED, message))
