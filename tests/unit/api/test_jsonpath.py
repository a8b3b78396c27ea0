"""kubectl's JSONPath dialect, example by example."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.api.jsonpath import JSONPathError, Template, parse, relaxed

DATA: dict[str, Any] = {
    "kind": "List",
    "count": 2,
    "half": 0.5,
    "yes": True,
    "nothing": None,
    "items": [
        {
            "kind": "None",
            "metadata": {"name": "127.0.0.1", "labels": {"kubernetes.io/hostname": "127.0.0.1", "a.b": "dotted"}},
            "status": {"capacity": {"cpu": "4"}, "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.1"}]},
        },
        {
            "kind": "None",
            "metadata": {"name": "127.0.0.2"},
            "status": {
                "capacity": {"cpu": "8"},
                "addresses": [
                    {"type": "LegacyHostIP", "address": "127.0.0.2"},
                    {"type": "another", "address": "127.0.0.3"},
                ],
            },
        },
    ],
    "users": [
        {"name": "myself", "user": {}},
        {"name": "e2e", "user": {"username": "admin", "password": "secret"}, "age": 20},
    ],
    "numbers": [1, 2, 3, 4, 5],
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("plain text", "plain text"),
        ("{.kind}", "List"),
        ("{@.kind}", "List"),
        ("{$.kind}", "List"),
        ("kind is {.kind}", "kind is List"),
        ("{['kind']}", "List"),
        ('{["kind"]}', "List"),
        ("{.count} {.half} {.yes} {.nothing}", "2 0.5 true null"),
        ("{.items[*].metadata.name}", "127.0.0.1 127.0.0.2"),
        ("{range .items[*]}{.metadata.name}{'\\n'}{end}", "127.0.0.1\n127.0.0.2\n"),
        ("{range .items[*]}[{.kind}, {.status.capacity}] {end}", '[None, {"cpu":"4"}] [None, {"cpu":"8"}] '),
        ("{.items[0].metadata.labels.kubernetes\\.io/hostname}", "127.0.0.1"),
        ("{.items[0].metadata.labels['kubernetes\\.io/hostname']}", "127.0.0.1"),
        ("{.items[0].metadata.labels['a.b']}", "dotted"),
        ("{.items[*]['metadata.name', 'kind']}", "None None"),
        ("{.items[*]['kind','metadata']['name']}", "127.0.0.1 127.0.0.2"),
        ("{.items[1:].metadata.name}", "127.0.0.2"),
        ("{.numbers[-1]}", "5"),
        ("{.numbers[-2:]}", "4 5"),
        ("{.numbers[:2]}", "1 2"),
        ("{.numbers[1:4:2]}", "2 4"),
        ("{.numbers[0,2]}", "1 3"),
        ("{.numbers[2:2]}", ""),
        ("{..name}", "127.0.0.1 127.0.0.2 myself e2e"),
        ("{.users[*].name}", "myself e2e"),
        ('{.users[?(@.name=="e2e")].user.password}', "secret"),
        ("{.users[?(@.name == 'e2e')].user.password}", "secret"),
        ("{.users[?(@.name!='e2e')].name}", "myself"),
        ("{.users[?(@.age)].name}", "e2e"),
        ("{.users[?(@.age>=20)].name}", "e2e"),
        ("{.users[?(@.age < 20)].name}", ""),
        ("{.users[?(@.user.username)].name}", "e2e"),
        ('{.items[*].status.addresses[?(@.type=="another")].address}', "127.0.0.3"),
        ("{range .items[*]}{range .status.addresses[*]}{.address},{end};{end}", "127.0.0.1,;127.0.0.2,127.0.0.3,;"),
        ("{.missing}", ""),
        ("{.missing.deeper[*].x}", ""),
        ("{range .missing[*]}x{end}after", "after"),
        ("{.users[1].user}", '{"password":"secret","username":"admin"}'),
        ("{.numbers}", "[1,2,3,4,5]"),
        ('{"quoted \\" text"}', 'quoted " text'),
        ("{'tab\\there'}", "tab\there"),
        ("{.items[*].status.capacity.*}", "4 8"),
        ("{.users.*.name}", "myself e2e"),
        ("{ .kind }", "List"),
        ("{3}{true}", "3true"),
        ("{.users[0]}{@.count}", '{"name":"myself","user":{}}2'),
    ],
)  # fmt: skip
def test_results(template: str, expected: str) -> None:
    assert Template(template).render(DATA) == expected


@pytest.mark.parametrize(
    "template",
    ["{.a", "{.a[}", "{.a[x]}", "{.a['b]}", "{end}", "{.a[?(@.b=~'c')]}", "{.a[?(@.b==)]}", "{foo}",
     "{.a[1:2:3:4]}", "{.a[]}", "{#}"],
)  # fmt: skip
def test_what_cannot_be_parsed(template: str) -> None:
    with pytest.raises(JSONPathError):
        parse(template)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{.numbers[7]}", "index 7, length 5"),
        ("{.numbers[3:9]}", "index 8, length 5"),
        ("{.numbers[3:1]}", "greater than ending"),
        ("{.kind[0]}", "not array"),
        ("{.users[?(@.name > 3)]}", "incompatible types"),
        ("{.users[?(@..name == 'x')]}", ""),
    ],
)
def test_what_does_not_fit_the_data(template: str, words: str) -> None:
    if words:
        with pytest.raises(JSONPathError, match=words):
            Template(template).render(DATA)
    else:
        Template(template).render(DATA)


def test_missing_fields_can_be_errors() -> None:
    with pytest.raises(JSONPathError, match="missing is not found"):
        Template("{.missing}", allow_missing=False).render(DATA)
    # An absent field in a filter only makes the filter not match.
    assert Template("{.users[?(@.age)].name}", allow_missing=False).render(DATA) == "e2e"


@pytest.mark.parametrize(
    ("given_path", "full"),
    [("x.y", "{.x.y}"), (".x.y", "{.x.y}"), ("{x.y}", "{.x.y}"), ("{.x.y}", "{.x.y}"), ("[0]", "{[0]}")],
)
def test_relaxed_notation(given_path: str, full: str) -> None:
    assert relaxed(given_path) == full


def test_relaxed_notation_refuses_half_a_brace() -> None:
    with pytest.raises(JSONPathError):
        relaxed("{.x")


@given(st.text(max_size=30))
def test_any_template_is_parsed_or_refused(template: str) -> None:
    try:
        Template(template).render(DATA)
    except JSONPathError:
        pass
    except RecursionError:  # pragma: no cover
        pytest.fail("a template must not exhaust the stack")


@given(st.text(alphabet="{}[]().'\"\\@$?*,:=ab0 rangend", max_size=40))
def test_templates_of_syntax_are_parsed_or_refused(template: str) -> None:
    with contextlib.suppress(JSONPathError):
        Template(template).render(DATA)


def test_state_is_kept_apart() -> None:
    template = Template("{range .items[*]}{.metadata.name} {end}")
    assert template.render(DATA) == template.render(DATA)
    assert Template("{.kind}").find(DATA) == [["List"]]
    assert Template("{.numbers[*]}").values(DATA) == [1, 2, 3, 4, 5]
