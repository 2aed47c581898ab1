"""Sharing a sum out so that the parts add up to it: largest remainder, ties by a fixed key.

Put here: apportionment at nanos (a charge to its pod-hours) and at cents (a total to its lines).
Not here: the rounding itself (`domain.money.rounding`).

Ties are broken by the key, never by the order of arrival: the same parts in another order get
the same amounts. Keys are compared as text by code point, which is also how DuckDB orders them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from domain.errors import WrongUse
from domain.money.amount import require_currency, require_nanos
from domain.money.minor_units import minor_unit_nanos
from domain.money.rounding import divide_rounding_half_even


class CannotApportion(WrongUse):
    """A sum that no part can take, or a part that weighs less than nothing."""

    code = "MONEY-005"

    def __init__(self, seen: str) -> None:
        super().__init__(
            where="sharing out an amount",
            seen=seen,
            why="the parts must add up to the whole, and every part must be explainable",
            remedy="look at the rows that the amount was charged for: their seconds or weights",
        )


def apportion(total: int, weights: Mapping[str, int | Fraction]) -> dict[str, int]:
    """Share `total` (nanos, or cents) in proportion to the weights, by largest remainder.

    The parts add up to `total` with `==`, and each is within one unit of its exact share. A
    negative total is shared like the positive one, negated, so that a void undoes its invoice.
    """
    if any(weight < 0 for weight in weights.values()):
        raise CannotApportion(f"a weight below zero: {min(weights.values())}")
    scale = lcm(*(weight.denominator for weight in weights.values()))
    scaled = {key: int(weight * scale) for key, weight in weights.items()}
    whole = sum(scaled.values())
    if whole == 0:
        if total:
            raise CannotApportion(f"{total} to share out, and weights that add up to 0")
        return dict.fromkeys(weights, 0)
    sign = -1 if total < 0 else 1
    shares = {key: divmod(abs(total) * weight, whole) for key, weight in scaled.items()}
    left = abs(total) - sum(share for share, _ in shares.values())
    raised = _largest_remainders({key: part for key, (_, part) in shares.items()}, left)
    return {key: sign * (share + (key in raised)) for key, (share, _) in shares.items()}


@dataclass(frozen=True, slots=True)
class RoundedLines:
    """A total that can be paid, and lines in the same unit that add up to it."""

    currency: str
    exact_nanos: int  # the sum before it was rounded
    total_nanos: int  # the sum rounded once, half-even, to whole cents
    lines: Mapping[str, int]  # nanos that are whole cents; they add up to total_nanos


def round_lines_to_minor_units(lines: Mapping[str, int], currency: str) -> RoundedLines:
    """Round an invoice: the exact sum once, then its lines by largest remainder to that sum.

    Lines may be negative (corrections, credits). No line ends up a whole cent away from what it
    was: only lines that have a part of a cent are raised.
    """
    unit = minor_unit_nanos(require_currency(currency))
    exact_nanos = require_nanos(sum(lines.values()), "a total")
    total_units = divide_rounding_half_even(exact_nanos, unit)
    floors = {key: divmod(nanos, unit) for key, nanos in lines.items()}
    left = total_units - sum(units for units, _ in floors.values())
    raised = _largest_remainders({key: part for key, (_, part) in floors.items()}, left)
    rounded = {key: (units + (key in raised)) * unit for key, (units, _) in floors.items()}
    return RoundedLines(currency, exact_nanos, total_units * unit, rounded)


def _largest_remainders(remainders: Mapping[str, int], count: int) -> set[str]:
    """The keys of the `count` largest remainders; of equal ones the smaller key comes first."""
    if count == 0:
        return set()
    ordered = sorted(remainders, key=lambda key: (-remainders[key], key))
    return set(ordered[:count])
