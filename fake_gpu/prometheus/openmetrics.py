"""An estate's samples as OpenMetrics files, from which promtool makes blocks of a real Prometheus.

Put here: writing a time of a source into files, one per day.
Not here: the samples (`source`).

One file per day, because promtool reads a file once for every two hours that it covers:

    for day in folder/*.om; do promtool tsdb create-blocks-from openmetrics $day DATA; done

OpenMetrics has no staleness markers, so the real server's instant answers live on for the length
of its look-back where a source with markers would have stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from fake_gpu.exporters.exposition import labels_text
from fake_gpu.exporters.numbers import exposition_text
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.scrapes import HOUR_MS
from fake_gpu.prometheus.series import Piece, RawSeries, SeriesSource

Progress = Callable[[int, int, str], None]
EVERYTHING = (Matcher("__name__", "!=", ""),)
_DAY_MS = 24 * HOUR_MS


def write_openmetrics(
    source: SeriesSource,
    start: datetime,
    end: datetime,
    folder: Path,
    progress: Progress | None = None,
    matchers: Sequence[Matcher] = EVERYTHING,
) -> list[Path]:
    """Write the samples of `[start, end)`; returns the files in order."""
    start_ms, end_ms = _milliseconds(start), _milliseconds(end)
    folder.mkdir(parents=True, exist_ok=True)
    days = range(start_ms // _DAY_MS, -(-end_ms // _DAY_MS))
    paths = []
    for number, day in enumerate(days):
        name = datetime.fromtimestamp(day * _DAY_MS / 1000, UTC).strftime("%Y-%m-%d")
        if progress is not None:
            progress(number, len(days), name)
        path = folder / f"{name}.om"
        from_ms, until_ms = max(start_ms, day * _DAY_MS), min(end_ms, (day + 1) * _DAY_MS)
        with path.open("w", encoding="utf-8", newline="\n") as sink:
            _write_day(source, matchers, from_ms, until_ms, sink)
        paths.append(path)
    return paths


def _write_day(
    source: SeriesSource, matchers: Sequence[Matcher], from_ms: int, until_ms: int, sink: TextIO
) -> None:
    for hour_ms in range(from_ms, until_ms, HOUR_MS):
        last_ms = min(hour_ms + HOUR_MS, until_ms) - 1
        for series in source.select(matchers, hour_ms, last_ms):
            sink.writelines(_lines(series))
    sink.write("# EOF\n")


def _lines(series: RawSeries) -> Iterator[str]:
    labels = series.labels
    shown = labels_text((name, value) for name, value in series.key if name != "__name__")
    prefix = f"{labels['__name__']}{shown} "
    for piece in series.pieces:
        times = piece.block.texts()[piece.low : piece.high]
        if isinstance(piece, Piece):
            before = f"{prefix}{exposition_text(piece.value)} "
            yield before + f"\n{before}".join(times) + "\n"
        else:
            for text, number in zip(times, piece.numbers, strict=True):
                yield f"{prefix}{exposition_text(number)} {text}\n"


def _milliseconds(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)
