"""What a bench says of a goal: one ratio, its limit, and how it was come by.

Put here: the interface between a bench and the table (`python -m bench`).
Not here: measuring (the `bench_*` beside this), or printing (`__main__`).

A bench is a module with `measure() -> list[Measurement]`; the table calls it in a process of its
own. A goal may have several rows; it is reached when all are. What this machine cannot measure (a
server that is not installed) is raised as `CannotMeasure`, and stands in the table as not measured.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Sense = Literal["at most", "at least"]


class CannotMeasure(Exception):
    """Something that the bench needs is not on this machine; the text says what."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of the table. Both sides were measured in one run on one machine."""

    goal: str  # P1 to P9, or the name of a part that has a goal of its own
    what: str  # ours against what, in a few words
    value: float
    limit: float
    sense: Sense
    how: str  # the size of it and the two sides' figures, so that a reader can check the ratio
    unit: str = "x"  # or MiB, bytes per sample, …

    @property
    def reached(self) -> bool:
        return self.value <= self.limit if self.sense == "at most" else self.value >= self.limit

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def line(self) -> str:
        """For a bench that is run alone."""
        result = "ok" if self.reached else "MISSED"
        return (
            f"{self.goal} {self.what}: {self.value:.3g} {self.unit}, {self.sense} "
            f"{self.limit:g}: {result} ({self.how})"
        )


def peak_mib(pid: int) -> float:
    """The peak memory of a running process."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise CannotMeasure("/proc has no peak memory of the process")
