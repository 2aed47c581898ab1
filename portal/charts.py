"""Charts as SVG images: cost against a budget, GPU-hours per day, hours by status, cards of nodes.

Put here: drawing of given numbers.
Not here: the numbers (`portal.consumption`, `portal.fleet`), or the data table beside each chart.

An image has no script, no style sheet and no link, so a page shows it under a strict policy. A
narrow image is for small screens: texts keep their size and the plot has less room.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from xml.sax.saxutils import escape, quoteattr

HEIGHT = 300
WIDE, NARROW, FULL = 640, 340, 1180
"""Half of a page, a small screen, and a whole page."""
LEFT, RIGHT, BOTTOM = 62, 12, 34
LINE_HEIGHT = 20
"""Of a row of the legend, and of a node with a name."""
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
CARD_COLOURS = {
    "running": "#0066cc",
    "held": "#73bcf7",
    "idle": "#c7c7c7",
    "unsold": "#ec7a08",
    "unhealthy": "#b1380b",
    "withdrawn": "#4d4d4d",
    "unmeasured": "#f4d5ff",
}
"""The uses of cards of a node, in the order of a bar."""
NAMED_NODES = 60
"""Up to so many nodes have their names beside the bars."""
BAR_WIDTH, BAR_HEIGHT, BAR_GAP = 44, 8, 3
"""Of a node without a name, in a map of many."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The expected cost of a period at its end."""

    expected: Decimal
    low: Decimal
    high: Decimal


@dataclass(frozen=True, slots=True)
class NodeBar:
    """One node of a map: its name, and its cards by use."""

    name: str
    cards: Mapping[str, Decimal]


def cumulative_chart(
    title: str,
    currency: str,
    day_count: int,
    totals: Sequence[Decimal],
    budget: Decimal | None,
    forecast: Forecast | None,
    width: int = WIDE,
) -> str:
    """Cost so far by day, the forecast until the end of the period, and the budget.

    `totals` are the cumulative costs at the end of the first, second, … day.
    """
    highest = max([*totals, budget or Decimal(0), forecast.high if forecast else Decimal(0)])
    is_open = bool(forecast) and len(totals) < day_count
    keys = [("Cost so far", COLOURS[0])]
    keys += [("Forecast, with range", "#99c2eb")] if is_open else []
    keys += [("Budget", ALARM)] if budget else []
    legend, top = _legend(keys, width)
    plot = _Plot(day_count, _ceiling(highest), width, top)
    marks = [*legend, *plot.frame(currency)]
    points = [(0, Decimal(0)), *enumerate(totals, start=1)]
    if forecast and is_open:
        last = points[-1]
        low, high = (day_count, forecast.low), (day_count, forecast.high)
        marks.append(
            f'<polygon points="{plot.points([last, high, low])}" fill="{COLOURS[0]}" '
            'fill-opacity="0.15"/>'
        )
        marks.append(plot.line([last, (day_count, forecast.expected)], COLOURS[0], dashed=True))
    marks.append(plot.line(points, COLOURS[0]))
    if budget:
        marks.append(plot.line([(0, budget), (day_count, budget)], ALARM))
    return _svg(title, marks, width, HEIGHT)


def stacked_chart(
    title: str,
    unit: str,
    column_count: int,
    series: Mapping[str, Mapping[int, Decimal]],
    width: int = WIDE,
    labels: Mapping[int, str] | None = None,
    limit: Decimal | None = None,
) -> str:
    """One bar per column, with a part for each series; columns are numbered from 1.

    A line marks `limit`. Without labels, the columns are the days of a month.
    """
    sums = [
        sum((values.get(n, Decimal(0)) for values in series.values()), Decimal(0))
        for n in range(1, column_count + 1)
    ]
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(sorted(series))}
    keys = list(colours.items()) + ([("Installed", INK)] if limit else [])
    legend, top = _legend(keys, width)
    plot = _Plot(column_count, _ceiling(max([*sums, limit or Decimal(0)])), width, top)
    marks = [*legend, *plot.frame(unit, labels)]
    below = [Decimal(0)] * (column_count + 1)
    for name in sorted(series):
        for column, value in sorted(series[name].items()):
            if value:
                marks.append(plot.bar(column, below[column], value, colours[name]))
                below[column] += value
    if limit:
        marks.append(plot.line([(0, limit), (column_count, limit)], INK, dashed=True))
    return _svg(title, marks, width, HEIGHT)


def hour_chart(
    title: str, day_count: int, statuses: Mapping[tuple[int, int], str], width: int = WIDE
) -> str:
    """One cell per hour: days, numbered from 1, to the right; hours of the day downwards."""
    keys = [(status.replace("_", " "), colour) for status, colour in STATUS_COLOURS.items()]
    legend, top = _legend(keys, width)
    plot = _Plot(day_count, Decimal(24), width, top)
    marks = [*legend, *plot.column_labels()]
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
    return _svg(title, marks, width, HEIGHT)


def node_chart(title: str, nodes: Sequence[NodeBar], width: int = WIDE) -> str:
    """One bar per node, as long as it has cards; a few nodes with their names, many in a grid."""
    legend, top = _legend(list(CARD_COLOURS.items()), width, left=8)
    is_named = len(nodes) <= NAMED_NODES
    name_width = width * 2 // 5 if is_named else 0
    per_row = 1 if is_named else (width - 16) // (BAR_WIDTH + BAR_GAP)
    row_height = LINE_HEIGHT if is_named else BAR_HEIGHT + BAR_GAP
    bar_width = width - name_width - 24 if is_named else BAR_WIDTH
    bar_height = row_height - (6 if is_named else BAR_GAP)
    most = max((sum(node.cards.values()) for node in nodes), default=Decimal(1)) or Decimal(1)
    paths: defaultdict[str, list[str]] = defaultdict(list)  # one path per colour is a small file
    marks = list(legend)
    for number, node in enumerate(nodes):
        row, column = divmod(number, per_row)
        left, y = 8.0 + name_width + column * (BAR_WIDTH + BAR_GAP), top + row * row_height
        if is_named:
            marks.append(_text(name_width, y + 11, _shorten(node.name, name_width), "end"))
        for term, colour in CARD_COLOURS.items():
            length = float(node.cards.get(term, Decimal(0)) / most) * bar_width
            if length > 0:
                paths[colour].append(f"M{left:.1f} {y}h{length:.1f}v{bar_height}h-{length:.1f}z")
                left += length
    marks += [f'<path d="{"".join(parts)}" fill="{c}"/>' for c, parts in sorted(paths.items())]
    height = top + -(-len(nodes) // per_row) * row_height + 8
    return _svg(title, marks, width, height)


@dataclass(frozen=True, slots=True)
class _Plot:
    column_count: int
    highest: Decimal
    width: int
    top: int

    def x(self, column: int) -> str:
        return f"{LEFT + (self.width - LEFT - RIGHT) * column / self.column_count:.1f}"

    def y(self, value: Decimal) -> str:
        share = value / self.highest
        return f"{HEIGHT - BOTTOM - (HEIGHT - self.top - BOTTOM) * float(share):.1f}"

    def points(self, points: Sequence[tuple[int, Decimal]]) -> str:
        return " ".join(f"{self.x(column)},{self.y(value)}" for column, value in points)

    def line(self, points: Sequence[tuple[int, Decimal]], colour: str, dashed: bool = False) -> str:
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        return (
            f'<polyline points="{self.points(points)}" fill="none" stroke="{colour}" '
            f'stroke-width="2"{dash}/>'
        )

    def bar(self, column: int, below: Decimal, value: Decimal, colour: str) -> str:
        left, right = float(self.x(column - 1)), float(self.x(column))
        top, bottom = float(self.y(below + value)), float(self.y(below))
        gap = 1 if right - left > 4 else 0
        return (
            f'<rect x="{left + gap:.1f}" y="{top:.1f}" width="{right - left - 2 * gap:.1f}" '
            f'height="{bottom - top:.1f}" fill="{colour}"/>'
        )

    def frame(self, unit: str, labels: Mapping[int, str] | None = None) -> list[str]:
        """Grid, ticks and their labels."""
        marks = [_text(4, self.top - 12, unit, "start")]
        for tick in range(TICK_COUNT + 1):
            value = self.highest * tick / TICK_COUNT
            y = self.y(value)
            marks.append(
                f'<line x1="{LEFT}" y1="{y}" x2="{self.width - RIGHT}" y2="{y}" stroke="{GRID}"/>'
            )
            marks.append(_text(LEFT - 8, float(y) + 4, f"{value.normalize():,f}", "end"))
        return [*marks, *self.column_labels(labels)]

    def column_labels(self, labels: Mapping[int, str] | None = None) -> list[str]:
        if labels is None:
            labels = {column: str(column) for column in range(1, self.column_count + 1, 5)}
        marks = []
        for column, label in labels.items():
            middle = (float(self.x(column - 1)) + float(self.x(column))) / 2
            marks.append(_text(middle, HEIGHT - BOTTOM + 18, label, "middle"))
        return marks


def _ceiling(value: Decimal) -> Decimal:
    """The next of 1, 2, 2.5, 5 × 10ⁿ, so that ticks are round numbers."""
    if value <= 0:
        return Decimal(1)
    power = Decimal(10) ** value.adjusted()
    return next(
        step * power for step in map(Decimal, ("1", "2", "2.5", "5", "10")) if step * power >= value
    )


def _legend(keys: Sequence[tuple[str, str]], width: int, left: int = LEFT) -> tuple[list[str], int]:
    """The marks of a legend, in as many lines as it needs, and where a plot below it begins."""
    marks, x, line = [], float(left), 0
    for name, colour in keys:
        needed = 30 + 6.5 * len(name)
        if x + needed > width and x > left:
            x, line = float(left), line + 1
        y = 8 + line * LINE_HEIGHT
        marks.append(f'<rect x="{x:.1f}" y="{y}" width="10" height="10" fill="{colour}"/>')
        marks.append(_text(x + 14, y + 9, name, "start"))
        x += needed
    return marks, 8 + (line + 1) * LINE_HEIGHT + 20


def _shorten(name: str, width: int) -> str:
    most = width // 7
    return name if len(name) <= most else f"…{name[1 - most :]}"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-family="sans-serif" font-size="12" fill="{INK}" '
        f'text-anchor="{anchor}">{escape(_printable(text))}</text>'
    )


def _printable(text: str) -> str:
    """Without control characters, which no XML may contain."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _svg(title: str, marks: Sequence[str], width: int, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label={quoteattr(_printable(title))}>'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>{"".join(marks)}</svg>\n'
    )
