"""Numbers as Go writes them: the text of a value in an answer and in an exposition.

Put here: float to text and back, as strconv does it.
Not here: which value a series has.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from math import inf, isinf, isnan

# Beyond these an answer uses exponents, as json-iterator and encoding/json do.
_SMALLEST_PLAIN = 1e-6
_SMALLEST_WITH_EXPONENT = 1e21
# strconv's 'g' with the shortest precision turns to exponents at these decimal exponents.
_SMALLEST_G_EXPONENT = -4
_LARGEST_G_EXPONENT = 6


@lru_cache(maxsize=1 << 16)
def answer_text(value: float) -> str:
    """A sample's value in an API answer: strconv 'f' with the shortest precision."""
    if isnan(value) or isinf(value):
        return _special(value)
    size = abs(value)
    if size and (size < _SMALLEST_PLAIN or size >= _SMALLEST_WITH_EXPONENT):
        return _with_exponent(value)
    return _plain(value)


@lru_cache(maxsize=1 << 16)
def exposition_text(value: float) -> str:
    """A value in a text exposition: strconv 'g' with the shortest precision."""
    if isnan(value) or isinf(value):
        return _special(value)
    if value == 0:
        return "0"
    _, exponent = _shortest(value)
    if exponent < _SMALLEST_G_EXPONENT or exponent >= _LARGEST_G_EXPONENT:
        return _with_exponent(value)
    return _plain(value)


def parse_value(text: str) -> float:
    """A value as an exposition or an answer writes it."""
    special = {"+Inf": inf, "Inf": inf, "-Inf": -inf}
    return special[text] if text in special else float(text)


@lru_cache(maxsize=1 << 12)
def timestamp_text(milliseconds: int) -> str:
    """A time in an answer of Prometheus: seconds, and three decimals unless they are zero."""
    sign = "-" if milliseconds < 0 else ""
    seconds, rest = divmod(abs(milliseconds), 1000)
    return f"{sign}{seconds}.{rest:03d}" if rest else f"{sign}{seconds}"


def _special(value: float) -> str:
    if isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"


def _plain(value: float) -> str:
    text = repr(value)
    if "e" in text:
        text = format(Decimal(text), "f")
    return text[:-2] if text.endswith(".0") else text


def _with_exponent(value: float) -> str:
    """The shortest digits with an exponent of at least two digits: 1.79499164e+09."""
    digits, exponent = _shortest(value)
    mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{'-' if value < 0 else ''}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _shortest(value: float) -> tuple[str, int]:
    """The digits of a number that is not 0, and the power of ten of the first of them."""
    mantissa, _, power = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole) + len(fraction) - len(digits)
    return digits.rstrip("0"), int(power or 0) + len(whole) - 1 - leading
