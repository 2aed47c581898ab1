"""Exact money: whole numbers of 10⁻⁹ currency units (nanos), and the only place that rounds them.

Put here: amounts and their text, the price of a charge, rounding to cents, sharing a sum out.
Not here: which rate applies (`domain.decisions`), or the layout of an invoice (`billing`).

`dbt/macros` has the twin of `price_nanos`; a test gives both the same random input.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import lcm

from domain.errors import BadInput, InvalidValue

NANOS_PER_UNIT = 1_000_000_000
"""10⁻⁹ of a unit keeps every published GPU-hour price exactly, and a second of it to 0.001 cent."""

SECONDS_PER_HOUR = 3600

LARGEST_NANOS = 10**38 - 1
"""The largest `DECIMAL(38,0)`; it is below 2¹²⁷, so a signed 128-bit integer holds it too."""

_AMOUNT = re.compile(r"(-?)(\d{1,29})(?:\.(\d+))?", re.ASCII)
_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)
_LONGEST_TEXT_SHOWN = 60


class CurrenciesDiffer(BadInput):
    """One sum or comparison has amounts in two currencies."""

    code = "DEC-002"

    def __init__(self, left: str, right: str, where: str) -> None:
        super().__init__(
            where=where,
            seen=f"amounts in {left} and in {right}",
            why="gpu-ledger has no exchange rates, so it cannot add the two",
            remedy="use one currency per ledger: check the column currency of rates.csv",
        )


@dataclass(frozen=True, slots=True)
class Money:
    """An amount and its currency."""

    nanos: int
    currency: str

    def __post_init__(self) -> None:
        require_nanos(self.nanos)
        require_currency(self.currency)

    def __str__(self) -> str:
        return f"{format_nanos(self.nanos)} {self.currency}"


# Amounts and currencies as text -------------------------------------------------------------------


def require_currency(text: str, where: str = "a currency") -> str:
    """Return the currency code. Only its form is checked, so a site may use a code of its own."""
    if not _CURRENCY.fullmatch(text):
        raise InvalidValue(
            where=where,
            seen=f"{text[:_LONGEST_TEXT_SHOWN]!r} is not a currency code",
            why="only amounts of one currency are added",
            remedy="write the three capital letters of ISO 4217, such as EUR",
        )
    return text


def require_nanos(nanos: int, where: str = "an amount") -> int:
    """Return `nanos`, if the warehouse can store it."""
    if isinstance(nanos, bool) or not isinstance(nanos, int):
        raise TypeError(f"nanos are a whole number, not {type(nanos).__name__}")
    if abs(nanos) > LARGEST_NANOS:
        raise InvalidValue(
            where=where,
            seen=f"an amount of {len(str(abs(nanos)))} digits of nanos; at most 38 fit",
            why="the warehouse stores money as DECIMAL(38,0)",
            remedy="look for a rate or a quantity with too many zeros",
        )
    return nanos


def parse_nanos(text: str, where: str = "an amount") -> int:
    """Read plain decimal text (`1.803`) exactly."""
    match = _AMOUNT.fullmatch(text.strip())
    if not match:
        shown = repr(text[:_LONGEST_TEXT_SHOWN])
        raise _invalid_amount(where, f"{shown} is not a plain decimal number")
    sign, whole, decimals = match[1], match[2], (match[3] or "").rstrip("0")
    if len(decimals) > 9:
        seen = f"{text.strip()!r} has {len(decimals)} decimals; at most 9 fit"
        raise _invalid_amount(where, seen)
    nanos = int(whole) * NANOS_PER_UNIT + int(decimals.ljust(9, "0"))
    return require_nanos(-nanos if sign else nanos, where)


def _invalid_amount(where: str, seen: str) -> InvalidValue:
    return InvalidValue(
        where=where,
        seen=seen,
        why="gpu-ledger stores money exactly, in units of 10⁻⁹",
        remedy="write it like 1.803: digits, a point, at most nine decimals, no exponent",
    )


def format_nanos(nanos: int, fewest_decimals: int = 0) -> str:
    """Write nanos as exact decimal text without an exponent."""
    whole, part = divmod(abs(require_nanos(nanos)), NANOS_PER_UNIT)
    decimals = f"{part:09}".rstrip("0").ljust(fewest_decimals, "0")
    return f"{'-' if nanos < 0 else ''}{whole}{'.' + decimals if decimals else ''}"


# Cents --------------------------------------------------------------------------------------------

_USUAL_DIGITS = 2
_OTHER_DIGITS = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
_DIGITS = {code: digits for digits, codes in _OTHER_DIGITS.items() for code in codes.split()}


@cache
def minor_unit_digits(currency: str) -> int:
    """Decimals of a payable amount, by ISO 4217: cents for most currencies, whole yen."""
    return _DIGITS.get(require_currency(currency), _USUAL_DIGITS)


def minor_unit_nanos(currency: str) -> int:
    """The smallest payable unit (one cent, for most currencies) in nanos."""
    return int(10 ** (9 - minor_unit_digits(currency)))


def format_estimate(nanos: int, currency: str) -> str:
    """An estimated amount for people: cut to minor units, never billed.

    Less than one unit below zero is 0 without a sign.
    """
    unit = minor_unit_nanos(currency)
    cut = abs(nanos) // unit * unit
    return f"{format_nanos(cut if nanos > 0 else -cut, minor_unit_digits(currency))} {currency}"


# Prices and rounding ------------------------------------------------------------------------------


def divide_rounding_half_even(numerator: int, denominator: int) -> int:
    """The whole number nearest to the quotient; of two equally near ones, the even one.

    Halves are rounded up as often as down, so a long list of lines does not drift.
    """
    if denominator <= 0:
        raise ValueError(f"cannot divide by {denominator}: the denominator must be above zero")
    quotient, remainder = divmod(numerator, denominator)
    twice = 2 * remainder
    if twice > denominator or (twice == denominator and quotient % 2):
        return quotient + 1
    return quotient


def price_nanos(device_seconds: int, weight: Fraction, rate_nanos_per_hour: int) -> int:
    """device-seconds × weight × rate ÷ 3600, rounded once, half-even."""
    numerator = device_seconds * weight.numerator * rate_nanos_per_hour
    nanos = divide_rounding_half_even(numerator, weight.denominator * SECONDS_PER_HOUR)
    return require_nanos(nanos, "a charge")


# Sharing a sum out --------------------------------------------------------------------------------
#
# Ties are broken by the key, never by the order of arrival: the same parts in another order get the
# same amounts. Keys are compared as text by code point, which is also how DuckDB orders them.


def apportion(total: int, weights: Mapping[str, int | Fraction]) -> dict[str, int]:
    """Share `total` (nanos, or cents) in proportion to the weights, by largest remainder.

    The parts add up to `total`, and each is within one unit of its exact share. A negative total is
    shared like the positive one and negated, so that a void undoes its invoice.
    """
    if any(weight < 0 for weight in weights.values()):
        raise ValueError(f"cannot share {total}: a weight is {min(weights.values())}")
    scale = lcm(*(weight.denominator for weight in weights.values()))
    scaled = {key: int(weight * scale) for key, weight in weights.items()}
    whole = sum(scaled.values())
    if whole == 0:
        if total:
            raise ValueError(f"cannot share {total}: the weights add up to 0")
        return dict.fromkeys(weights, 0)
    sign = -1 if total < 0 else 1
    shares = {key: divmod(abs(total) * weight, whole) for key, weight in scaled.items()}
    left = abs(total) - sum(share for share, _ in shares.values())
    raised = _largest_remainders({key: part for key, (_, part) in shares.items()}, left)
    return {key: sign * (share + (key in raised)) for key, (share, _) in shares.items()}


@dataclass(frozen=True, slots=True)
class RoundedLines:
    """A payable total, and lines in the same unit that add up to it."""

    exact_nanos: int  # the sum before rounding
    total_nanos: int  # the sum rounded once, half-even, to whole cents
    lines: Mapping[str, int]  # nanos that are whole cents; they add up to total_nanos


def round_lines_to_minor_units(lines: Mapping[str, int], currency: str) -> RoundedLines:
    """Round an invoice: the exact sum once, then its lines by largest remainder to that sum.

    Lines may be negative (corrections, credits). Each line changes by less than a cent.
    """
    unit = minor_unit_nanos(currency)
    exact_nanos = require_nanos(sum(lines.values()), "a total")
    total_units = divide_rounding_half_even(exact_nanos, unit)
    floors = {key: divmod(nanos, unit) for key, nanos in lines.items()}
    left = total_units - sum(units for units, _ in floors.values())
    raised = _largest_remainders({key: part for key, (_, part) in floors.items()}, left)
    rounded = {key: (units + (key in raised)) * unit for key, (units, _) in floors.items()}
    return RoundedLines(exact_nanos, total_units * unit, rounded)


def _largest_remainders(remainders: Mapping[str, int], count: int) -> set[str]:
    """The keys of the `count` largest remainders; of equal ones the smaller key comes first."""
    if count == 0:
        return set()
    ordered = sorted(remainders, key=lambda key: (-remainders[key], key))
    return set(ordered[:count])
