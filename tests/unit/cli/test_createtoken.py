"""What ``wharf create token`` asks for."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.cli.createtoken import token_spec
from wharfinger.cli.failures import CommandError

_NONE: dict[str, Any] = {
    "audiences": (), "duration": None, "bound_object_kind": "", "bound_object_name": "", "bound_object_uid": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "spec"),
    [
        ({}, {}),
        ({"duration": "0s"}, {}),
        ({"duration": "1h30m", "audiences": ("a", "b")}, {"audiences": ["a", "b"], "expirationSeconds": 5400}),
        (
            {"bound_object_kind": "pod", "bound_object_name": "web"},
            {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web"}},
        ),
        (
            {"bound_object_kind": "Node", "bound_object_name": "n", "bound_object_uid": "u"},
            {"boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}},
        ),
    ],
)
def test_flags(flags: dict[str, Any], spec: dict[str, Any]) -> None:
    assert token_spec({**_NONE, **flags}) == spec


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"audiences": ("",)}, "must not be an empty string"),
        ({"duration": "-1s"}, "greater than or equal to 0"),
        ({"duration": "1500ms"}, "units less than seconds"),
        ({"duration": "soon"}, '"--duration"'),
        ({"bound_object_name": "web"}, "only be set if --bound-object-kind"),
        ({"bound_object_uid": "u"}, "only be set if --bound-object-kind"),
        ({"bound_object_kind": "Pod"}, "--bound-object-name must be provided"),
        ({"bound_object_kind": "Service", "bound_object_name": "x"}, "values are Node, Pod, Secret"),
    ],
)
def test_flags_that_do_not_fit(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        token_spec({**_NONE, **flags})
