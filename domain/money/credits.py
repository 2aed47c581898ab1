"""How much of a line can still be given back.

Put here: the one rule that a credit never exceeds its line with the line's corrections.
Not here: why something is credited (an outage, a dispute), which is a dated decision.
"""

from __future__ import annotations

from collections.abc import Iterable

from domain.errors import BadInput
from domain.money.amount import Money


class CreditTooLarge(BadInput):
    """A credit above what is left of the line that it credits."""

    code = "MONEY-006"

    def __init__(self, asked: Money, left: Money, where: str) -> None:
        too_much = f"{left} of the line can still be credited (the difference is {asked - left})"
        super().__init__(
            where=where,
            seen=f"a credit of {asked}, "
            + (too_much if asked.nanos > 0 else "which is below zero and would be a charge"),
            why="giving back more than was charged is money paid out for nothing",
            remedy="lower the credit, or see which credits the line has had already",
        )


def creditable(line: Money, corrections: Iterable[Money], credits_so_far: Iterable[Money]) -> Money:
    """What is left: the line with its corrections, less what was credited; never below zero.

    Credits are given as positive amounts.
    """
    left = Money.sum([line, *corrections], line.currency)
    left -= Money.sum(credits_so_far, line.currency)
    return max(left, Money(0, line.currency))


def require_creditable(
    asked: Money,
    line: Money,
    corrections: Iterable[Money],
    credits_so_far: Iterable[Money],
    where: str = "a credit",
) -> Money:
    """Return `asked` when it can be credited; refuse it with both amounts when it cannot."""
    left = creditable(line, corrections, credits_so_far)
    if asked > left or asked.nanos < 0:
        raise CreditTooLarge(asked, left, where)
    return asked
