"""Continue tokens."""

from __future__ import annotations

from base64 import urlsafe_b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.registry.paging import Position, decode, encode
from wharfinger.api.errors import BadRequestError

_names = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True)


@given(revision=st.integers(1, 2**63 - 1) | st.just(-1), namespace=_names, name=_names)
def test_tokens_come_back_as_they_were(revision: int, namespace: str, name: str) -> None:
    position = Position(revision, f"{namespace}/{name}")
    assert decode(encode(position)) == position


def test_the_notation_is_that_of_kubernetes() -> None:
    token = encode(Position(42, "default/web"))
    assert "=" not in token
    text = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    assert text == b'{"v":"meta.k8s.io/v1","rv":42,"start":"default/web\\u0000"}'


@given(st.text(max_size=80))
def test_anything_else_is_refused_by_name(token: str) -> None:
    with pytest.raises(BadRequestError, match="continue"):
        decode("!" + token)


@pytest.mark.parametrize("start", ["../x", "a/../../b", ".."])
def test_tokens_stay_in_their_collection(start: str) -> None:
    with pytest.raises(BadRequestError, match="out of the collection"):
        decode(encode(Position(7, start)))
