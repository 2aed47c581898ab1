"""What can be wrong with the tables of GPU facts, and with a question about a GPU.

Put here: the errors of this package, each with its sentence.
Not here: a resource that cannot be classified, which is an answer (`domain.gpu.kinds`).
"""

from __future__ import annotations

from collections.abc import Sequence

from domain.errors import BadInput, CheckFailed, WrongUse
from domain.mig.errors import shown

MOST_PROBLEMS_SHOWN = 20
"""More than a screen of problems is not read; mending the first ones often mends the rest."""


class BadProductFacts(BadInput):
    """The table of GPU products or of MIG profiles cannot be read, or contradicts itself."""

    code = "GPU-001"

    def __init__(self, problems: Sequence[str]) -> None:
        listed = "; ".join(problems[:MOST_PROBLEMS_SHOWN])
        more = len(problems) - MOST_PROBLEMS_SHOWN
        super().__init__(
            where="the product facts",
            seen=listed + (f"; and {more} more" if more > 0 else ""),
            why="a card of the wrong class or size is billed at a wrong price",
            remedy="mend the row; a new card is one row with the columns of gpu_products.csv",
        )


class UnknownProduct(WrongUse):
    """A product that is not in the catalogue was asked about."""

    code = "GPU-002"

    def __init__(self, text: str, similar: Sequence[str]) -> None:
        meant = f"did you mean {', '.join(similar)}? " if similar else ""
        super().__init__(
            where="the catalogue of GPU products",
            seen=f"{shown(text)} is neither a product nor a class of it",
            why="nothing is known of a card that has no row",
            remedy=f"{meant}A new card is one row in decisions/products.csv",
        )


class NotClassified(CheckFailed):
    """A resource for which nobody can say what it is."""

    code = "GPU-003"

    def __init__(self, resource: str, why_not: str) -> None:
        super().__init__(
            where=f"the resource {shown(resource)}",
            seen=why_not,
            why="an unknown device has no class, no share and no price, and blocks the close",
            remedy="give the node's labels with --label, or add the product as one row to "
            "decisions/products.csv",
        )
