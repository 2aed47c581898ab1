"""Exact money: text, limits, the one rounding, prices, apportionment and credits, by hand.

Put here: the behaviour of `domain.money`, with sums that are easy to repeat.
Not here: the same over random invoices (`tests/properties/test_properties_money`).
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from billing.rendering.quantities import hours_text
from domain.errors import InvalidValue
from domain.money import (
    LARGEST_NANOS,
    Money,
    apportion,
    divide_rounding_half_even,
    format_estimate,
    format_nanos,
    minor_unit_digits,
    parse_nanos,
    price_nanos,
    round_lines_to_minor_units,
)

EUR = "EUR"
CENT = 10_000_000  # nanos


def eur(text: str) -> Money:
    return Money(parse_nanos(text), EUR)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("1", 1_000_000_000),
        ("1.803", 1_803_000_000),
        ("0.000000001", 1),
        ("-0.5", -500_000_000),
        ("-0", 0),
        ("007.50", 7_500_000_000),
        (" 6.04 ", 6_040_000_000),
        ("0.0090000000000", 9_000_000),  # zeros beyond the ninth decimal are allowed
        ("99999999999999999999999999999.999999999", LARGEST_NANOS),
        ("-99999999999999999999999999999.999999999", -LARGEST_NANOS),
    ],
)
def test_decimal_text_is_read_exactly(text: str, nanos: int) -> None:
    assert parse_nanos(text) == nanos


@pytest.mark.parametrize(
    "text",
    ["", ".", "1.", ".5", "+1", "1e3", "1E-9", "1,5", "1_000", "1 000", "0x10", "NaN", "Infinity",
     "--1", "١٢", "½", "1.5€", "0.0000000001", "0.0000087890625", "=1+1", "1\x00",
     "9" * 30, "1" * 1_000_000],
)  # fmt: skip
def test_text_that_is_not_exact_nanos_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_nanos(text)
    assert len(refused.value.message()) < 500


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "0"),
        (1, "0.000000001"),
        (-1, "-0.000000001"),
        (1_803_000_000, "1.803"),
        (10**9, "1"),
        (-10_500_000_000, "-10.5"),
        (LARGEST_NANOS, "99999999999999999999999999999.999999999"),
    ],
)
def test_nanos_are_written_exactly_and_read_back(nanos: int, text: str) -> None:
    assert format_nanos(nanos) == text
    assert parse_nanos(text) == nanos


def test_amounts_to_pay_are_written_with_both_cents() -> None:
    assert format_nanos(parse_nanos("12.5"), fewest_decimals=2) == "12.50"
    assert format_nanos(parse_nanos("12"), fewest_decimals=2) == "12.00"
    assert format_nanos(parse_nanos("12.345"), fewest_decimals=2) == "12.345"


def test_amounts_of_38_digits_are_accepted_and_the_next_nano_refused() -> None:
    assert int("9" * 38) == LARGEST_NANOS
    assert LARGEST_NANOS < 2**127
    assert Money(LARGEST_NANOS, EUR).nanos == LARGEST_NANOS
    with pytest.raises(InvalidValue):
        Money(LARGEST_NANOS + 1, EUR)
    with pytest.raises(InvalidValue):
        Money(-LARGEST_NANOS - 1, EUR)


@pytest.mark.parametrize("nanos", [1.0, True, Decimal(1), "1"])
def test_money_consists_of_integers_only(nanos: object) -> None:
    with pytest.raises(TypeError):
        Money(nanos, EUR)  # type: ignore[arg-type]


def test_the_text_of_the_largest_amount_keeps_every_digit() -> None:
    assert str(Money(LARGEST_NANOS, EUR)) == "9" * 29 + "." + "9" * 9 + " EUR"
    assert str(eur("1.803")) == "1.803 EUR"


@pytest.mark.parametrize("text", ["", "eur", "EURO", "E1R", "€", "EU\n", "ＥＵＲ"])
def test_a_currency_is_three_capital_letters(text: str) -> None:
    with pytest.raises(InvalidValue):
        Money(1, text)


@pytest.mark.parametrize(
    ("numerator", "denominator", "expected"),
    [
        (5, 2, 2),  # halves are rounded to even …
        (7, 2, 4),
        (-5, 2, -2),
        (-7, 2, -4),
        (1, 2, 0),
        (3, 2, 2),
        (-1, 2, 0),
        (51, 20, 3),  # … but only exact halves
        (49, 20, 2),
        (10**60 + 1, 2 * 10**60, 1),  # one part in 10⁶⁰ above the half
        (10**60 - 1, 2 * 10**60, 0),
        (0, 7, 0),
        (14, 7, 2),
    ],
)
def test_rounding_is_half_even(numerator: int, denominator: int, expected: int) -> None:
    assert divide_rounding_half_even(numerator, denominator) == expected


@pytest.mark.parametrize("denominator", [0, -1])
def test_a_denominator_is_above_zero(denominator: int) -> None:
    with pytest.raises(ValueError, match="denominator"):
        divide_rounding_half_even(1, denominator)


def test_prices_equal_hand_calculations() -> None:
    one = Fraction(1)
    assert price_nanos(3600, one, parse_nanos("1.803")) == parse_nanos("1.803")
    # Half an hour of a 3g slice at weight 1/2: 1.803 / 4 = 0.45075
    assert price_nanos(1800, Fraction(1, 2), parse_nanos("1.803")) == parse_nanos("0.45075")
    # A month of 720 hours on eight cards: 720 * 8 * 6.04 = 34790.4
    assert price_nanos(720 * 3600 * 8, one, parse_nanos("6.04")) == parse_nanos("34790.4")
    # One second of a seventh: 1.803 / 25200 = 0.000071547619…
    assert price_nanos(1, Fraction(1, 7), parse_nanos("1.803")) == 71_548
    assert price_nanos(0, one, parse_nanos("1.803")) == 0
    assert price_nanos(3600, one, 0) == 0


def test_a_price_of_exactly_half_a_nano_is_rounded_to_even() -> None:
    assert price_nanos(1, Fraction(1), 1800) == 0  # 0.5
    assert price_nanos(3, Fraction(1), 1800) == 2  # 1.5
    assert price_nanos(5, Fraction(1), 1800) == 2  # 2.5


def test_a_rounded_weight_would_lose_money_and_the_fraction_does_not() -> None:
    """Seven sevenths of a card for a month cost as much as the card, to the nano."""
    seconds, rate = 720 * 3600, parse_nanos("1.803")
    assert 7 * price_nanos(seconds, Fraction(1, 7), rate) - price_nanos(
        seconds, Fraction(1), rate
    ) in range(-3, 4)
    assert price_nanos(7 * seconds, Fraction(1, 7), rate) == price_nanos(seconds, Fraction(1), rate)


def test_a_price_that_38_digits_cannot_hold_is_refused() -> None:
    with pytest.raises(InvalidValue):
        price_nanos(10**20, Fraction(1), 10**30)


@pytest.mark.parametrize(
    ("currency", "digits", "rounded"),
    [("EUR", 2, "12.34"), ("JPY", 0, "12"), ("KWD", 3, "12.345"), ("CLF", 4, "12.345")],
)
def test_minor_units_depend_on_the_currency(currency: str, digits: int, rounded: str) -> None:
    assert minor_unit_digits(currency) == digits
    lines = {"a": parse_nanos("12.345")}
    assert round_lines_to_minor_units(lines, currency).lines == {"a": parse_nanos(rounded)}


@pytest.mark.parametrize(
    ("nanos", "currency", "shown"),
    [
        (1_239_999_999, "EUR", "1.23 EUR"),
        (1_200_000_000, "EUR", "1.20 EUR"),
        (0, "EUR", "0.00 EUR"),
        (1_999_999_999, "JPY", "1 JPY"),
        (-1_239_999_999, "EUR", "-1.23 EUR"),
        (-1, "EUR", "0.00 EUR"),
    ],
)
def test_an_estimate_is_shown_in_whole_minor_units(nanos: int, currency: str, shown: str) -> None:
    assert format_estimate(nanos, currency) == shown


@pytest.mark.parametrize(
    ("exact", "cents"),
    [("0.125", "0.12"), ("0.135", "0.14"), ("0.125000001", "0.13"), ("-0.125", "-0.12")],
)
def test_a_total_is_rounded_half_even_to_the_cent(exact: str, cents: str) -> None:
    total = round_lines_to_minor_units({"a": parse_nanos(exact)}, EUR).total_nanos
    assert total == parse_nanos(cents)


def test_ten_over_three_equal_parts_goes_to_the_first_key() -> None:
    assert apportion(10, {"c": 1, "a": 1, "b": 1}) == {"c": 3, "a": 4, "b": 3}


def test_the_largest_remainders_are_rounded_up() -> None:
    # Exact shares of 100: 16.67, 33.33, 50; the 0.67 is rounded up.
    assert apportion(100, {"a": 1, "b": 2, "c": 3}) == {"a": 17, "b": 33, "c": 50}
    # 1/7, 2/7, 4/7 of 10: 1.43, 2.86, 5.71; the 0.86 and then the 0.71.
    weights = {"a": Fraction(1, 7), "b": Fraction(2, 7), "c": Fraction(4, 7)}
    assert apportion(10, weights) == {"a": 1, "b": 3, "c": 6}


def test_apportionment_does_not_depend_on_the_order_of_parts() -> None:
    weights = {"pod-b": 3, "pod-a": 3, "pod-c": 3, "pod-d": 1}
    backwards = dict(reversed(weights.items()))
    assert apportion(101, weights) == apportion(101, backwards)


def test_a_void_is_its_invoice_negated() -> None:
    weights = {"a": 1, "b": 1, "c": 1}
    assert apportion(-10, weights) == {"a": -4, "b": -3, "c": -3}


def test_parts_with_weight_zero_get_nothing() -> None:
    assert apportion(5, {"a": 0, "b": 2, "c": 0}) == {"a": 0, "b": 5, "c": 0}
    assert apportion(0, {"a": 0, "b": 0}) == {"a": 0, "b": 0}
    assert apportion(0, {}) == {}


@pytest.mark.parametrize("weights", [{}, {"a": 0}, {"a": 2, "b": -1}])
def test_an_amount_without_a_part_to_take_it_is_refused(weights: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="cannot share"):
        apportion(1, weights)


def test_three_thirds_of_a_cent_make_an_invoice_of_one_cent() -> None:
    third = parse_nanos("0.003333333")
    invoice = round_lines_to_minor_units({"a": third, "b": third, "c": third + 1}, EUR)
    assert invoice.exact_nanos == CENT
    assert invoice.total_nanos == CENT
    assert invoice.lines == {"a": 0, "b": 0, "c": CENT}


def test_the_exact_sum_is_rounded_and_not_the_lines() -> None:
    """Rounded one by one the lines would add up to 0.00; their exact sum is 0.012."""
    lines = {"a": parse_nanos("0.004"), "b": parse_nanos("0.004"), "c": parse_nanos("0.004")}
    invoice = round_lines_to_minor_units(lines, EUR)
    assert invoice.total_nanos == CENT
    assert invoice.lines == {"a": CENT, "b": 0, "c": 0}  # equal remainders: the first key


def test_lines_and_credits_add_up_to_the_total() -> None:
    lines = {"line": parse_nanos("10.006"), "credit": parse_nanos("-2.003")}
    invoice = round_lines_to_minor_units(lines, EUR)
    assert invoice.total_nanos == parse_nanos("8.00")
    assert invoice.lines == {"line": parse_nanos("10"), "credit": parse_nanos("-2")}


def test_lines_of_whole_cents_are_unchanged() -> None:
    lines = {"a": 7 * CENT, "b": -2 * CENT, "c": 0}
    assert round_lines_to_minor_units(lines, EUR).lines == lines


def test_an_invoice_without_lines_is_zero() -> None:
    invoice = round_lines_to_minor_units({}, EUR)
    assert (invoice.total_nanos, dict(invoice.lines)) == (0, {})


def test_yen_are_rounded_to_whole_yen() -> None:
    lines = {"a": parse_nanos("10.5"), "b": parse_nanos("10.25")}
    invoice = round_lines_to_minor_units(lines, "JPY")
    assert invoice.total_nanos == parse_nanos("21")
    assert invoice.lines == {"a": parse_nanos("11"), "b": parse_nanos("10")}


def test_a_rounded_amount_of_zero_has_no_sign() -> None:
    assert format_estimate(-1, EUR) == "0.00 EUR"
    assert hours_text(-1) == "0.00"
    assert (format_nanos(-1), format_nanos(0)) == ("-0.000000001", "0")  # exact amounts keep it
