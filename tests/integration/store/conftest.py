"""Stores and caches over a private etcd."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.store.helpers import Making
from tests.support.etcd import Etcd


@pytest.fixture
async def make(etcd: Etcd) -> AsyncIterator[Making]:
    making = Making(etcd)
    yield making
    await making.close()
