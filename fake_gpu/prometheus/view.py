"""The querier's view of its stores: replicas united, missing stores left out.

Put here: the steps between samples as they were scraped and samples as a query sees them.
Not here: the samples (`source`), the evaluation (`evaluate`), HTTP (`app`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fake_gpu.fleet.model import Fault
from fake_gpu.prometheus.answer_faults import AnswerFaults, partly
from fake_gpu.prometheus.deduplicate import deduplicated
from fake_gpu.prometheus.language import METRIC_NAME
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.series import NamesSource, RowsSource, SeriesSource, WindowSeries
from fake_gpu.prometheus.tables import Rows


@dataclass
class QuerierView:
    """A source as one request sees it; collects the warnings of that request."""

    source: SeriesSource
    faults: AnswerFaults
    at: int  # the second at which the request is made
    deduplicate: bool
    replica_labels: Sequence[str]
    markers: bool = True  # whether staleness markers are used
    function: str = ""  # around the selector: a hint that stores of coarse samples use
    in_part: Fault | None = None  # answer only a part, without a word
    resolution_ms: int = 0  # how coarse the samples may be at most
    warnings: list[str] = field(default_factory=list)

    def around(self, function: str) -> QuerierView:
        """The same view, and the same warnings, inside a function."""
        return replace(self, function=function)

    def names_in(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> set[str]:
        """The names of the metrics that have samples in the closed range."""
        if isinstance(self.source, NamesSource) and self.faults.leave_series_alone(self.at):
            return self.source.names_in(matchers, start_ms, end_ms)
        found = self.select(matchers, start_ms, end_ms)
        return {series.labels[METRIC_NAME] for series in found if series.parts}

    def rows(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Rows] | None:
        """The rows of `select`, from tables; None where `select` has to be called."""
        as_they_are = not self.deduplicate and self.in_part is None
        if not (as_they_are and self.faults.leave_samples_alone(self.at)):
            return None
        if not isinstance(self.source, RowsSource):
            return None
        return self.source.rows(matchers, start_ms, end_ms)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[WindowSeries]:
        found = self.source.select(matchers, start_ms, end_ms)
        found = self.faults.found(found, self.at, self.function, self.warnings, self.resolution_ms)
        if self.in_part is not None:
            found = partly(self.in_part, found)
        if not self.markers:
            found = [WindowSeries(s.label_set, s.parts) for s in found if s.parts]
        if self.deduplicate:
            found = deduplicated(found, self.replica_labels)
        return self.faults.answered(found, self.at)
