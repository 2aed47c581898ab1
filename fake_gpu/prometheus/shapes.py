"""Series of one metric on their way into a table, by the names of their labels.

Put here: results that are equal for all series with the same names of labels.
Not here: the exposed series (`pod_series`, `object_series`), the table (`tables`).

A day has tens of thousands of series and a handful of lists of names. So the labels that a
target adds, the values that a matcher compares, and the text of labels are determined per list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fake_gpu.prometheus.label_sets import LabelLayout, make_selector
from fake_gpu.prometheus.matchers import Matcher, all_match
from fake_gpu.prometheus.segments import NO_END, PrometheusReplica
from fake_gpu.prometheus.tables import Columns, UnorderedSeries
from fake_gpu.prometheus.targets import Target, sources_of_labels

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

Texts = tuple[str, ...]
_NEVER = NO_END // 1000  # in seconds


class Shapes:
    """The chosen series of one metric of one target, as they are exposed."""

    def __init__(self, target: Target, name: str, matchers: Sequence[Matcher]) -> None:
        self._target = target
        self._name = name
        self._matchers = matchers
        self._shapes: dict[tuple[object, ...], _Shape] = {}

    def add(
        self,
        names: Texts,
        values: Texts,
        from_at: int,
        until_at: int | None,
        number: float,
        seen_until: dict[Texts, int],
    ) -> None:
        """One interval of a series; `seen_until` has those of its object, and when each ended."""
        until = _NEVER if until_at is None else until_at
        if until <= from_at:
            return
        # Labels without a value are left out, so they are a case of their own.
        key = (names, *map(bool, values)) if "" in values else names
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = _Shape(
                self._target, self._name, names, values, self._matchers
            )
        # Of two equal series in one scrape, Prometheus keeps the first.
        if shape.is_chosen(values) and seen_until.get(values, from_at) <= from_at:
            seen_until[values] = until
            shape.add(values, from_at, until, number)

    def add_to(
        self,
        unordered: UnorderedSeries,
        window: tuple[int, int],
        replicas: Sequence[PrometheusReplica],
    ) -> None:
        """Add the segments that a scrape of a replica met to a table.

        Many never meet one: a pod that is bound within a second of its making.
        """
        numbers = [unordered.number(self._target, replica) for replica in replicas]
        times = [unordered.grids[number].between(*window).real_array() for number in numbers]
        for shape in self._shapes.values():
            segments = shape.columns()
            for replica, number, scrapes in zip(replicas, numbers, times, strict=True):
                met = _met(scrapes, segments)
                own = [shape.values[place] for place in met.tolist()]
                unordered.add_columns(shape.layout(replica), own, segments.at(met), number)


class _Shape:
    """Series with the same names of labels: their common and their own parts."""

    def __init__(
        self, target: Target, name: str, names: Texts, values: Texts, matchers: Sequence[Matcher]
    ) -> None:
        exposed = tuple(zip(names, values, strict=True))
        places, self._fixed = sources_of_labels(target, name, exposed)
        self._names = list(places)
        self._select = make_selector(list(places.values()))
        self._tests = [(places[m.name], m.test) for m in matchers if m.name in places]
        others = [m for m in matchers if m.name not in places]
        self._is_possible = all_match(others, self._fixed)
        self.values: list[Texts] = []
        self._from: list[int] = []  # seconds
        self._until: list[int] = []
        self._numbers: list[float] = []

    def layout(self, replica: PrometheusReplica) -> LabelLayout:
        return replica.layout(self._names, self._fixed)

    def is_chosen(self, values: Sequence[str]) -> bool:
        for place, test in self._tests:
            if not test(values[place]):
                return False
        return self._is_possible

    def add(self, values: Sequence[str], from_at: int, until_at: int, number: float) -> None:
        self.values.append(self._select(values))
        self._from.append(from_at)
        self._until.append(until_at)
        self._numbers.append(number)

    def columns(self) -> Columns:
        """The segments added, in milliseconds."""
        import numpy as np

        return Columns(
            np.array(self._from, dtype=np.int64) * 1000,
            np.array(self._until, dtype=np.int64) * 1000,
            np.array(self._numbers, dtype=np.float64),
        )


def _met(scrapes_ms: Integers, segments: Columns) -> Integers:
    """Which of the segments are there at any scrape."""
    begun = scrapes_ms.searchsorted(segments.from_ms)
    return (begun < scrapes_ms.searchsorted(segments.until_ms)).nonzero()[0]
