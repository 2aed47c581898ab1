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


class InvalidScenario(BadInput):
    """A scenario, a trace or a configuration of simulated GPUs has contents that cannot happen."""

    code = "FAKE-002"


class BadScenario(InvalidScenario):
    """A scenario file is invalid; the error lists all problems."""

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
