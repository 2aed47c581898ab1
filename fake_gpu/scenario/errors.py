"""Errors in descriptions of a fleet.

Put here: the errors of reading scenarios, traces and configurations.
Not here: errors of serving (`fake_gpu.serve`) or of time (`fake_gpu.clock`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from domain.errors import BadInput

# A reader mends a file from the top; the rest is counted.
SHOWN_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, at one place of one file."""

    line: int  # 0: the file as a whole
    path: str  # "clusters[0].nodes[1].cards"
    seen: str
    remedy: str


class BadScenario(BadInput):
    """A scenario file is invalid; the error lists all problems."""

    code = "FAKE-002"

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        lines = [f"{_at(p)}: {p.seen} ({p.remedy})" for p in self.problems[:SHOWN_PROBLEMS]]
        hidden = len(self.problems) - len(lines)
        if hidden:
            lines.append(f"and {hidden} more")
        super().__init__(
            where=f"{source}:{first.line}" if first.line else source,
            seen="\n        ".join(lines),
            why="a fleet that differs from its scenario proves nothing",
            remedy="correct the lines named above; `gpu-ledger fake check FILE` shows the fleet",
        )


def _at(problem: Problem) -> str:
    place = f"line {problem.line}" if problem.line else "the file"
    return f"{place}, {problem.path}" if problem.path else place


class UnknownScenario(BadInput):
    """Neither a file nor a name of the library."""

    code = "FAKE-003"

    def __init__(self, name: str, library: Sequence[str]) -> None:
        super().__init__(
            where=f"scenario {name!r}",
            seen="there is no such file, and the library has: " + ", ".join(library),
            why="there is nothing to play through",
            remedy="`gpu-ledger fake list` shows the library; a file needs its full path",
        )


class DoesNotFit(BadInput):
    """A pod with exact times wants devices that are not there or not free then."""

    code = "FAKE-004"


class NameTaken(BadInput):
    """Two objects of one kind have one name at the same time."""

    code = "FAKE-010"


class BadTrace(BadInput):
    """A trace file with a missing column, or a row that cannot have happened."""

    code = "FAKE-005"


class DataNotHere(BadInput):
    """The scenario reads files that are not part of the project, and they are not there."""

    code = "FAKE-006"
