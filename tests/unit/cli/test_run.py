"""The pod that ``wharf run``'s flags stand for."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.cli.failures import CommandError
from wharfinger.cli.run import document_of

PLAIN: dict[str, Any] = {
    "name": "web", "words": (), "image": "nginx", "restart": "Always", "as_command": False, "variables": (),
    "labels": "", "annotations": (), "port": None, "image_pull_policy": None, "privileged": False, "stdin": False,
    "tty": False,
}  # fmt: skip


def test_plain() -> None:
    assert document_of(PLAIN) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "labels": {"run": "web"}},
        "spec": {"containers": [{"name": "web", "image": "nginx"}], "restartPolicy": "Always"},
    }


def test_everything() -> None:
    more = {
        "words": ("sh", "-c", "x"), "as_command": True, "variables": ("A=1=2",), "labels": "a=b,c=d",
        "annotations": ("e=f",), "port": 80, "image_pull_policy": "Never", "privileged": True, "stdin": True,
        "tty": True, "restart": "Never",
    }  # fmt: skip
    document = document_of(PLAIN | more)
    assert document["metadata"] == {"name": "web", "labels": {"a": "b", "c": "d"}, "annotations": {"e": "f"}}
    assert document["spec"]["containers"] == [
        {
            "name": "web", "image": "nginx", "command": ["sh", "-c", "x"], "env": [{"name": "A", "value": "1=2"}],
            "ports": [{"containerPort": 80}], "imagePullPolicy": "Never", "securityContext": {"privileged": True},
            "stdin": True, "stdinOnce": True, "tty": True,
        }
    ]  # fmt: skip
    assert document_of(PLAIN | {"words": ("-v",)})["spec"]["containers"][0]["args"] == ["-v"]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"image": ""}, "--image"),
        ({"as_command": True}, "--command"),
        ({"variables": ("A",)}, "--env"),
        ({"labels": "a"}, "--labels"),
        ({"annotations": ("=x",)}, "--annotations"),
    ],
)
def test_what_cannot_be_read(more: dict[str, Any], text: str) -> None:
    with pytest.raises(CommandError, match=text):
        document_of(PLAIN | more)
