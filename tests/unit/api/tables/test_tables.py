"""Every kind has a table that an object without anything in it can fill."""

from __future__ import annotations

import pytest

from wharfinger.api import kinds
from wharfinger.api.kinds import Kind
from wharfinger.api.tables import table_for


@pytest.mark.parametrize("kind", [kind for kind in kinds.KINDS if kind.resource], ids=lambda kind: kind.group_resource)
def test_a_blank_object_fills_its_row(kind: Kind) -> None:
    table = table_for(kind)
    assert len(table.row(kind.message(), 0.0)) == len(table.columns)
    assert all(column.description for column in table.columns)
