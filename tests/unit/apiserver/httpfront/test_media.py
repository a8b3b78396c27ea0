"""Accept headers and what they lead to."""

from __future__ import annotations

import pytest

from controlplane.apiserver.httpfront import media
from controlplane.apiserver.request import JSON, PROTOBUF, YAML
from wharfinger.api.errors import NotAcceptableError

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", media.Form()),
        ("*/*", media.Form()),
        ("application/yaml", media.Form(YAML)),
        ("APPLICATION/JSON", media.Form(JSON)),
        (f"{PROTOBUF},application/json", media.Form(PROTOBUF)),
        ("application/json;q=0.2, application/yaml;q=0.8", media.Form(YAML)),
        ("text/html, */*;q=0.1", media.Form()),
        (f"{TABLE},application/json", media.Form(JSON, media.TABLE)),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", media.Form(JSON, media.TABLE, "v1beta1")),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", media.Form()),
        (f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io,{TABLE}", media.Form(JSON, media.TABLE)),
        ("application/json;pretty=1", media.Form()),
        ("application/json;q=nonsense", media.Form()),
    ],
)
def test_the_best_clause_wins(accept: str, form: media.Form) -> None:
    assert media.negotiate(accept) == form


@pytest.mark.parametrize(
    "accept", ["text/html", "application/*", "bogus", "application/json;as=Cake;v=v1;g=meta.k8s.io"]
)
def test_what_is_not_there_is_refused(accept: str) -> None:
    with pytest.raises(NotAcceptableError):
        media.negotiate(accept)
    assert media.for_errors(accept) == JSON


def test_content_types_lose_their_parameters() -> None:
    assert media.content_type("application/JSON; charset=utf-8") == JSON
    assert media.content_type("") == JSON
