"""The one place that rounds, and the price of a charge.

Put here: the rounding, whose name says how, and what is priced by it.
Not here: how a rounded sum is shared out (`domain.money.apportionment`).

`dbt/macros` has the twin of `price_nanos`; a test gives both the same random input.
"""

from __future__ import annotations

from fractions import Fraction

from domain.money.amount import Money, require_nanos
from domain.money.minor_units import minor_unit_nanos

SECONDS_PER_HOUR = 3600


def divide_rounding_half_even(numerator: int, denominator: int) -> int:
    """The whole number nearest to the quotient; of two equally near ones, the even one.

    Half-even, because halves then go up as often as down and a long list of lines has no drift.
    """
    if denominator <= 0:
        raise ValueError(f"cannot divide by {denominator}: a denominator is above zero")
    quotient, remainder = divmod(numerator, denominator)
    twice = 2 * remainder
    if twice > denominator or (twice == denominator and quotient % 2):
        return quotient + 1
    return quotient


def price_nanos(device_seconds: int, weight: Fraction, rate_nanos_per_hour: int) -> int:
    """device-seconds × weight × rate ÷ 3600, exact until it is rounded once, half-even."""
    numerator = device_seconds * weight.numerator * rate_nanos_per_hour
    nanos = divide_rounding_half_even(numerator, weight.denominator * SECONDS_PER_HOUR)
    return require_nanos(nanos, "a charge")


def round_to_minor_units(amount: Money) -> Money:
    """The amount rounded once, half-even, to what can be paid (cents, for most currencies)."""
    unit = minor_unit_nanos(amount.currency)
    return Money(divide_rounding_half_even(amount.nanos, unit) * unit, amount.currency)
