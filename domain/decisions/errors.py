"""What can be wrong with a decision table, and with a question put to the decisions.

Put here: the errors of this package; each names file and line, both values and the remedy.
Not here: how they are found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from domain.errors import BadInput, WrongUse

MOST_PROBLEMS_SHOWN = 20
"""More than a screen of problems is not read; mending the first ones often mends the rest."""

MOST_PROBLEMS_PER_TABLE = 200
"""After so many the file is not the table it is named after; reading on would only take time."""

_LONGEST_VALUE_SHOWN = 80


MOST_NAMES_SHOWN = 10
"""Of columns that are wrong; a header in which more are wrong is another table's."""


def listed(names: Iterable[str]) -> str:
    """Names as a message lists them: a few, and how many more there are."""
    every = list(names)
    more = len(every) - MOST_NAMES_SHOWN
    return ", ".join(every[:MOST_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def shown(value: str) -> str:
    """A value as a message quotes it: escaped, and cut where nobody would read on."""
    cut = value if len(value) <= _LONGEST_VALUE_SHOWN else value[:_LONGEST_VALUE_SHOWN] + "…"
    return repr(cut)


class UnreadableTable(BadInput):
    """A file that is not a table of text: wrong encoding, NUL bytes, too large, broken quotes."""

    code = "DEC-001"


class WrongColumns(BadInput):
    """A header with missing, unknown or doubled columns."""

    code = "DEC-002"


class WrongCell(BadInput):
    """A cell that does not say what its column has to say."""

    code = "DEC-003"


class DecisionsContradict(BadInput):
    """Two rows that answer the same question for the same instant."""

    code = "DEC-004"


class UnknownTable(BadInput):
    """A file in decisions/ that no part of the ledger reads."""

    code = "DEC-005"


class DecisionsRefused(BadInput):
    """Everything that is wrong with the decision tables, in one message."""

    code = "DEC-007"

    def __init__(self, problems: Sequence[BadInput]) -> None:
        listed = [f"{p.code} {p.where}: {p.seen}; {p.remedy}" for p in problems]
        more = len(listed) - MOST_PROBLEMS_SHOWN
        lines = listed[:MOST_PROBLEMS_SHOWN] + ([f"… and {more} more"] if more > 0 else [])
        count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
        super().__init__(
            where="the decision tables",
            seen=f"{count}\n    " + "\n    ".join(lines),
            why="nothing is counted or billed from tables of which only a part could be read",
            remedy="mend the rows above, then run: gpu-ledger decisions check",
        )
        self.problems = tuple(problems)


class UnknownReference(BadInput):
    """A decision about a cluster, a class or a profile that nobody knows."""

    code = "DEC-008"


class NoRate(WrongUse):
    """No price holds for a class and profile at an instant."""

    code = "RATE-001"


class TwoRates(BadInput):
    """Two equally specific prices hold at one instant."""

    code = "RATE-002"
