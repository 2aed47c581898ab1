"""Series of one metric as columns: what a day holds is sorted once, and a window is cut out of it.

Put here: tables of constant segments, and the rows of a window.
Not here: how rows are written (`answer`, `openmetrics`), or series that vary (`window`).

A pull asks for hour after hour of the same series, and an export for all of them. So labels are
put into order once a day, and where each segment meets the scrapes of a window is found for all
segments of a metric together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fake_gpu.prometheus.scrapes import Grid
from fake_gpu.prometheus.segments import Found, Replica, Segment
from fake_gpu.prometheus.targets import Target

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fake_gpu.prometheus.label_sets import LabelSet
    from fake_gpu.prometheus.series import TimeBlock

    Integers = npt.NDArray[np.int64]

_NAME_FIRST = "__name__\0"
GridOf = Callable[[Target, Replica], Grid]


@dataclass(slots=True)
class Rows:
    """The samples of a table in a window: cuts of blocks, each of one value, series by series."""

    table: Table
    owners: list[int]  # which series of the table
    blocks: list[TimeBlock]
    lows: list[int]
    highs: list[int]
    values: list[float]
    count: int  # of all samples


class Table:
    """The series of one metric of a cluster in some days, in the order of their labels."""

    def __init__(self, label_sets: list[LabelSet], segments: _Segments) -> None:
        self.label_sets = label_sets
        self._segments = segments
        self._heads: list[str] = []

    @classmethod
    def of(cls, found: Sequence[Found], grid_of: GridOf) -> Table | None:
        """None where values vary from scrape to scrape, or two series of one name are one.

        Nor where the order of labels does not begin with the name: metrics mingle there.
        """
        orders = [each.label_set.order for each in found]
        if not all(order.startswith(_NAME_FIRST) for order in orders):
            return None
        ordered = sorted(range(len(found)), key=orders.__getitem__)
        label_sets: list[LabelSet] = []
        segments, before = _Segments(), ""
        for place in ordered:
            each = found[place]
            # A name that is used again, where nothing else tells the two apart, is one series.
            if orders[place] != before:
                label_sets.append(each.label_set)
                before = orders[place]
            if not segments.add(len(label_sets) - 1, each, grid_of):
                return None
        return cls(label_sets, segments)

    def heads(self) -> list[str]:
        """What an answer writes before the samples of each series."""
        if len(self._heads) < len(self.label_sets):
            self._heads = [f'{{"metric":{each.text},"values":[' for each in self.label_sets]
        return self._heads

    def between(self, start_ms: int, end_ms: int) -> Rows:
        """The rows in a closed range of times."""
        blocks, lows, highs = self._segments.met(start_ms, end_ms)
        there = (lows < highs).nonzero()[0]
        places = there.tolist()
        owners, grids, values = self._segments.owners, self._segments.grids, self._segments.values
        return Rows(
            self,
            [owners[place] for place in places],
            [blocks[grids[place]] for place in places],
            lows[there].tolist(),
            highs[there].tolist(),
            [values[place] for place in places],
            int((highs - lows)[there].sum()),
        )


class _Segments:
    """All segments of a table, those of one series after another."""

    def __init__(self) -> None:
        self.owners: list[int] = []
        self.grids: list[int] = []
        self.values: list[float] = []
        self._edges: list[tuple[int, int]] = []
        self._known: dict[tuple[str, int], int] = {}
        self._grids: list[Grid] = []
        self._places: list[tuple[Integers, Integers, Integers]] = []

    def add(self, owner: int, found: Found, grid_of: GridOf) -> bool:
        """Whether the segments could be added: those of one series follow each other."""
        key = (found.target.name, found.replica.number)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self._grids)
            self._grids.append(grid_of(found.target, found.replica))
        if self.owners and self.owners[-1] == owner:
            follows = self._edges[-1][1] <= found.segments[0].from_ms
            if not (follows and self.grids[-1] == number):
                return False
        for segment in found.segments:
            if type(segment) is not Segment:
                return False
            self.owners.append(owner)
            self.grids.append(number)
            self._edges.append((segment.from_ms, segment.until_ms))
            self.values.append(segment.value)
        return True

    def met(self, start_ms: int, end_ms: int) -> tuple[list[TimeBlock], Integers, Integers]:
        """The scrapes of a window, and from which to which of them each segment was there."""
        import numpy as np

        lows = np.zeros(len(self.owners), dtype=np.int64)
        highs = np.zeros(len(self.owners), dtype=np.int64)
        blocks = [grid.between(start_ms, end_ms) for grid in self._grids]
        for block, (places, begun, ended) in zip(blocks, self._by_grid(), strict=True):
            real = block.real_array()
            lows[places] = real.searchsorted(begun)
            highs[places] = real.searchsorted(ended)
        return blocks, lows, highs

    def _by_grid(self) -> list[tuple[Integers, Integers, Integers]]:
        """Of each grid: the places of its segments, and when these begin and end."""
        import numpy as np

        if len(self._places) < len(self._grids):
            grids = np.array(self.grids, dtype=np.int64)
            edges = np.array(self._edges, dtype=np.int64)
            self._edges = []
            for number in range(len(self._grids)):
                places = (grids == number).nonzero()[0]
                self._places.append((places, edges[places, 0], edges[places, 1]))
        return self._places
