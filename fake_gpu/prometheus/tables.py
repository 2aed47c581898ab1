"""Series of one metric as columns: a day is sorted once, and a window is cut out of it.

Put here: tables of constant segments, and the rows of a window.
Not here: how rows are written (`answer`, `openmetrics`), or series that vary (`window`).

A pull queries hour after hour of the same series, and an export for all of them. So labels are
put into order once a day, and where each segment meets the scrapes of a window is found for all
segments of a metric together. Most of them are then the same cut with the same value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from fake_gpu.prometheus.scrapes import Grid
from fake_gpu.prometheus.segments import AnySegment, PrometheusReplica, ValueSegment
from fake_gpu.prometheus.targets import Target

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fake_gpu.prometheus.label_sets import LabelLayout, LabelSet
    from fake_gpu.prometheus.series import TimeBlock

    Integers = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

_NAME_FIRST = "__name__\0"
GridOf = Callable[[Target, PrometheusReplica], Grid]


class ValueCut(NamedTuple):
    """Some scrapes of a block, at all of which a series had this value."""

    block: TimeBlock
    low: int
    high: int
    value: float


@dataclass(slots=True)
class Rows:
    """The samples of a table in a window, series by series."""

    table: SeriesTable
    owners: list[int]  # which series of the table, row by row
    which: list[int]  # which of the cuts, row by row
    cuts: list[ValueCut]
    count: int  # of all samples


@dataclass(frozen=True, slots=True)
class Columns:
    """Segments, one after another: when each begins and ends, and its value."""

    from_ms: Integers
    until_ms: Integers
    values: Floats

    def at(self, places: Integers | Sequence[int]) -> Columns:
        return Columns(self.from_ms[places], self.until_ms[places], self.values[places])


class UnorderedSeries:
    """Segments of series as they are found, before they are put into order."""

    def __init__(self, grid_of: GridOf) -> None:
        self.grids: list[Grid] = []
        self.is_constant = True  # and not from scrape to scrape another value
        self._grid_of = grid_of
        self._known: dict[tuple[str, int], int] = {}
        self._written: list[tuple[LabelLayout, list[tuple[str, ...]]]] = []
        self._parts: list[tuple[Columns, int]] = []
        self._label_sets: list[LabelSet] = []
        self._segments: list[ValueSegment] = []
        self._numbers: list[int] = []

    def number(self, target: Target, replica: PrometheusReplica) -> int:
        """The number of the grid on which a replica scrapes a target."""
        key = (target.name, replica.number)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.grids)
            self.grids.append(self._grid_of(target, replica))
        return number

    def add_columns(
        self, layout: LabelLayout, own: list[tuple[str, ...]], segments: Columns, number: int
    ) -> None:
        """Segments of series with the same names of labels, whose own values are these."""
        self._written.append((layout, own))
        self._parts.append((segments, number))

    def add(self, label_set: LabelSet, number: int, segments: Sequence[AnySegment]) -> None:
        """All segments of one series."""
        for segment in segments:
            if type(segment) is not ValueSegment:
                self.is_constant = False
                return
            self._label_sets.append(label_set)
            self._segments.append(segment)
            self._numbers.append(number)

    def orders(self) -> list[str]:
        """Of each segment the labels, as texts that compare as these do."""
        laid_out = (layout.orders(own) for layout, own in self._written)
        return [*chain.from_iterable(laid_out), *[each.order for each in self._label_sets]]

    def texts(self) -> list[str]:
        """Of each segment the labels as a JSON object."""
        laid_out = (layout.texts(own) for layout, own in self._written)
        return [*chain.from_iterable(laid_out), *[each.text for each in self._label_sets]]

    def expositions(self) -> list[str]:
        """Of each segment the labels as a line of an exposition begins."""
        laid_out = (layout.expositions(own) for layout, own in self._written)
        return [*chain.from_iterable(laid_out), *[each.exposition for each in self._label_sets]]

    def columns(self) -> tuple[Columns, Integers]:
        """All segments, and the number of the grid of each."""
        import numpy as np

        others = Columns(
            np.array([segment.from_ms for segment in self._segments], dtype=np.int64),
            np.array([segment.until_ms for segment in self._segments], dtype=np.int64),
            np.array([segment.value for segment in self._segments], dtype=np.float64),
        )
        parts = [*(columns for columns, _ in self._parts), others]
        numbers = [np.full(len(each.values), number) for each, number in self._parts]
        return Columns(
            np.concatenate([each.from_ms for each in parts]),
            np.concatenate([each.until_ms for each in parts]),
            np.concatenate([each.values for each in parts]),
        ), np.concatenate([*numbers, np.array(self._numbers, dtype=np.int64)])


class SeriesTable:
    """The series of one metric of a cluster in some days, in the order of their labels."""

    def __init__(self, unordered: UnorderedSeries, firsts: list[int], segments: _Segments) -> None:
        self._unordered = unordered
        self._firsts = firsts  # of the unordered segments, those that begin a series
        self._segments = segments
        self._heads: list[str] = []
        self._expositions: list[bytes] = []

    @classmethod
    def of(cls, unordered: UnorderedSeries) -> SeriesTable | None:
        """None where values vary from scrape to scrape, or two series of one name are one.

        Nor where the order of labels does not begin with the name: metrics mingle there.
        """
        orders = unordered.orders()
        places = sorted(range(len(orders)), key=orders.__getitem__)
        ends = (orders[places[0]], orders[places[-1]]) if places else ()
        if not (unordered.is_constant and all(order.startswith(_NAME_FIRST) for order in ends)):
            return None
        columns, numbers = unordered.columns()
        firsts: list[int] = []
        owners: list[int] = []
        last, before = -1, ""
        for place in places:
            order = orders[place]
            if order != before:
                firsts.append(place)
                before = order
            # A name that is used again, where nothing else distinguishes the two, is one series.
            elif columns.from_ms[place] < columns.until_ms[last] or numbers[place] != numbers[last]:
                return None
            last = place
            owners.append(len(firsts) - 1)
        segments = _Segments(unordered.grids, columns.at(places), numbers[places], owners)
        return cls(unordered, firsts, segments)

    def heads(self) -> list[str]:
        """The text of a response before the samples of each series."""
        if len(self._heads) < len(self._firsts):
            texts = self._unordered.texts()
            self._heads = [f'{{"metric":{texts[first]},"values":[' for first in self._firsts]
        return self._heads

    def expositions(self) -> list[bytes]:
        """The text of an exposition before the value of each series."""
        if len(self._expositions) < len(self._firsts):
            texts = self._unordered.expositions()
            self._expositions = [f"{texts[first]} ".encode() for first in self._firsts]
        return self._expositions

    def between(self, start_ms: int, end_ms: int) -> Rows:
        """The rows in a closed range of times."""
        if not self._firsts:
            return Rows(self, [], [], [], 0)
        return self._segments.rows(self, start_ms, end_ms)


class _Segments:
    """All segments of a table, those of one series after another."""

    def __init__(
        self, grids: Sequence[Grid], columns: Columns, numbers: Integers, owners: list[int]
    ) -> None:
        import numpy as np

        self._grids = grids
        self._numbers = numbers
        self._owners = np.array(owners, dtype=np.int64)
        # By their bits: -0 is another value than 0, and NaN is one.
        bits, self._values = np.unique(columns.values.view(np.int64), return_inverse=True)
        self._known_values: list[float] = bits.view(np.float64).tolist()
        # Of each grid: the places of its segments, and when these begin and end.
        by_grid = [(numbers == number).nonzero()[0] for number in range(len(grids))]
        self._by_grid = [
            (places, columns.from_ms[places], columns.until_ms[places]) for places in by_grid
        ]

    def rows(self, table: SeriesTable, start_ms: int, end_ms: int) -> Rows:
        import numpy as np

        blocks = [grid.shown(start_ms, end_ms) for grid in self._grids]
        met = [
            _met(block, *segments) for block, segments in zip(blocks, self._by_grid, strict=True)
        ]
        there, lows, highs = (np.concatenate(parts) for parts in zip(*met, strict=True))
        if len(met) > 1:
            order = there.argsort()
            there, lows, highs = there[order], lows[order], highs[order]
        size = max(len(block.times) for block in blocks) + 1
        codes = (self._values[there] * len(blocks) + self._numbers[there]) * size * size
        _, firsts, which = np.unique(
            codes + lows * size + highs, return_index=True, return_inverse=True
        )
        cuts = zip(
            self._numbers[there[firsts]].tolist(),
            lows[firsts].tolist(),
            highs[firsts].tolist(),
            self._values[there[firsts]].tolist(),
            strict=True,
        )
        return Rows(
            table,
            self._owners[there].tolist(),
            which.tolist(),
            [ValueCut(blocks[g], low, high, self._known_values[v]) for g, low, high, v in cuts],
            int((highs - lows).sum()),
        )


def _met(
    block: TimeBlock, places: Integers, begun: Integers, ended: Integers
) -> tuple[Integers, Integers, Integers]:
    """Of segments those that a scrape of the block met, and from which to which one."""
    if not block.times:
        return places[:0], places[:0], places[:0]
    real = block.real_array()
    # A day has many segments and an hour few of them, so those far away are left out at once.
    near = ((begun <= real[-1]) & (ended > real[0])).nonzero()[0]
    lows, highs = real.searchsorted(begun[near]), real.searchsorted(ended[near])
    there = (lows < highs).nonzero()[0]
    return places[near[there]], lows[there], highs[there]
