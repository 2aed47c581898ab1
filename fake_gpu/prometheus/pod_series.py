"""The metrics of pods that a ledger reads, straight from the lives of pods.

Put here: lives of series per pod, made once and kept while the pod is in the window.
Not here: what is said of a pod (`fake_gpu.exporters.pod_lives`), other metrics (`object_series`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from fake_gpu.estate.model import PodLife
from fake_gpu.exporters.exposition import Pairs
from fake_gpu.exporters.pod_lives import Stretches, stretches
from fake_gpu.prometheus.label_sets import LabelSet, Layout, taker
from fake_gpu.prometheus.matchers import Matcher, all_match
from fake_gpu.prometheus.segments import NO_END, AnySegment, Life, Replica, Segment, joined
from fake_gpu.prometheus.tables import Sheet
from fake_gpu.prometheus.targets import Target, sources_of_labels

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

HOUR_SECONDS = 3600
# A series that ended this long before the window may still leave its staleness marker in it.
LONGEST_ECHO_SECONDS = 600
_NEVER = NO_END // 1000  # in seconds


class PodIndex:
    """Which pods exist in which hour."""

    def __init__(self, pods: Sequence[PodLife]) -> None:
        self.pods = pods
        self._hours: dict[int, list[int]] = {}
        self._open: list[int] = []
        for number, pod in enumerate(pods):
            if pod.gone_at is None:
                self._open.append(number)
                continue
            last = (pod.gone_at + LONGEST_ECHO_SECONDS) // HOUR_SECONDS
            for hour in range(pod.created_at // HOUR_SECONDS, last + 1):
                self._hours.setdefault(hour, []).append(number)

    def between(self, start_ms: int, end_ms: int) -> list[int]:
        """The numbers of the pods that exist in the hours of a range, or ended just before."""
        first, last = start_ms // 1000 // HOUR_SECONDS, end_ms // 1000 // HOUR_SECONDS
        found: Iterable[int]
        if first == last:
            found = self._hours.get(first, ())
        else:
            hours = range(first, last + 1)
            found = sorted({number for hour in hours for number in self._hours.get(hour, ())})
        still = [n for n in self._open if self.pods[n].created_at // HOUR_SECONDS <= last]
        return [*found, *still]


class PodSeries:
    """Some families of one exporter, for all pods of a cluster."""

    def __init__(
        self,
        target: Target,
        index: PodIndex,
        families: Mapping[str, Callable[[PodLife], Stretches]],
    ) -> None:
        self.target = target
        self.index = index
        self.families = families
        self._windows: dict[str, tuple[int, int]] = {}
        self._made: dict[str, dict[int, list[Life]]] = {}

    def names(self) -> Iterable[str]:
        return self.families

    def lives(self, name: str, start_ms: int, end_ms: int) -> list[Life]:
        """The series of the pods in the window; those of pods that left it are forgotten."""
        window = (start_ms // 1000 // HOUR_SECONDS, end_ms // 1000 // HOUR_SECONDS)
        if self._windows.get(name) != window:
            before = self._made.get(name, {})
            self._made[name] = {
                number: before.get(number) or self._of(name, self.index.pods[number])
                for number in self.index.between(start_ms, end_ms)
            }
            self._windows[name] = window
        return [life for lives in self._made[name].values() for life in lives]

    def add_to(
        self,
        sheet: Sheet,
        name: str,
        window: tuple[int, int],
        matchers: tuple[Matcher, ...],
        replicas: Sequence[Replica],
    ) -> None:
        """The segments that any scrape of a replica met; they are not remembered.

        Many never meet one: a pod that is bound within a second of its making.
        """
        numbers = [sheet.number(self.target, replica) for replica in replicas]
        times = [sheet.grids[number].between(*window).real_array() for number in numbers]
        for shape in self._shapes(name, window, matchers):
            segments = list(zip(*shape.segments, strict=True))
            for replica, number, scrapes in zip(replicas, numbers, times, strict=True):
                layout = shape.layout(replica)
                for place in _met(scrapes, segments):
                    values = shape.values[place]
                    sheet.label_sets.append(LabelSet.laid_out(layout, values))
                    sheet.segments.append(shape.segments[place])
                    sheet.numbers.append(number)

    def _shapes(
        self, name: str, window: tuple[int, int], matchers: tuple[Matcher, ...]
    ) -> Iterable[_Shape]:
        """The series that are chosen, by the names of their labels."""
        shapes: dict[tuple[object, ...], _Shape] = {}
        for number in self.index.between(*window):
            said: dict[tuple[str, ...], int] = {}
            for stretch in stretches(self.families, name, self.index.pods[number]):
                names, values, from_at, until_at, value = stretch
                # Labels without a value are left out, so they are a case of their own.
                key = (names, *map(bool, values)) if "" in values else names
                shape = shapes.get(key)
                if shape is None:
                    shape = shapes[key] = _Shape(self.target, name, stretch.labels, matchers)
                if not shape.is_chosen(values):
                    continue
                # Of two equal series in one scrape, Prometheus keeps the first.
                if said.get(values, from_at) <= from_at:
                    said[values] = until = _NEVER if until_at is None else until_at
                    shape.add(values, (from_at * 1000, until * 1000, value))
        return shapes.values()

    def _of(self, name: str, pod: PodLife) -> list[Life]:
        found = self._segments(name, pod)
        return [
            Life(self.target, self.target.labelled(name, exposed), joined(parts), exposed)
            for exposed, parts in found.items()
        ]

    def _segments(self, name: str, pod: PodLife) -> dict[Pairs, list[AnySegment]]:
        # Within a family of a pod, equal labels are equally written.
        found: dict[Pairs, list[AnySegment]] = {}
        for stretch in stretches(self.families, name, pod):
            until = NO_END if stretch.until_at is None else stretch.until_at * 1000
            parts = found.setdefault(stretch.labels, [])
            # Of two equal series in one scrape, Prometheus keeps the first.
            if not parts or parts[-1].until_ms <= stretch.from_at * 1000:
                parts.append(Segment(stretch.from_at * 1000, until, stretch.value))
        return found


class _Shape:
    """Series with the same names of labels: what is the same of all of them, and what is not."""

    def __init__(
        self, target: Target, name: str, exposed: Pairs, matchers: Sequence[Matcher]
    ) -> None:
        places, self._fixed = sources_of_labels(target, name, exposed)
        self._names = list(places)
        self._take = taker(list(places.values()))
        self._tests = [(places[m.name], m.test) for m in matchers if m.name in places]
        others = [m for m in matchers if m.name not in places]
        self._is_possible = all_match(others, self._fixed)
        self.values: list[tuple[str, ...]] = []
        self.segments: list[tuple[int, int, float]] = []

    def layout(self, replica: Replica) -> Layout:
        return replica.layout(self._names, self._fixed)

    def is_chosen(self, values: Sequence[str]) -> bool:
        for place, test in self._tests:
            if not test(values[place]):
                return False
        return self._is_possible

    def add(self, values: Sequence[str], segment: tuple[int, int, float]) -> None:
        self.values.append(self._take(values))
        self.segments.append(segment)


def _met(scrapes_ms: Integers, segments: Sequence[Sequence[float]]) -> list[int]:
    """Which of the segments (beginnings, ends, values) are there at any scrape."""
    import numpy as np

    if not segments:
        return []
    begun, ended = (np.array(edges, dtype=np.int64) for edges in segments[:2])
    there = scrapes_ms.searchsorted(begun) < scrapes_ms.searchsorted(ended)
    places: list[int] = there.nonzero()[0].tolist()
    return places
