"""Fixtures of the controllers' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.controllers.plane import Plane
from tests.support.etcd import have_etcd


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A control plane shared by the tests of a module; pods tolerate a lost node for two seconds."""
    if not have_etcd():
        pytest.skip("needs an etcd binary on the path (apt install etcd-server etcd-client)")
    tolerations = ("--default-not-ready-toleration-seconds", "2", "--default-unreachable-toleration-seconds", "2")
    with Plane(*tolerations) as made:
        yield made
