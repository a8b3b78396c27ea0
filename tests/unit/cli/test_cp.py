"""Which side of a copy is which."""

from __future__ import annotations

import pytest

from wharfinger.cli.cp import Place, parse_place
from wharfinger.cli.failures import CommandError


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("notes.txt", Place("notes.txt")),
        ("./a:b", Place("./a:b")),
        ("/tmp/a:b", Place("/tmp/a:b")),
        ("web:/tmp", Place("/tmp", "web")),
        ("default/web:tmp/x:y", Place("tmp/x:y", "web", "default")),
        ("web:", Place("", "web")),
    ],
)
def test_places(text: str, place: Place) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize("text", [":/tmp", "a/b/c:/tmp", "a//web:/tmp", "default/:/x"])
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(CommandError, match="canonical format"):
        parse_place(text)
