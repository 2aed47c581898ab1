"""Charts as SVG images: cost against a budget, GPU-hours per day by class, status of each hour.

Put here: drawing of given numbers.
Not here: the numbers (`portal.consumption`), or the data table that stands beside each chart.

An image has no script, no style sheet and no link, so a page shows it under a strict policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from xml.sax.saxutils import escape, quoteattr

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 12, 36, 34
COLOURS = ("#0066cc", "#63993d", "#ca6c0f", "#5e40be", "#147878", "#b1380b", "#8a8d90", "#3b1f00")
INK, GRID, ALARM = "#292929", "#e0e0e0", "#b1380b"
TICK_COUNT = 5
STATUS_COLOURS = {
    "missing": "#b1380b",
    "degraded": "#f0ab00",
    "waived": "#5e40be",
    "complete": "#63993d",
    "not_expected": "#d2d2d2",
}
"""The worst first."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a period is expected to cost at its end."""

    expected: Decimal
    low: Decimal
    high: Decimal


def cumulative_chart(
    title: str,
    currency: str,
    day_count: int,
    totals: Sequence[Decimal],
    budget: Decimal | None,
    forecast: Forecast | None,
) -> str:
    """Cost so far by day, the forecast until the end of the period, and the budget.

    `totals` are the cumulative costs at the end of the first, second, … day.
    """
    highest = max([*totals, budget or Decimal(0), forecast.high if forecast else Decimal(0)])
    plot = _Plot(day_count, _ceiling(highest))
    marks = [*plot.frame(currency)]
    points = [(0, Decimal(0)), *enumerate(totals, start=1)]
    if forecast and len(totals) < day_count:
        last = points[-1]
        low, high = (day_count, forecast.low), (day_count, forecast.high)
        marks.append(
            f'<polygon points="{plot.points([last, high, low])}" fill="{COLOURS[0]}" '
            'fill-opacity="0.15"/>'
        )
        marks.append(plot.line([last, (day_count, forecast.expected)], COLOURS[0], dashed=True))
    marks.append(plot.line(points, COLOURS[0]))
    keys = [("Cost so far", COLOURS[0]), ("Forecast, with range", "#99c2eb")]
    if budget:
        marks.append(plot.line([(0, budget), (day_count, budget)], ALARM))
        keys.append(("Budget", ALARM))
    return _svg(title, [*marks, *_legend(keys)])


def stacked_chart(
    title: str, unit: str, day_count: int, series: Mapping[str, Mapping[int, Decimal]]
) -> str:
    """One bar per day, with a part for each series; days are numbered from 1."""
    sums = [
        sum((days.get(d, Decimal(0)) for days in series.values()), Decimal(0))
        for d in range(1, day_count + 1)
    ]
    plot = _Plot(day_count, _ceiling(max(sums, default=Decimal(0))))
    marks = [*plot.frame(unit)]
    below = [Decimal(0)] * (day_count + 1)
    keys = []
    for number, (name, days) in enumerate(sorted(series.items())):
        colour = COLOURS[number % len(COLOURS)]
        keys.append((name, colour))
        for day, value in sorted(days.items()):
            if value:
                marks.append(plot.bar(day, below[day], value, colour))
                below[day] += value
    return _svg(title, [*marks, *_legend(keys)])


def hour_chart(title: str, day_count: int, statuses: Mapping[tuple[int, int], str]) -> str:
    """One cell per hour: days, numbered from 1, to the right; hours of the day downwards."""
    plot = _Plot(day_count, Decimal(24))
    marks = plot.day_labels()
    for hour in range(0, 24, 6):
        marks.append(
            _text(LEFT - 8, float(plot.y(Decimal(24 - hour))) + 10, f"{hour:02}:00", "end")
        )
    for day in range(1, day_count + 1):
        of_day = [(statuses.get((day, hour), ""), hour) for hour in range(24)]
        for status, group in groupby(of_day, itemgetter(0)):
            hours = [hour for _, hour in group]
            if status:
                below = Decimal(23 - hours[-1])
                marks.append(plot.bar(day, below, Decimal(len(hours)), STATUS_COLOURS[status]))
    keys = [(status.replace("_", " "), colour) for status, colour in STATUS_COLOURS.items()]
    return _svg(title, [*marks, *_legend(keys)])


@dataclass(frozen=True, slots=True)
class _Plot:
    day_count: int
    highest: Decimal

    def x(self, day: int) -> str:
        return f"{LEFT + (WIDTH - LEFT - RIGHT) * day / self.day_count:.1f}"

    def y(self, value: Decimal) -> str:
        share = value / self.highest
        return f"{HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * float(share):.1f}"

    def points(self, points: Sequence[tuple[int, Decimal]]) -> str:
        return " ".join(f"{self.x(day)},{self.y(value)}" for day, value in points)

    def line(self, points: Sequence[tuple[int, Decimal]], colour: str, dashed: bool = False) -> str:
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        return (
            f'<polyline points="{self.points(points)}" fill="none" stroke="{colour}" '
            f'stroke-width="2"{dash}/>'
        )

    def bar(self, day: int, below: Decimal, value: Decimal, colour: str) -> str:
        left, right = float(self.x(day - 1)), float(self.x(day))
        top, bottom = float(self.y(below + value)), float(self.y(below))
        return (
            f'<rect x="{left + 1:.1f}" y="{top:.1f}" width="{max(right - left - 2, 1):.1f}" '
            f'height="{bottom - top:.1f}" fill="{colour}"/>'
        )

    def frame(self, unit: str) -> list[str]:
        """Grid, ticks and their labels."""
        marks = [_text(LEFT - 8, TOP - 10, unit, "end")]
        for tick in range(TICK_COUNT + 1):
            value = self.highest * tick / TICK_COUNT
            y = self.y(value)
            marks.append(
                f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="{GRID}"/>'
            )
            marks.append(_text(LEFT - 8, float(y) + 4, f"{value.normalize():,f}", "end"))
        return [*marks, *self.day_labels()]

    def day_labels(self) -> list[str]:
        marks = []
        for day in range(1, self.day_count + 1, 5):
            middle = (float(self.x(day - 1)) + float(self.x(day))) / 2
            marks.append(_text(middle, HEIGHT - BOTTOM + 18, str(day), "middle"))
        return marks


def _ceiling(value: Decimal) -> Decimal:
    """The next of 1, 2, 2.5, 5 × 10ⁿ, so that ticks are round numbers."""
    if value <= 0:
        return Decimal(1)
    power = Decimal(10) ** value.adjusted()
    return next(
        step * power for step in map(Decimal, ("1", "2", "2.5", "5", "10")) if step * power >= value
    )


def _legend(keys: Sequence[tuple[str, str]]) -> list[str]:
    marks, x = [], float(LEFT)
    for name, colour in keys:
        marks.append(f'<rect x="{x:.1f}" y="8" width="10" height="10" fill="{colour}"/>')
        marks.append(_text(x + 14, 17, name, "start"))
        x += 30 + 6.5 * len(name)
    return marks


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-family="sans-serif" font-size="11" fill="{INK}" '
        f'text-anchor="{anchor}">{escape(_printable(text))}</text>'
    )


def _printable(text: str) -> str:
    """Without control characters, which no XML may contain."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _svg(title: str, marks: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label={quoteattr(_printable(title))}>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>{"".join(marks)}</svg>\n'
    )
