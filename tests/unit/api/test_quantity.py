from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.api import quantity
from wharfinger.api.quantity import Quantity


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        ("-0", "0"),
        ("1", "1"),
        ("1.", "1"),
        (".5", "500m"),
        ("0.5Gi", "512Mi"),
        ("1500m", "1500m"),
        ("1000m", "1"),
        ("1024Ki", "1Mi"),
        ("1023Ki", "1023Ki"),
        ("1000Ki", "1000Ki"),
        ("1.5Gi", "1536Mi"),
        ("100Mi", "100Mi"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("1E", "1E"),
        ("1000k", "1M"),
        ("1500k", "1500k"),
        ("10e2", "1e3"),
        ("1e-3", "1e-3"),
        ("0.0000000001", "1n"),
        ("0.1n", "1n"),
        ("1.0000000001", "1000000001n"),
        ("-0.1n", "-1n"),
        ("100u", "100u"),
        ("0.5Mi", "512Ki"),
        ("0.0001Ki", "102400u"),
        ("512", "512"),
        ("2048", "2048"),
        ("+5", "5"),
        ("-1Ki", "-1Ki"),
        ("1Ei", "1Ei"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9223372036854775807"),
        ("1e30", "9223372036854775807"),
        ("123456789", "123456789"),
        ("1.2345678901", "1234567891n"),
        ("1e1", "10"),
        ("1e4", "10e3"),
        ("12e6", "12e6"),
        ("1.1Ki", "1126400m"),
        ("0.25", "250m"),
        ("3Mi", "3Mi"),
        ("1e0", "1"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    assert quantity.canonical(text) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "-",
        "1 ",
        " 1",
        "1KB",
        "1kk",
        "Mi",
        "1e",
        "1e+",
        "--1",
        "1i",
        "0x10",
        "1,5",
        "1_0",
        "NaN",
        "Inf",
        "1mi",
        "1K",
        "\u0661",
        "1" * 600,
        "1e1.5",
    ],
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.parse(text)


def test_empty_counts_as_zero_where_fields_are_read() -> None:
    assert (quantity.canonical(""), quantity.value(""), quantity.milli_value("")) == ("0", 0, 0)


def test_huge_exponents_cost_nothing() -> None:
    assert str(quantity.parse("1e999999999999")) == "9223372036854775807"
    assert quantity.parse("1e-999999999999").nanos == 1


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("100m", 1, 100),
        ("1", 1, 1000),
        ("1.0001", 2, 1001),
        ("-100m", -1, -100),
        ("1Gi", 2**30, 2**30 * 1000),
        ("0", 0, 0),
        ("1n", 1, 1),
    ],
)
def test_values_round_away_from_zero(text: str, value: int, milli: int) -> None:
    parsed = quantity.parse(text)
    assert (parsed.value(), parsed.milli_value()) == (value, milli)


def test_arithmetic_keeps_the_format_of_the_first_that_is_not_zero() -> None:
    assert str(quantity.parse("1Gi") + quantity.parse("1024")) == "1048577Ki"
    assert str(quantity.parse("0") + quantity.parse("1Mi")) == "1Mi"
    assert str(quantity.parse("1") - quantity.parse("250m")) == "750m"
    assert quantity.parse("1024Mi") == quantity.parse("1Gi")
    assert quantity.parse("1") < quantity.parse("1Ki")
    assert str(Quantity.of_milli(1500)) == "1500m"
    assert str(Quantity.of(3) * 2) == "6"


NOTATIONS = st.builds(
    lambda whole, fraction, suffix: f"{whole}{fraction}{suffix}",
    st.integers(0, 10**12),
    st.one_of(st.just(""), st.integers(0, 10**10).map(lambda n: f".{n}")),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e2", "E-3", "e3"]),
)


@given(NOTATIONS)
def test_canonical_form_is_stable_and_exact(text: str) -> None:
    once = quantity.canonical(text)
    assert quantity.canonical(once) == once
    assert quantity.parse(once) == quantity.parse(text)


@given(NOTATIONS)
def test_value_is_the_ceiling(text: str) -> None:
    parsed = quantity.parse(text)
    exact = Fraction(parsed.nanos, quantity.NANO)
    assert parsed.value() - 1 < exact <= parsed.value()


@given(NOTATIONS, NOTATIONS)
def test_sums_are_exact(one: str, other: str) -> None:
    total = quantity.parse(one) + quantity.parse(other)
    assert total.nanos == min(quantity.parse(one).nanos + quantity.parse(other).nanos, (2**63 - 1) * quantity.NANO)
