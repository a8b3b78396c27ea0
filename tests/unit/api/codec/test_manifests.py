from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.api import codec
from wharfinger.api.errors import BadRequestError, RequestTooLargeError
from wharfinger.api.types import core


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("Off", False),
        ("y", True),
        ("N", False),
        ("true", True),
        ("TRUE", True),
        ("tRue", "tRue"),
        ("~", None),
        ("", None),
        ("Null", None),
        ("0755", 493),
        ("0o17", 15),
        ("0x1F", 31),
        ("-0b11", -3),
        ("08", 8),
        ("1_000", 1000),
        ("1.0", 1),
        ("1e3", 1000),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e21", 1e21),
        ("12:30:45", "12:30:45"),
        ("2026-01-02", "2026-01-02"),
        ("1.2.3", "1.2.3"),
        ("+5", 5),
        ("1e", "1e"),
        ("'yes'", "yes"),
        ('"5"', "5"),
        ("!!str 5", "5"),
        ("!!int 5", 5),
        ("!!float 5", 5),
        ("!!binary aGk=", "hi"),
        ("|\n  a\n  b\n", "a\nb\n"),
        ("18446744073709551615", 2**64 - 1),
        ("100000000000000000000", 1e20),
        ("=", "="),
    ],
)
def test_scalars_mean_what_they_mean_to_kubectl(text: str, value: Any) -> None:
    (document,) = codec.load_manifests(f"a: {text}")
    assert document == {"a": value}
    assert type(document["a"]) is type(value)


def test_keys_become_text() -> None:
    assert codec.load_manifests("1: a\ntrue: b\n1.5: c\n'x': e\nn: f") == [
        {"1": "a", "true": "b", "1.5": "c", "x": "e", "false": "f"}
    ]


def test_several_documents_and_comments() -> None:
    text = "# first\nkind: A\n---\n# nothing\n---\n---\nkind: B\n...\n"
    assert codec.load_manifests(text) == [{"kind": "A"}, {"kind": "B"}]
    assert codec.load_manifests("") == []
    assert codec.load_manifests('{"a": 1}\n{"b": [2]}\n---\n{"c": "\\u00e9"}') == [{"a": 1}, {"b": [2]}, {"c": "é"}]
    assert codec.load_manifests("{a: 1, b: [x]}") == [{"a": 1, "b": ["x"]}]
    assert codec.load_manifests(b"\xef\xbb\xbfa: 1") == [{"a": 1}]


def test_anchors_and_merges() -> None:
    text = "base: &b {x: 1, w: 2}\na:\n  <<: *b\n  w: 3\nl: [*b, *b]\nm:\n  <<: [*b, {z: 9}]\n"
    (document,) = codec.load_manifests(text)
    assert document["a"] == {"x": 1, "w": 3}
    assert document["l"] == [{"x": 1, "w": 2}] * 2
    assert document["m"] == {"x": 1, "w": 2, "z": 9}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\na: 2", "duplicate field"),
        ("a:\n  b: {c: 1, c: 2}", r'duplicate field "a\.b\.c"'),
        ('{"a": 1, "a": 2}', "duplicate field"),
        ("- a", "is not an object"),
        ("text", "is not an object"),
        ("[1, 2", "not YAML"),
        ("a: b: c", "line 1, column 5"),
        ("a: 'x", "not YAML"),
        ("\ta: 1", "not YAML"),
        ("~: 1", "cannot be the key"),
        ("? [a]\n: 1", "cannot be the key"),
        ("? {a: b}\n: 1", "cannot be the key"),
        ("a: .inf", "not a number"),
        ("a: .NaN", "not a number"),
        ("a: 1e999", "too large"),
        ('{"a": 1} {"b": NaN}', "not YAML"),
        ('{"a": 1} {"b": 1e999}', "not YAML"),
        ('{"a": 1} {"b": ' + "1" * 5000 + "}", "not YAML"),
        ("a: !thing x", "tag"),
        ("a: !!python/object:os.system {}", "tag"),
        ("a: !!int x", "is no !!int"),
        ("a: &a [*a]", "alias"),
        ("a: *b", "alias"),
        ("<<: 5", "merges objects only"),
        ("a: \x00", "control characters"),
    ],
)
def test_what_cannot_be_read_is_told(text: str, why: str) -> None:
    with pytest.raises(BadRequestError, match=why):
        codec.load_manifests(text)


def _laughs() -> str:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for name, previous in zip("bcdefghij", "abcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{', '.join(['*' + previous] * 9)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10_000,
        "a: " + "{b: " * 10_000,
        "\n".join(" " * depth + f"a{depth}:" for depth in range(2000)),
        "- " * 10_000,
        '{"a":' * 10_000,
        _laughs(),
        "a: &a " + "x" * 1000 + "\nb: [" + ", ".join(["*a"] * 200_000) + "]",
        "a: [" + "1," * 400_000 + "]",
        "? " * 10_000,
        "&a " * 10_000,
    ],
    ids=lambda text: text[:12],
)
def test_bombs_are_refused(text: str) -> None:
    with pytest.raises(BadRequestError):
        codec.load_manifests(text)


def test_large_but_harmless_files_are_read() -> None:
    assert len(codec.load_manifests("---\na: 1\n" * 2000)) == 2000
    assert len(codec.load_manifests('{"a":1} ' * 2000)) == 2000
    assert codec.load_manifests("a: " + "9" * 100_000) == [{"a": "9" * 100_000}]
    with pytest.raises(RequestTooLargeError, match="bytes"):
        codec.from_yaml("a: " + "x" * 4_000_000, core.Pod)


def test_typed_reading_reports_issues() -> None:
    text = "kind: Pod\napiVersion: v1\nmetadata: {name: a, name: b}\nspec: {containers: [{name: c, imagee: x}]}\n"
    decoded = codec.from_yaml(text, core.Pod)
    assert [str(issue) for issue in decoded.issues] == [
        'duplicate field "metadata.name"', 'unknown field "spec.containers[0].imagee"',
    ]  # fmt: skip
    with pytest.raises(BadRequestError, match="strict decoding error"):
        codec.from_yaml(text, core.Pod, validation="Strict")
    with pytest.raises(BadRequestError, match="one YAML document is wanted, not 2"):
        codec.from_yaml("a: 1\n---\nb: 1", core.Pod)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn", "Co"), exclude_characters="\ufeff")),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(st.characters(codec="ascii", exclude_categories=("Cc",)), max_size=8), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(
    st.dictionaries(st.text(st.characters(codec="ascii", exclude_categories=("Cc",)), max_size=8), VALUES, max_size=4)
)
def test_what_is_dumped_is_read_back(value: dict[str, Any]) -> None:
    assert codec.load_manifests(codec.to_yaml(value)) == [value]


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        codec.load_manifests(text)
    except BadRequestError:
        return


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "y",
        "0755",
        "1e3",
        "1_0",
        "~",
        "",
        "a: b",
        "- x",
        "# x",
        "<<",
        "1:2",
        " x",
        "x ",
        "a\nb\n",
        "a\n\n",
        "\ta\nb",
    ],
)
def test_text_stays_text(text: str) -> None:
    assert codec.load_manifests(codec.to_yaml({"k": text, text: 1})) == [{"k": text, text: 1}]
