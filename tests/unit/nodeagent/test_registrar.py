"""What is read of the Node."""

from __future__ import annotations

from nodeagent.registrar import Registrar
from wharfinger.api.types import core


def _node(version: str) -> core.Node:
    made = core.Node()
    made.metadata.resourceVersion = version
    return made


def test_what_is_read_counts_before_the_registration_and_when_it_is_newer() -> None:
    """The fence looks at the Node as soon as the agent runs."""
    registrar = Registrar.__new__(Registrar)
    registrar.node = core.Node()
    for version, known in (("5", "5"), ("4", "5"), ("10", "10")):
        registrar._take(_node(version))
        assert registrar.node.metadata.resourceVersion == known
