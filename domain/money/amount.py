"""The amount: a whole number of nanos with its currency, and its text.

Put here: bounds, reading and writing decimal text, arithmetic that cannot round.
Not here: anything that rounds (`domain.money.rounding`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from domain.errors import BadInput

NANOS_PER_UNIT = 1_000_000_000
"""10⁻⁹ of a unit keeps every published GPU-hour price exactly, and a second of it to 0.001 cent."""

LARGEST_NANOS = 10**38 - 1
"""What `DECIMAL(38,0)` holds; it is below 2¹²⁷, so a signed 128-bit integer holds it too."""

_AMOUNT = re.compile(r"(-?)(\d{1,29})(?:\.(\d+))?", re.ASCII)
_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)
_LONGEST_TEXT_SHOWN = 60


class NotAnAmount(BadInput):
    """Text that is not a plain decimal number of at most nine decimals."""

    code = "MONEY-001"


class CurrenciesDiffer(BadInput):
    """Two currencies met in one sum or one comparison."""

    code = "MONEY-002"

    def __init__(self, left: str, right: str, where: str = "an amount") -> None:
        super().__init__(
            where=where,
            seen=f"{left} meets {right}",
            why="no rate of exchange is known here, and guessing one would be a wrong bill",
            remedy="keep one currency per ledger: look at the currency column of rates.csv",
        )


class AmountOutOfBounds(BadInput):
    """An amount that 38 decimal digits of nanos cannot hold."""

    code = "MONEY-003"


class NotACurrency(BadInput):
    """Text that is not a currency code."""

    code = "MONEY-004"


def require_currency(text: str, where: str = "a currency") -> str:
    """Return the currency code; only its form is checked, so that a site may have its own."""
    if not _CURRENCY.fullmatch(text):
        raise NotACurrency(
            where=where,
            seen=f"{text[:_LONGEST_TEXT_SHOWN]!r} is not a currency code",
            why="amounts of one currency are added up, and no others",
            remedy="write the three capital letters of ISO 4217, such as EUR",
        )
    return text


def require_nanos(nanos: int, where: str = "an amount") -> int:
    """Return `nanos`; refuse what the warehouse could not store."""
    if isinstance(nanos, bool) or not isinstance(nanos, int):
        raise TypeError(f"nanos are a whole number, not {type(nanos).__name__}")
    if abs(nanos) > LARGEST_NANOS:
        raise AmountOutOfBounds(
            where=where,
            seen=f"an amount of {len(str(abs(nanos)))} digits of nanos, and at most 38 fit",
            why="the warehouse keeps money as DECIMAL(38,0), and a cut amount is a wrong bill",
            remedy="look for a rate or a quantity with too many zeros",
        )
    return nanos


def parse_nanos(text: str, where: str = "an amount") -> int:
    """Read plain decimal text (`1.803`) exactly; nothing is rounded away."""
    match = _AMOUNT.fullmatch(text.strip())
    if not match:
        shown = repr(text[:_LONGEST_TEXT_SHOWN])
        raise _not_an_amount(where, f"{shown} is not a plain decimal number")
    sign, whole, decimals = match[1], match[2], (match[3] or "").rstrip("0")
    if len(decimals) > 9:
        raise _not_an_amount(where, f"{text.strip()!r} has {len(decimals)} decimals, at most 9 fit")
    nanos = int(whole) * NANOS_PER_UNIT + int(decimals.ljust(9, "0"))
    return require_nanos(-nanos if sign else nanos, where)


def _not_an_amount(where: str, seen: str) -> NotAnAmount:
    return NotAnAmount(
        where=where,
        seen=seen,
        why="the ledger keeps money exactly, in units of 10⁻⁹",
        remedy="write it like 1.803: digits, a point, at most nine decimals, no exponent",
    )


def format_nanos(nanos: int, fewest_decimals: int = 0) -> str:
    """Write nanos as decimal text: exact, without an exponent, and read back as the same."""
    whole, part = divmod(abs(require_nanos(nanos)), NANOS_PER_UNIT)
    decimals = f"{part:09}".rstrip("0").ljust(fewest_decimals, "0")
    return f"{'-' if nanos < 0 else ''}{whole}{'.' + decimals if decimals else ''}"


@dataclass(frozen=True, slots=True)
class Money:
    """An amount. Adding or comparing two currencies raises; nothing here rounds."""

    nanos: int
    currency: str

    def __post_init__(self) -> None:
        require_nanos(self.nanos)
        require_currency(self.currency)

    @classmethod
    def parse(cls, text: str, currency: str, where: str = "an amount") -> Money:
        return cls(parse_nanos(text, where), require_currency(currency, where))

    @classmethod
    def sum(cls, amounts: Iterable[Money], currency: str) -> Money:
        """The exact sum; `currency` says what an empty one is a sum of."""
        nanos = 0
        for amount in amounts:
            if amount.currency != currency:
                raise CurrenciesDiffer(currency, amount.currency)
            nanos += amount.nanos
        return cls(nanos, currency)

    def __add__(self, other: Money) -> Money:
        return Money(self.nanos + self._same_currency(other).nanos, self.currency)

    def __sub__(self, other: Money) -> Money:
        return Money(self.nanos - self._same_currency(other).nanos, self.currency)

    def __neg__(self) -> Money:
        return Money(-self.nanos, self.currency)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __lt__(self, other: Money) -> bool:
        return self.nanos < self._same_currency(other).nanos

    def __le__(self, other: Money) -> bool:
        return self.nanos <= self._same_currency(other).nanos

    def __gt__(self, other: Money) -> bool:
        return other < self

    def __ge__(self, other: Money) -> bool:
        return other <= self

    def __str__(self) -> str:
        return f"{format_nanos(self.nanos)} {self.currency}"

    def _same_currency(self, other: Money) -> Money:
        if self.currency != other.currency:
            raise CurrenciesDiffer(self.currency, other.currency)
        return other
