from __future__ import annotations

import pytest

from wharfinger.api.validation import names


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.dns1123_label, ["a", "a-b", "0", "a" * 63], ["", "A", "-a", "a-", "a.b", "a_b", "ä", "a" * 64, "a\n"]),
        (names.dns1123_subdomain, ["a", "a.b", "0.1", "a" * 253], ["", "a..b", ".a", "a.", "A", "a_b", "a" * 254]),
        (names.dns1035_label, ["a", "a1", "a-b"], ["", "1a", "-a", "a.b", "a" * 64]),
        (
            names.qualified_name,
            ["A", "a_b.c", "example.com/Name"],
            ["", "/a", "a/", "a/b/c", "B.com/a", "-a", "a" * 64],
        ),
        (names.label_value, ["", "A", "a_b.c-1", "a" * 63], ["-a", "a-", "a b", "a/b", "a" * 64, "a\n"]),
        (names.port_name, ["http", "a-1"], ["", "8080", "HTTP", "-a", "a--b", "a" * 16]),
        (names.config_key, ["a.b", "_a", "A-1"], ["", ".", "..", "..a", "a/b", "a" * 254]),
        (names.path_segment, ["a", "A:b", "a%2"[:1]], [".", "..", "a/b", "a%b"]),
    ],
)
def test_rules(check: object, good: list[str], bad: list[str]) -> None:
    assert callable(check)
    for text in good:
        assert check(text) == (), text
    for text in bad:
        assert check(text), text


def test_one_text_may_break_two_rules() -> None:
    assert len(names.dns1123_label("A" * 64)) == 2


def test_endless_texts_stay_out_of_the_cache() -> None:
    endless = "a" * 1_000_000
    assert names.dns1123_subdomain(endless)
    assert names.label_value(endless)


def test_numbers() -> None:
    assert names.port_number(0)
    assert names.port_number(65536)
    assert not names.port_number(65535)
    assert names.user_id(-1)
    assert not names.user_id(0)


def test_generated_names_are_judged_as_if_complete() -> None:
    assert not names.generated(names.dns1123_subdomain, "web-")
    assert names.generated(names.dns1123_subdomain, "-web")
