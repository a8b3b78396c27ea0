"""Checks a corpus of stored objects: each must decode to its recorded JSON, and its JSON encode to the stored bytes.

A corpus has a JSON object a line: ``resource``, ``path``, ``key``, ``value`` (the stored bytes in base64) and ``json``
(what GET answered). Encrypted values are decrypted first, with the configuration of the server that wrote them
(``--encryption-provider-config FILE``). The few places where Kubernetes itself shows other than it stores are listed
with their reasons in ``storage_exceptions.yaml`` beside this module.
"""

from __future__ import annotations

import argparse
import base64
import binascii
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import orjson

from wharfinger.api import codec, encryption, kinds, storage
from wharfinger.api.configfile import ConfigError
from wharfinger.api.encryption import Transformer
from wharfinger.api.errors import StatusError

_ABSENT = object()


@dataclass
class Outcome:
    """How one line fared."""

    name: str
    problems: list[str] = field(default_factory=list)
    excepted: list[str] = field(default_factory=list)
    """Reasons of the exceptions that it needed."""


@cache
def _exceptions() -> dict[str, list[dict[str, Any]]]:
    text = resources.files("wharfinger.api").joinpath("storage_exceptions.yaml").read_bytes()
    (document,) = codec.load_documents(text)
    return document  # type: ignore[no-any-return]


def check_lines(lines: Iterable[bytes], transformer: Transformer | None = None) -> Iterator[Outcome]:
    """Yield the outcome of each line that is not blank; `transformer` decrypts."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _check_line(line, number, transformer)


def _check_line(line: bytes, number: int, transformer: Transformer | None) -> Outcome:
    outcome = Outcome(f"line {number}")
    try:
        entry = orjson.loads(line)
        outcome.name = str(entry.get("key") or outcome.name)
        value = base64.b64decode(entry["value"], validate=True)
        wanted = entry["json"]
        wanted["metadata"].pop("resourceVersion", None)  # it is the revision of the key and never stored
    except (orjson.JSONDecodeError, binascii.Error, AttributeError, KeyError, TypeError) as error:
        outcome.problems.append(f"not a line of a corpus: {error!r}")
        return outcome
    try:
        if transformer is not None:
            value = transformer.open(outcome.name, value)
        _check(value, wanted, outcome)
    except StatusError as error:
        outcome.problems.append(str(error))
    return outcome


def _check(value: bytes, wanted: dict[str, Any], outcome: Outcome) -> None:
    if storage.is_custom(value):
        _compare(wanted, storage.decode_custom(value), outcome)
        _compare_bytes(value, storage.encode_custom(wanted), "JSON to bytes", outcome)
        return
    message = storage.decode(value)
    stored = kinds.of(message)
    _compare_bytes(value, storage.encode(message), "bytes to object to bytes", outcome)
    served = wanted.get("apiVersion")
    if served != stored.api_version:
        reason = _other_version(stored.kind, str(served), stored.api_version)
        if reason is None:
            outcome.problems.append(f"stored as {stored.api_version}, recorded as {served}")
        else:
            outcome.excepted.append(reason)
        return
    if not _compare(wanted, codec.to_json(message), outcome):
        return
    decoded = codec.from_json(wanted, stored.message, validation="Strict")
    _compare_bytes(value, storage.encode(decoded.message), "JSON to bytes", outcome)


def _other_version(kind: str, served: str, stored: str) -> str | None:
    for entry in _exceptions()["versions"]:
        if (entry["kind"], entry["served"], entry["stored"]) == (kind, served, stored):
            return str(entry["reason"])
    return None


def _compare_bytes(value: bytes, made: bytes, what: str, outcome: Outcome) -> None:
    if value != made:
        at = next((at for at, (one, other) in enumerate(zip(value, made, strict=False)) if one != other), -1)
        at = at if at >= 0 else min(len(value), len(made))
        outcome.problems.append(
            f"{what}: {len(value)} bytes stored, {len(made)} made, different from byte {at} on: "
            f"{value[at : at + 20]!r} stored, {made[at : at + 20]!r} made"
        )


def _compare(wanted: dict[str, Any], got: dict[str, Any], outcome: Outcome) -> bool:
    """Note differences; those of the list of exceptions are taken out of `wanted`, which is then what is stored."""
    clean = True
    for path, expected, made in list(_differences(wanted, got, ())):
        entry = _excepted(wanted, path, expected) if made is _ABSENT else None
        if entry is None:
            clean = False
            shown = ".".join(str(part) for part in path)
            outcome.problems.append(f"{shown}: recorded {_show(expected)}, decoded {_show(made)}")
        else:
            outcome.excepted.append(str(entry["reason"]))
            _remove(wanted, path)
    return clean


def _show(value: Any) -> str:
    return "nothing" if value is _ABSENT else f"{value!r:.120}"


def _differences(wanted: Any, got: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    if isinstance(wanted, dict) and isinstance(got, dict):
        for name in {**wanted, **got}:
            yield from _differences(wanted.get(name, _ABSENT), got.get(name, _ABSENT), (*path, name))
    elif isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        for index, (one, other) in enumerate(zip(wanted, got, strict=True)):
            yield from _differences(one, other, (*path, index))
    elif wanted is not got and (type(wanted) is not type(got) or wanted != got):
        yield path, wanted, got


def _excepted(wanted: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any] | None:
    shown = ".".join("[*]" if isinstance(part, int) else part for part in path).replace(".[*]", "[*]")
    for entry in _exceptions()["fields"]:
        if (entry["kind"], entry["apiVersion"], entry["path"]) == (
            wanted["kind"],
            wanted["apiVersion"],
            shown,
        ) and entry.get("value", value) == value:
            return entry
    return None


def _remove(document: Any, path: tuple[Any, ...]) -> None:
    *outer, last = path
    for part in outer:
        document = document[part]
    del document[last]


def main(arguments: list[str]) -> int:
    """Run ``check FILE``; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m wharfinger.api.storage")
    check = parser.add_subparsers(required=True, metavar="check").add_parser("check", help="check a corpus")
    check.add_argument("file", metavar="FILE")
    check.add_argument("--encryption-provider-config", metavar="FILE", type=Path, help="decrypts values first")
    try:
        given = parser.parse_args(arguments)
        config = given.encryption_provider_config
        transformer = Transformer(encryption.load(config)) if config is not None else None
    except SystemExit as end:
        return int(end.code or 0)
    except ConfigError as error:
        print(error)
        return 2
    passed = failed = excepted = 0
    try:
        with open(given.file, "rb") as lines:
            for outcome in check_lines(lines, transformer):
                if outcome.problems:
                    failed += 1
                    for problem in outcome.problems:
                        print(f"{outcome.name}: {problem}")
                    continue
                passed += 1
                excepted += bool(outcome.excepted)
                for reason in dict.fromkeys(outcome.excepted):
                    print(f"{outcome.name}: listed exception: {reason}")
    except OSError as error:
        print(f"cannot read {given.file}: {error.strerror}")
        return 2
    if excepted:
        print(f"{excepted} of those that passed needed a listed exception")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
