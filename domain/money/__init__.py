"""Exact money: whole numbers of 10⁻⁹ currency units, and the one place that rounds them.

Put here: amounts, the rounding, the price of a charge, and how a sum is shared out.
Not here: which rate applies (`domain.decisions`), or what an invoice looks like.
"""

from domain.money.amount import (
    LARGEST_NANOS,
    NANOS_PER_UNIT,
    AmountOutOfBounds,
    CurrenciesDiffer,
    Money,
    NotACurrency,
    NotAnAmount,
    format_nanos,
    parse_nanos,
    require_currency,
    require_nanos,
)
from domain.money.apportionment import (
    CannotApportion,
    RoundedLines,
    apportion,
    round_lines_to_minor_units,
)
from domain.money.credits import CreditTooLarge, creditable, require_creditable
from domain.money.minor_units import format_estimate, minor_unit_digits, minor_unit_nanos
from domain.money.rounding import (
    SECONDS_PER_HOUR,
    divide_rounding_half_even,
    price_nanos,
    round_to_minor_units,
)

__all__ = [
    "LARGEST_NANOS",
    "NANOS_PER_UNIT",
    "SECONDS_PER_HOUR",
    "AmountOutOfBounds",
    "CannotApportion",
    "CreditTooLarge",
    "CurrenciesDiffer",
    "Money",
    "NotACurrency",
    "NotAnAmount",
    "RoundedLines",
    "apportion",
    "creditable",
    "divide_rounding_half_even",
    "format_estimate",
    "format_nanos",
    "minor_unit_digits",
    "minor_unit_nanos",
    "parse_nanos",
    "price_nanos",
    "require_creditable",
    "require_currency",
    "require_nanos",
    "round_lines_to_minor_units",
    "round_to_minor_units",
]
