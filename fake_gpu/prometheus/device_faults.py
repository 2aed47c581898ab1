"""Series of device exporters under faults, and whether they differ from those without.

Put here: counting faults that only change numbers.
Not here: their effects (`exporters.devices`, `node_intervals`).
"""

from __future__ import annotations

from collections.abc import Sequence

from fake_gpu.fleet.model import Fault
from fake_gpu.prometheus.device_series import DeviceSeries
from fake_gpu.prometheus.faults import SampleFaults
from fake_gpu.prometheus.scrapes import Grid, Schedule
from fake_gpu.prometheus.segments import ExposedSeries
from fake_gpu.prometheus.series import TimeBlock
from fake_gpu.prometheus.window import Window

Sample = tuple[list[tuple[str, str]], int, float]


class DisturbedSeries(DeviceSeries):
    """A series under faults, and for each of these the same series without it."""

    def __init__(
        self,
        source: DeviceSeries,
        without: Sequence[tuple[Fault, DeviceSeries]],
        faults: SampleFaults,
    ) -> None:
        super().__init__(source.target, source.exporter)
        self.source = source  # the same, and nothing is counted
        self._without = without
        self._faults = faults
        schedule = Schedule(f"{source.target.name}#0", source.target.interval_ms)
        self._scrapes = Grid(lambda low, high: TimeBlock(schedule.times(low, high)))

    def exposed_series(self, name: str, start_ms: int, end_ms: int) -> Sequence[ExposedSeries]:
        found = self.source.exposed_series(name, start_ms, end_ms)
        for fault, other in self._without:
            # Before it begins nothing of it shows; afterwards the energy that it took does.
            if fault.from_at * 1000 <= end_ms:
                window = Window(start_ms, end_ms)
                instead = self._samples(other.exposed_series(name, start_ms, end_ms), window)
                if self._samples(found, window) != instead:
                    self._faults.fire(fault, fault.from_at, f"{name} of {self.target.name}")
        return found

    def _samples(self, series_list: Sequence[ExposedSeries], window: Window) -> list[Sample]:
        """The values that the scrapes of one replica find."""
        cut = window.cut(self._scrapes)
        return sorted(
            (sorted(series.labels.items()), at, value)
            for series in series_list
            for part in window.parts(series.segments, cut)
            for at, value in zip(part.times, part.values(), strict=True)
        )
