"""Series of one metric as columns: what a day holds is sorted once, and a window is cut out of it.

Put here: tables of constant segments, and the rows of a window.
Not here: how rows are written (`answer`, `openmetrics`), or series that vary (`window`).

A pull asks for hour after hour of the same series, and an export for all of them. So labels are
put into order once a day, and where each segment meets the scrapes of a window is found for all
segments of a metric together. Most of them are then the same cut with the same value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from fake_gpu.prometheus.scrapes import Grid
from fake_gpu.prometheus.segments import AnySegment, Replica, Segment
from fake_gpu.prometheus.targets import Target

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fake_gpu.prometheus.label_sets import LabelSet
    from fake_gpu.prometheus.series import TimeBlock

    Integers = npt.NDArray[np.int64]

_NAME_FIRST = "__name__\0"
GridOf = Callable[[Target, Replica], Grid]


class ValueCut(NamedTuple):
    """Some scrapes of a block, at all of which a series had this value."""

    block: TimeBlock
    low: int
    high: int
    value: float


@dataclass(slots=True)
class Rows:
    """The samples of a table in a window, series by series."""

    table: Table
    owners: list[int]  # which series of the table, row by row
    which: list[int]  # which of the cuts, row by row
    cuts: list[ValueCut]
    count: int  # of all samples


@dataclass(slots=True)
class Sheet:
    """Segments of series as they are found, before they are put into order."""

    grid_of: GridOf
    label_sets: list[LabelSet] = field(default_factory=list)
    segments: list[tuple[int, int, float]] = field(default_factory=list)  # milliseconds
    numbers: list[int] = field(default_factory=list)  # of their grids
    grids: list[Grid] = field(default_factory=list)
    is_constant: bool = True  # and not from scrape to scrape another value
    _known: dict[tuple[str, int], int] = field(default_factory=dict)

    def number(self, target: Target, replica: Replica) -> int:
        """The number of the grid on which a replica scrapes a target."""
        key = (target.name, replica.number)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.grids)
            self.grids.append(self.grid_of(target, replica))
        return number

    def add(self, label_set: LabelSet, number: int, segments: Sequence[AnySegment]) -> None:
        for segment in segments:
            if type(segment) is not Segment:
                self.is_constant = False
                return
            self.label_sets.append(label_set)
            self.segments.append((segment.from_ms, segment.until_ms, segment.value))
            self.numbers.append(number)


class Table:
    """The series of one metric of a cluster in some days, in the order of their labels."""

    def __init__(self, label_sets: list[LabelSet], segments: _Segments) -> None:
        self.label_sets = label_sets
        self._segments = segments
        self._heads: list[str] = []
        self._expositions: list[bytes] = []

    @classmethod
    def of(cls, sheet: Sheet) -> Table | None:
        """None where values vary from scrape to scrape, or two series of one name are one.

        Nor where the order of labels does not begin with the name: metrics mingle there.
        """
        orders = [label_set.order for label_set in sheet.label_sets]
        if not (sheet.is_constant and all(order.startswith(_NAME_FIRST) for order in orders)):
            return None
        places = sorted(range(len(orders)), key=orders.__getitem__)
        label_sets: list[LabelSet] = []
        owners: list[int] = []
        before, number, ended = "", -1, 0
        for place in places:
            from_ms, until_ms, _ = sheet.segments[place]
            # A name that is used again, where nothing else tells the two apart, is one series.
            if orders[place] == before:
                if from_ms < ended or sheet.numbers[place] != number:
                    return None
            else:
                label_sets.append(sheet.label_sets[place])
                before, number = orders[place], sheet.numbers[place]
            ended = until_ms
            owners.append(len(label_sets) - 1)
        return cls(label_sets, _Segments(sheet, places, owners))

    def heads(self) -> list[str]:
        """What an answer writes before the samples of each series."""
        if len(self._heads) < len(self.label_sets):
            self._heads = [f'{{"metric":{each.text},"values":[' for each in self.label_sets]
        return self._heads

    def expositions(self) -> list[bytes]:
        """What an exposition writes before the value of each series."""
        if len(self._expositions) < len(self.label_sets):
            self._expositions = [f"{each.exposition} ".encode() for each in self.label_sets]
        return self._expositions

    def between(self, start_ms: int, end_ms: int) -> Rows:
        """The rows in a closed range of times."""
        return self._segments.rows(self, start_ms, end_ms)


class _Segments:
    """All segments of a table, those of one series after another."""

    def __init__(self, sheet: Sheet, places: list[int], owners: list[int]) -> None:
        import numpy as np

        self._grids = sheet.grids
        self._owners = np.array(owners, dtype=np.int64)
        segments = [sheet.segments[place] for place in places]
        numbers = np.array([sheet.numbers[place] for place in places], dtype=np.int64)
        self._numbers = numbers
        self._values, known = _numbered([value for _, _, value in segments])
        self._known_values = known
        begun = np.array([from_ms for from_ms, _, _ in segments], dtype=np.int64)
        ended = np.array([until_ms for _, until_ms, _ in segments], dtype=np.int64)
        # Of each grid: the places of its segments, and when these begin and end.
        by_grid = [(numbers == number).nonzero()[0] for number in range(len(self._grids))]
        self._by_grid = [(places, begun[places], ended[places]) for places in by_grid]

    def rows(self, table: Table, start_ms: int, end_ms: int) -> Rows:
        import numpy as np

        lows = np.zeros(len(self._owners), dtype=np.int64)
        highs = np.zeros(len(self._owners), dtype=np.int64)
        blocks = [grid.between(start_ms, end_ms) for grid in self._grids]
        for block, (places, begun, ended) in zip(blocks, self._by_grid, strict=True):
            real = block.real_array()
            lows[places] = real.searchsorted(begun)
            highs[places] = real.searchsorted(ended)
        there = (lows < highs).nonzero()[0]
        lows, highs = lows[there], highs[there]
        size = max((len(block.times) for block in blocks), default=0) + 1
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


def _numbered(values: Sequence[float]) -> tuple[Integers, list[float]]:
    """Which of the different values each is; -0 is another than 0, and NaN than any."""
    import numpy as np

    found: dict[float | str, int] = {}
    known: list[float] = []
    numbers = []
    for value in values:
        key = value or str(value)
        number = found.get(key)
        if number is None:
            number = found[key] = len(known)
            known.append(value)
        numbers.append(number)
    return np.array(numbers, dtype=np.int64), known
