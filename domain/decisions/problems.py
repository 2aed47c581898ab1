"""The problems of decision tables.

Put here: the errors of this package; each names file and line, both values and the remedy.
Not here: finding them (`reading`, `consistency`, `rates`, `sealed_copies`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from domain.errors import BadInput

MOST_PROBLEMS_SHOWN = 20
"""More than a screen of problems is not read; correcting the first ones often corrects others."""

MOST_PROBLEMS_PER_TABLE = 200
"""A table with more problems is probably another file; reading stops there."""

MOST_NAMES_SHOWN = 10
"""Of wrong columns; a header with more of them belongs to another table."""


def listed(names: Iterable[str]) -> str:
    """Names as a message lists them: the first ones, and the number of the others."""
    every = list(names)
    more = len(every) - MOST_NAMES_SHOWN
    return ", ".join(every[:MOST_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


class InvalidDecision(BadInput):
    """A table, row, cell or reference of decisions/ that is not valid."""

    code = "DEC-001"


class DecisionsRefused(InvalidDecision):
    """All problems of the decision tables, in one message."""

    def __init__(self, problems: Sequence[BadInput]) -> None:
        lines = [f"{p.code} {p.where}: {p.seen}; {p.remedy}" for p in problems]
        more = len(lines) - MOST_PROBLEMS_SHOWN
        shown = lines[:MOST_PROBLEMS_SHOWN] + ([f"… and {more} more"] if more > 0 else [])
        count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
        super().__init__(
            where="the decision tables",
            seen=f"{count}\n    " + "\n    ".join(shown),
            why="nothing is counted or billed while a part of the tables cannot be used",
            remedy="correct the rows above, then run: gpu-ledger decisions check",
        )
        self.problems = tuple(problems)


class DecisionsContradict(BadInput):
    """Two rows decide the same thing for the same instant."""

    code = "DEC-002"
