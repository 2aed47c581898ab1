"""The result of a benchmark for a goal: one ratio, its limit, and the figures behind it.

Put here: the interface between a benchmark and the table (`python -m bench`).
Not here: measuring (the `bench_*` modules), or printing (`__main__`).

A benchmark is a module with `measure() -> list[Measurement]`; the table calls it in a process of
its own. A goal may have several rows; it is reached if all rows are. If this machine lacks
something that the benchmark needs, such as a server, the benchmark raises `CannotMeasure`, and the
table shows the goal as not measured.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Sense = Literal["at most", "at least"]


class CannotMeasure(Exception):
    """The machine lacks something that the benchmark needs; the text has the details."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of the table. Both sides were measured in one run on one machine."""

    goal: str  # P1 to P9, or the name of a part that has a goal of its own
    quantity: str  # our side and the other side, in a few words
    value: float
    limit: float
    sense: Sense
    how: str  # size, and the figures of both sides, so that a reader can check the ratio
    unit: str = "x"  # or MiB, bytes per sample, …

    @property
    def reached(self) -> bool:
        return self.value <= self.limit if self.sense == "at most" else self.value >= self.limit

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def line(self) -> str:
        """The row as a line of text, for a benchmark that is run alone."""
        result = "ok" if self.reached else "MISSED"
        return (
            f"{self.goal} {self.quantity}: {self.value:.3g} {self.unit}, {self.sense} "
            f"{self.limit:g}: {result} ({self.how})"
        )


def peak_mib(pid: int) -> float:
    """The peak memory of a running process."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise CannotMeasure("/proc has no peak memory of the process")
