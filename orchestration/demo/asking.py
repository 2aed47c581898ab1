"""Asking while the month goes on: what is due when, and how far it is.

Put here: which hours are asked at once, from when on, and of whom.
Not here: asking (`orchestration.steps`), or the processes in which it is done (`beside`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from domain.decisions import Source
from domain.interval import HOUR, Interval
from orchestration.demo.beside import Beside, ask

Report = Callable[[int, int, str], None]

# So much is asked at once, when it is a day old: what was told late has come by then.
AT_ONCE = timedelta(days=2)
OLD = timedelta(days=1)


@dataclass(slots=True)
class Asking:
    """The hours of a span, but for one that is forgotten; each source is asked by a process."""

    helpers: Mapping[Source, Beside]
    home: Path
    clock_urls: tuple[str, ...]  # of the fleets that are asked
    span: Interval
    _left: list[Interval] = field(init=False)
    _heard: dict[Source, tuple[int, int, str]] = field(default_factory=dict)

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
        for source, helper in self.helpers.items():
            helper.listen(self._ear(source))

    def begin(self, hours: Interval, at: datetime) -> None:
        """Have these hours asked at a time; the fleets' clocks cannot go back."""
        for source, helper in self.helpers.items():
            helper.begin(ask, self.home, self.clock_urls, source, at, hours, self.span)

    def finish(self, report: Report) -> None:
        """Wait for the answers."""
        for source, helper in self.helpers.items():
            helper.finish(self._ear(source, report))

    @property
    def words(self) -> str:
        """How far it is, beside another bar."""
        done, total, _ = self._least()
        return f"{done} of {total} hours are asked" if total else ""

    def _ear(self, source: Source, report: Report | None = None) -> Report:
        def hear(done: int, total: int, what: str) -> None:
            self._heard[source] = (done, total, what)
            if report:
                report(*self._least())

        return hear

    def _least(self) -> tuple[int, int, str]:
        """An hour is asked when both sources were."""
        heard = [self._heard.get(source, (0, 0, "")) for source in self.helpers]
        return min(heard)


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
