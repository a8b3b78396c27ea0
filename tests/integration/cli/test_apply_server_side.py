"""``wharf apply --server-side``: the server knows whose a field is."""

from __future__ import annotations

import json

from tests.integration.cli.conftest import Wharf

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {color: %s}\n"


def test_conflicts_and_taking_over(wharf: Wharf) -> None:
    first = wharf("apply", "--server-side", "-f", "-", stdin=MAP % "red")
    assert first == "configmap/shared serverside-applied\n"
    assert wharf("apply", "--server-side", "-f", "-", stdin=MAP % "red") == first
    owners = json.loads(wharf("get", "cm", "shared", "-o", "json", "--show-managed-fields"))["metadata"][
        "managedFields"
    ]
    assert [(owner["manager"], owner["operation"]) for owner in owners] == [("kubectl", "Apply")]

    other = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    refused = wharf(*other, stdin=MAP % "blue", code=1)
    assert 'conflict with "kubectl" on .data.color' in refused
    assert wharf("get", "cm", "shared", "-o", "jsonpath={.data.color}") == "red"
    assert wharf(*other, "--force-conflicts", stdin=MAP % "blue") == first
    assert wharf("get", "cm", "shared", "-o", "jsonpath={.data.color}") == "blue"


def test_flags_that_do_not_go_together(wharf: Wharf) -> None:
    assert "--server-side" in wharf("apply", "--force-conflicts", "-f", "-", stdin=MAP % "red", code=1)
    assert "--dry-run=client" in wharf("apply", "--server-side", "--dry-run=client", "-f", "-", stdin=MAP % "x", code=1)
    dry = wharf("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=MAP % "red")
    assert dry == "configmap/shared serverside-applied (server dry run)\n"
    assert wharf("get", "cm", "shared", code=1).startswith("Error from server (NotFound)")
