"""A picture of a dashboard, drawn from the results of its queries.

Put here: panels as SVG: lines of a range of time, or numbers.
Not here: the queries (`tests.dashboards`), or a server (`test_dashboards_show_data`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from html import escape

from tests.dashboards import Dashboard, Panel

COLOURS = ("#0066cc", "#3e8635", "#f0ab00", "#c9190b", "#6753ac", "#009596", "#8a8d90", "#b35c00")
WIDTH, HEIGHT, MARGIN = 590, 230, 12
SERIES_LIMIT = len(COLOURS)
NAME_LIMIT = 34


@dataclass(frozen=True)
class Line:
    """One series of a panel: its name in the legend, and (seconds, value) pairs."""

    name: str
    points: Sequence[tuple[float, float]]


def legend_name(template: str, labels: Mapping[str, str]) -> str:
    """The legend of a series, as Grafana writes it."""
    text = re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), template).strip()
    return text if len(text) <= NAME_LIMIT else f"{text[: NAME_LIMIT - 1]}…"


def value_text(value: float, unit: str) -> str:
    if unit == "percentunit":
        return f"{value:.0%}"
    if unit in ("bytes", "decmbytes"):
        return f"{value / (2**30 if unit == 'bytes' else 2**10):.3g} GiB"
    if unit == "s":
        return str(timedelta(seconds=round(value)))
    if unit in ("hertz", "Bps"):
        power = 3 if value >= 1e9 else 2
        return f"{value / 1000**power:.3g} {'kMG'[power - 1]}{'Hz' if unit == 'hertz' else 'B/s'}"
    suffix = {"celsius": " °C", "watt": " W", "percent": " %"}.get(unit, "")
    return f"{value:,.4g}{suffix}"


def picture(
    dashboard: Dashboard, lines: Mapping[str, Sequence[Line]], ends: tuple[str, str]
) -> str:
    """The page as SVG. `ends` are the texts at both ends of the time axis."""
    rows = -(-len(dashboard.panels) // 2)
    width, height = 2 * (WIDTH + MARGIN) + MARGIN, 44 + rows * (HEIGHT + MARGIN)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="12" fill="#151515">',
        f'<rect width="{width}" height="{height}" fill="#f0f0f0"/>',
        f'<text x="{MARGIN}" y="29" font-size="20">{escape(dashboard.title)}</text>',
    ]
    for number, panel in enumerate(dashboard.panels):
        row, column = divmod(number, 2)
        x, y = MARGIN + column * (WIDTH + MARGIN), 44 + row * (HEIGHT + MARGIN)
        parts.append(f'<g transform="translate({x} {y})">')
        parts += _panel(panel, lines.get(panel.title, ()), ends)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, lines: Sequence[Line], ends: tuple[str, str]) -> list[str]:
    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff" stroke="#d2d2d2"/>',
        f'<text x="12" y="22" font-size="14" font-weight="bold">{escape(panel.title)}</text>',
    ]
    shown = sorted(lines, key=lambda line: (-line.points[-1][1], line.name))[:SERIES_LIMIT]
    if panel.kind == "stat":
        for number, line in enumerate(shown[:3]):
            x, text = 16 + 190 * number, value_text(line.points[-1][1], panel.unit)
            parts.append(f'<text x="{x}" y="110" font-size="30">{escape(text)}</text>')
            parts.append(f'<text x="{x}" y="135" fill="#6a6e73">{escape(line.name)}</text>')
        return parts
    left, top, right, bottom = 80, 40, WIDTH - 215, HEIGHT - 30
    times = [at for line in shown for at, _ in line.points]
    first, last = min(times), max(times)
    highest = max(value for line in shown for _, value in line.points) or 1.0
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * (bottom - top)
        text = escape(value_text(highest * share, panel.unit))
        parts.append(f'<path d="M{left} {y:.0f}H{right}" stroke="#ededed"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{text}</text>')
    for x, anchor, text in ((left, "start", ends[0]), (right, "end", ends[1])):
        parts.append(
            f'<text x="{x}" y="{bottom + 18}" text-anchor="{anchor}" fill="#6a6e73">{text}</text>'
        )
    for number, line in enumerate(shown):
        at = " ".join(
            f"{left + (t - first) / ((last - first) or 1) * (right - left):.1f},"
            f"{bottom - value / highest * (bottom - top):.1f}"
            for t, value in line.points
        )
        colour, y = COLOURS[number], top + 4 + 20 * number
        parts.append(f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<rect x="{right + 14}" y="{y - 8}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{right + 30}" y="{y + 1}" font-size="9">{escape(line.name)}</text>')
    if len(lines) > len(shown):
        text = f"and {len(lines) - len(shown)} more"
        parts.append(f'<text x="{right + 30}" y="{HEIGHT - 24}" font-size="9">{text}</text>')
    return parts
