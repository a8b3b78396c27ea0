"""Columns of tables and of describe."""

from __future__ import annotations

import io

from wharfinger.cli.columns import ColumnWriter, clean
from wharfinger.cli.describing.layout import align


def _written(writer: ColumnWriter, out: io.StringIO, *rows: list[str]) -> list[str]:
    before = len(out.getvalue())
    writer.write(rows)
    return out.getvalue()[before:].splitlines()


def test_columns_are_at_least_six_wide_and_the_last_is_not_padded() -> None:
    out = io.StringIO()
    writer = ColumnWriter(out)
    assert _written(writer, out, ["A", "NAME", "AGE"], ["x", "longer-name", "5m"]) == [
        "A     NAME          AGE",
        "x     longer-name   5m",
    ]


def test_widths_are_remembered() -> None:
    out = io.StringIO()
    writer = ColumnWriter(out)
    _written(writer, out, ["NAME", "AGE"], ["a-long-name", "1s"])
    assert _written(writer, out, ["x", "2s"]) == ["x             2s"]


def test_cells_do_not_break_the_terminal() -> None:
    assert clean("one\ntwo") == "one..."
    assert clean("\x1b[31mred") == "^[[31mred"


def test_a_block_ends_with_a_line_that_lacks_the_column() -> None:
    assert align(["a:\t1", "longer:\t2", "x", "b:\t3"]) == ["a:       1", "longer:  2", "x", "b:  3"]
    assert align(["a\tb\tc", "aaa\tbbb\tc"]) == ["a    b    c", "aaa  bbb  c"]
