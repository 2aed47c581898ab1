"""Asking while the month goes on: what is due when, and how far it is.

Put here: which hours are asked at once, and from when on.
Not here: asking (`orchestration.steps`), or the process in which it is done (`beside`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from domain.interval import HOUR, Interval
from orchestration.demo.beside import Beside, ask

Report = Callable[[int, int, str], None]

# So much is asked at once, when it is a day old: what was told late has come by then.
AT_ONCE = timedelta(days=4)
OLD = timedelta(days=1)


@dataclass(slots=True)
class Asking:
    """The hours of a span, but for one that is forgotten; another process asks for them."""

    helper: Beside
    home: Path
    clock_url: str
    span: Interval
    _left: list[Interval] = field(init=False)
    _heard: tuple[int, int, str] = (0, 0, "")

    def __post_init__(self) -> None:
        self._left = pieces(self.span)

    def go_on(self, now: datetime, is_over: bool = False) -> None:
        """Have everything asked that is old enough, or all when nothing more will be told.

        Each piece is asked at a time that follows from its hours alone.
        """
        while self._left and (is_over or now >= self._left[0].ended_at + OLD):
            hours = self._left.pop(0)
            at = min(hours.ended_at + OLD, now) if is_over else hours.ended_at + OLD
            self.begin(hours, at)
        self.helper.listen(self._hear)

    def begin(self, hours: Interval, at: datetime) -> None:
        """Have these hours asked at a time; the estate's clock cannot go back."""
        self.helper.begin(ask, self.home, self.clock_url, at, hours, self.span)

    def finish(self, report: Report) -> None:
        """Wait for the answers."""
        report(*self._heard)
        self.helper.finish(report)

    @property
    def words(self) -> str:
        """How far it is, beside another bar."""
        done, total, _ = self._heard
        return f"{done} of {total} hours are asked" if total else ""

    def _hear(self, done: int, total: int, what: str) -> None:
        self._heard = (done, total, what)


def forgotten(span: Interval) -> datetime:
    """The hour that is not asked at first."""
    hours = list(span.hours())
    return hours[len(hours) // 2]


def pieces(span: Interval) -> list[Interval]:
    """All hours but the forgotten one, in pieces that are asked at once."""
    hour = forgotten(span)
    around = [(span.started_at, hour), (hour + HOUR, span.ended_at)]
    cuts = [
        span.started_at + n * AT_ONCE
        for n in range(1, (span.ended_at - span.started_at) // AT_ONCE + 1)
    ]
    return [piece for a, b in around if a < b for piece in Interval(a, b).split_at(cuts)]
