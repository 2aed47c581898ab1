"""A fleet's samples as OpenMetrics files, from which promtool makes blocks of a real Prometheus.

Put here: writing a time of a source into files, one per day.
Not here: the samples (`source`).

One file per day, because promtool reads a file once for every two hours that it covers:

    for day in folder/*.om; do promtool tsdb create-blocks-from openmetrics $day DATA; done

OpenMetrics has no staleness markers, so the real server's instant answers live on for the length
of its look-back where a source with markers would have stopped.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from fake_gpu.exporters.numbers import exposition_text
from fake_gpu.prometheus.cycles import collector_paused
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.scrapes import HOUR_MS
from fake_gpu.prometheus.series import ConstantSamples, SeriesSource, TablesSource, WindowSeries
from fake_gpu.prometheus.tables import Rows

Progress = Callable[[int, int, str], None]
EVERYTHING = (Matcher("__name__", "!=", ""),)
_DAY_MS = 24 * HOUR_MS
# Written at once: four times less took a tenth longer, four times more leaves a processor's cache.
PAGE_BYTES = 1 << 18
# Each makes tables of its own: some 300 MB for a fleet of a hundred nodes.
MOST_PROCESSES = 8


@dataclass(frozen=True, slots=True)
class _Export:
    """The series to write, and the file."""

    source: SeriesSource
    matchers: Sequence[Matcher]
    start_ms: int
    end_ms: int
    folder: Path

    @property
    def days(self) -> range:
        return range(self.start_ms // _DAY_MS, -(-self.end_ms // _DAY_MS))

    def write(self, day: int) -> Path:
        path = self.folder / f"{_name(day)}.om"
        from_ms, until_ms = day * _DAY_MS, (day + 1) * _DAY_MS
        with path.open("wb", buffering=0) as sink:
            window = max(self.start_ms, from_ms), min(self.end_ms, until_ms)
            _write_day(self.source, self.matchers, *window, sink)
        return path


def _name(day: int) -> str:
    return datetime.fromtimestamp(day * _DAY_MS / 1000, UTC).strftime("%Y-%m-%d")


def write_openmetrics(
    source: SeriesSource,
    start: datetime,
    end: datetime,
    folder: Path,
    progress: Progress | None = None,
    matchers: Sequence[Matcher] = EVERYTHING,
    processes: int = 1,
) -> list[Path]:
    """Write the samples of `[start, end)`; returns the files in order.

    Days have nothing to do with each other, so several `processes` write several at once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    export = _Export(source, matchers, _milliseconds(start), _milliseconds(end), folder)
    days = export.days
    apart = processes > 1 and len(days) > 1
    paths = []
    # All days together: after each one it would look through the whole fleet, in vain.
    with collector_paused():
        written = _written_apart(export, processes) if apart else map(export.write, days)
        for number, day in enumerate(days):
            if progress is not None:
                progress(number, len(days), _name(day))
            paths.append(next(written))
    return paths


def _written_apart(export: _Export, processes: int) -> Iterator[Path]:
    """By copies of this process, which share its fleet as it is."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    global _exported
    _exported = export
    try:
        with ProcessPoolExecutor(processes, get_context("fork"), _ignore_interrupts) as workers:
            yield from workers.map(_write_shared, export.days)
    finally:
        _exported = None


_exported: _Export | None = None


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process


def _write_shared(day: int) -> Path:
    assert _exported is not None, "a forked process has the data of its parent"
    return _exported.write(day)


def processes_here() -> int:
    """How many processes may write at once: copies of a process are sound on Linux alone."""
    if sys.platform != "linux":
        return 1
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSES)


def _write_day(
    source: SeriesSource, matchers: Sequence[Matcher], from_ms: int, until_ms: int, sink: BinaryIO
) -> None:
    for page in _pages(_texts(source, matchers, from_ms, until_ms)):
        sink.write(page)
    sink.write(b"# EOF\n")


def _pages(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Many small texts as a few large ones; one that is large already is not copied again."""
    page: list[bytes] = []
    size = 0
    for text in texts:
        page.append(text)
        size += len(text)
        if size >= PAGE_BYTES:
            yield b"".join(page)
            page, size = [], 0
    yield b"".join(page)


def _texts(
    source: SeriesSource, matchers: Sequence[Matcher], from_ms: int, until_ms: int
) -> Iterator[bytes]:
    """Metric by metric where the source has tables of a day, else hour by hour."""
    if not isinstance(source, TablesSource):
        yield from _by_hour(source, matchers, from_ms, until_ms)
        return
    others = [matcher for matcher in matchers if matcher.name != "__name__"]
    for metric in sorted(source.metrics(matchers)):
        wanted = [Matcher("__name__", "=", metric), *others]
        rows = source.rows_of(wanted, from_ms, until_ms - 1)
        if rows is None:
            yield from _by_hour(source, wanted, from_ms, until_ms)
        else:
            for each in rows:
                yield from _of_rows(each)


def _by_hour(
    source: SeriesSource, matchers: Sequence[Matcher], from_ms: int, until_ms: int
) -> Iterator[bytes]:
    for hour_ms in range(from_ms, until_ms, HOUR_MS):
        last_ms = min(hour_ms + HOUR_MS, until_ms) - 1
        for series in source.select(matchers, hour_ms, last_ms):
            yield from _of_series(series)


def _of_rows(rows: Rows) -> Iterator[bytes]:
    expositions = rows.table.expositions()
    ends = [cut.block.line_ends(cut.low, cut.high) for cut in rows.cuts]
    values = [_value(cut.value) for cut in rows.cuts]
    for owner, which in zip(rows.owners, rows.which, strict=True):
        yield (expositions[owner] + values[which]).join(ends[which])


def _of_series(series: WindowSeries) -> Iterator[bytes]:
    prefix = f"{series.label_set.exposition} ".encode()
    for part in series.parts:
        ends = part.block.line_ends(part.low, part.high)
        if isinstance(part, ConstantSamples):
            yield (prefix + _value(part.value)).join(ends)
        else:
            for end, number in zip(ends[1:], part.numbers, strict=True):
                yield b"%b%b%b" % (prefix, _value(number), end)


def _value(number: float) -> bytes:
    return f"{exposition_text(number)} ".encode()


def _milliseconds(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)
