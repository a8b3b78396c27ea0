"""YAML as kubectl reads it, without what makes YAML dangerous.

Kubernetes turns YAML into JSON with the rules of go-yaml v2: YAML 1.1 booleans (``yes``, ``on``, ``n``) and octals
(``0755``), no base-60 numbers, timestamps stay text, keys that are numbers or booleans become their text. PyYAML's own
constructor differs in all of these, recurses, and lets a few hundred bytes of aliases grow into gigabytes. So libyaml's
*events* are put together here: one loop, no recursion, with limits on depth, size and what aliases may add.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from wharfinger.api.codec import text as json_text
from wharfinger.api.codec.decode import Decoded, Validation, from_value
from wharfinger.api.codec.issues import plain
from wharfinger.api.codec.text import MAX_BYTES, MAX_DEPTH, Duplicated
from wharfinger.api.errors import BadRequestError, RequestTooLargeError

if TYPE_CHECKING:
    from google.protobuf.message import Message

M = TypeVar("M", bound="Message")

MAX_ALIASED_NODES = 100_000
"""How many values aliases may add to a stream in total."""
MAX_VALUES = 100_000
"""How many values one document may have; a few tenths of a second of work."""
MAX_DOCUMENTS = 100_000
MAX_STREAM_BYTES = 64 * 1024 * 1024
"""The largest file of manifests that is read; one object must be far smaller."""

_TAG = "tag:yaml.org,2002:"
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_INTEGER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_SEPARATOR = re.compile(r"\s*(?:---\s*)?")
_NUMBER_START = frozenset("0123456789+-.")


# --- scalars ----------------------------------------------------------------------------------------------------------


def resolve(plain_text: str) -> Any:
    """Return what a plain (unquoted) scalar means: None, bool, int, float or the text itself.

    Raises ValueError for infinities and NaN, which JSON does not have.
    """
    if plain_text in _WORDS:
        return _WORDS[plain_text]
    if plain_text[0] not in _NUMBER_START or len(plain_text) > 400:
        return plain_text
    if _NOT_FINITE.fullmatch(plain_text):
        raise ValueError(f"{plain_text} is not a number that JSON can hold")
    digits = plain_text.replace("_", "") if plain_text[0] != "." else plain_text
    if match := _INTEGER.fullmatch(digits):
        return _integer(match[1], match[2].lower())
    if _FLOAT.fullmatch(digits):
        return _number(float(digits))
    return plain_text


def _integer(sign: str, digits: str) -> int | float:
    base = {"0x": 16, "0b": 2, "0o": 8}.get(digits[:2], 8 if digits[0] == "0" else 10)
    number = int(digits, base)
    number = -number if sign == "-" else number
    return number if -(2**63) <= number < 2**64 else float(number)


def _number(value: float) -> int | float:
    if not math.isfinite(value):
        raise ValueError("a number is too large for JSON")
    # as Go writes it in JSON: whole numbers without a point, up to where it changes to exponents
    return int(value) if value == int(value) and abs(value) < 1e21 else value


def _tagged(tag: str, value: str) -> Any:
    name = tag.removeprefix(_TAG)
    if name == "str":
        return value
    if name == "binary":
        try:
            return base64.b64decode(value, validate=False).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError) as error:
            raise ValueError("a !!binary value is no base64 of UTF-8 text") from error
    if tag.startswith(_TAG) and name in ("bool", "int", "float", "null", "timestamp"):
        found = resolve(value)
        fits = {
            "bool": isinstance(found, bool),
            "int": isinstance(found, int) and not isinstance(found, bool),
            "float": isinstance(found, (int, float)) and not isinstance(found, bool),
            "null": found is None,
            "timestamp": isinstance(found, str),
        }
        if fits[name]:
            return found
        raise ValueError(f"{value[:60]!r} is no !!{name}")
    raise ValueError(f"the tag {tag[:60]!r} is not known here")


def _key(value: Any, quoted: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return json.dumps(value)
    raise ValueError(f"{quoted or 'null'} cannot be the key of a field: keys are text")


# --- events to values -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Open:
    """A list or mapping that is being read."""

    mapping: bool
    anchor: str | None
    nodes: int
    """How many values the stream had before it."""
    items: list[Any] = field(default_factory=list)
    pairs: dict[str, Any] = field(default_factory=dict)
    merged: list[dict[str, Any]] = field(default_factory=list)
    twice: dict[str, None] = field(default_factory=dict)
    key: str | None = None
    merging: bool = False


class _Composer:
    """Puts the events of a stream together, document by document."""

    def __init__(self, data: str) -> None:
        self._data = data
        self._nodes = 0
        self._aliased = 0
        self._mark: Any = None

    def documents(self) -> Iterator[Any]:
        anchors: dict[str, tuple[Any, int]] = {}
        stack: list[_Open] = []
        documents = start = 0
        try:
            for event in yaml.parse(self._data, Loader=yaml.CSafeLoader):
                self._mark = event.start_mark
                if self._nodes - start > MAX_VALUES:
                    raise ValueError(f"the document has more than {MAX_VALUES} values")
                if isinstance(event, yaml.ScalarEvent):
                    done, anchor = self._scalar(event, stack), event.anchor
                    nodes = 1 + len(event.value) // 100  # so that aliases to long texts are not cheap
                    self._nodes += nodes
                elif isinstance(event, yaml.AliasEvent):
                    if event.anchor not in anchors:
                        raise ValueError(f"the alias *{event.anchor} stands for nothing that was complete before it")
                    done, nodes = anchors[event.anchor]
                    anchor = None
                    self._aliased += nodes
                    self._nodes += nodes
                    if self._aliased > MAX_ALIASED_NODES:
                        raise ValueError(f"aliases add more than {MAX_ALIASED_NODES} values")
                    if stack and stack[-1].mapping and stack[-1].key is None and not stack[-1].merging:
                        done = _key(done, "an alias to an object or a list") if not isinstance(done, str) else done
                elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                    self._start(event, stack)
                    continue
                elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                    top = stack.pop()
                    done, anchor = _finish(top), top.anchor
                    nodes = self._nodes - top.nodes
                elif isinstance(event, yaml.DocumentStartEvent):
                    anchors.clear()
                    documents += 1
                    start = self._nodes
                    if documents > MAX_DOCUMENTS:
                        raise ValueError(f"there are more than {MAX_DOCUMENTS} documents")
                    continue
                else:
                    continue
                if anchor is not None:
                    anchors[anchor] = done, nodes
                if stack:
                    _put(stack[-1], done)
                else:
                    yield done
        except yaml.YAMLError as error:
            raise BadRequestError(f"the text is not YAML: {_explain(error)}") from error
        except ValueError as error:
            raise BadRequestError(f"line {self._mark.line + 1}: {error}") from error

    def _scalar(self, event: yaml.ScalarEvent, stack: list[_Open]) -> Any:
        text = event.value
        is_key = bool(stack) and stack[-1].mapping and stack[-1].key is None and not stack[-1].merging
        if event.tag is not None and event.tag != "!":
            value = _tagged(event.tag, text)
        elif event.implicit[0]:
            if is_key and text == "<<":
                stack[-1].merging = True
                return _MERGE
            value = resolve(text)
        else:
            value = text
        return _key(value, text) if is_key else value

    def _start(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent, stack: list[_Open]) -> None:
        if len(stack) >= MAX_DEPTH:
            raise ValueError(f"lists and objects lie more than {MAX_DEPTH} levels deep in each other")
        if stack and stack[-1].mapping and stack[-1].key is None and not stack[-1].merging:
            raise ValueError("an object or a list cannot be the key of a field: keys are text")
        mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", _TAG + ("map" if mapping else "seq")):
            raise ValueError(f"the tag {str(event.tag)[:60]!r} is not known here")
        stack.append(_Open(mapping, event.anchor, self._nodes))
        self._nodes += 1


_MERGE = object()


def _put(top: _Open, value: Any) -> None:
    if value is _MERGE:
        return
    if not top.mapping:
        top.items.append(value)
    elif top.merging:
        top.merging = False
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            raise ValueError("<< merges objects only")
        top.merged += sources
    elif top.key is None:
        top.key = value
    else:
        if top.key in top.pairs:
            top.twice[top.key] = None
        top.pairs[top.key] = value
        top.key = None


def _finish(top: _Open) -> Any:
    if not top.mapping:
        return top.items
    pairs = top.pairs
    for source in top.merged:
        for name, value in source.items():
            pairs.setdefault(name, value)
    if not top.twice:
        return pairs
    marked = Duplicated(pairs)
    marked.names = tuple(top.twice)
    return marked


def _explain(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark is not None else problem


# --- entries ----------------------------------------------------------------------------------------------------------


def load_documents(data: bytes | str, *, max_bytes: int = MAX_STREAM_BYTES) -> list[Any]:
    """Read all documents of a YAML stream (or of a stream of JSON objects) as plain values; empty ones are left out.

    Objects with duplicate fields are :class:`~wharfinger.api.codec.text.Duplicated`. Raises BadRequestError with the
    line for what is neither, is too large, nests too deeply or grows by aliases.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > max_bytes:
        raise RequestTooLargeError(f"the text has {len(raw)} bytes; at most {max_bytes} are read")
    try:
        content = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequestError(f"the text is not UTF-8: byte {error.start} cannot be read") from error
    if content.lstrip()[:1] == "{":
        found = _json_stream(content)
        if found is not None:
            return found
    return [document for document in _Composer(content).documents() if document is not None]


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a number that JSON can hold")
    return number


def _json_stream(content: str) -> list[Any] | None:
    """Read JSON objects that follow each other; None when it is no JSON (it may be YAML in flow style)."""
    try:
        value, _ = json_text.parse(content.encode(), duplicates=True, max_bytes=MAX_STREAM_BYTES)
        return [value]
    except BadRequestError as error:
        if "levels deep" in str(error):
            raise
    found = []
    decoder = json.JSONDecoder(object_pairs_hook=json_text.mark_duplicates, parse_constant=_finite, parse_float=_finite)
    at = 0
    try:
        while at < len(content):
            value, end = decoder.raw_decode(content, at)
            json_text.check_depth(value)
            found.append(value)
            if len(found) > MAX_DOCUMENTS:
                raise BadRequestError(f"there are more than {MAX_DOCUMENTS} objects")
            separator = _SEPARATOR.match(content, end)
            at = separator.end() if separator else end
    except (ValueError, RecursionError):
        return None
    return found


def load_manifests(data: bytes | str) -> list[dict[str, Any]]:
    """Read the objects of a manifest file, in order.

    Raises BadRequestError for what :func:`load_documents` refuses, for documents that are no objects and for duplicate
    fields, which would otherwise be lost in silence.
    """
    found = []
    for number, document in enumerate(load_documents(data), start=1):
        if not isinstance(document, dict):
            raise BadRequestError(f"document {number} is not an object but {type(document).__name__}")
        for issue in plain(document, ""):
            raise BadRequestError(f'document {number}: {issue.text} "{issue.path}"')
        found.append(document)
    return found


def from_yaml(data: bytes | str, message_class: type[M], *, validation: Validation = "Warn") -> Decoded[M]:
    """Read one object from YAML; see :func:`~wharfinger.api.codec.decode.from_json` for the rest."""
    documents = load_documents(data, max_bytes=MAX_BYTES)
    if len(documents) != 1:
        raise BadRequestError(f"one YAML document is wanted, not {len(documents)}")
    return from_value(documents[0], message_class, validation=validation, duplicated=True)


class _Dumper(yaml.CSafeDumper):
    """Writes what go-yaml would read back as the same: it quotes what only go-yaml would misread."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write equal parts out each time."""
        return True


_OLD_FORMS = re.compile(r"\d{4}-\d\d?-\d\d?([Tt ].*)?|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?", re.ASCII)
"""Timestamps and base-60 numbers: text to us and to Kubernetes, but not to every reader, so go-yaml quotes them."""


def _represent_text(dumper: _Dumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value and "\t" not in value and not value[:1].isspace() else None
    if not value or _OLD_FORMS.fullmatch(value):
        style = '"'
    elif style is None:
        try:
            meaning = resolve(value)
        except ValueError:
            meaning = None
        style = None if meaning == value and value != "<<" else '"'
    return dumper.represent_scalar(_TAG + "str", value, style=style)


_Dumper.add_representer(str, _represent_text)


def dump(value: Any) -> str:
    """Write plain values as YAML the way kubectl prints it: keys in alphabetical order, blocks, no aliases."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=True, allow_unicode=True, default_flow_style=False, width=2**30)
