"""The smallest payable unit of a currency: cents for most, whole yen, tenths of a fils.

Put here: how many decimals a currency is paid in, by ISO 4217.
Not here: symbols, names, or rates of exchange.
"""

from __future__ import annotations

from domain.money.amount import format_nanos, require_currency

_USUAL_DIGITS = 2
_OTHER_DIGITS = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
_DIGITS = {code: digits for digits, codes in _OTHER_DIGITS.items() for code in codes.split()}


def minor_unit_digits(currency: str) -> int:
    """How many decimals an amount to be paid has; two unless ISO 4217 says otherwise."""
    return _DIGITS.get(require_currency(currency), _USUAL_DIGITS)


def minor_unit_nanos(currency: str) -> int:
    """One cent (or what stands in its place) in nanos."""
    return int(10 ** (9 - minor_unit_digits(currency)))


def format_estimate(nanos: int, currency: str) -> str:
    """An amount that is itself a guess, for people: cut to minor units, and never billed."""
    unit = minor_unit_nanos(currency)
    return f"{format_nanos(nanos // unit * unit, minor_unit_digits(currency))} {currency}"
