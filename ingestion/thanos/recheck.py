"""Before a close: compare the server's counts with the landed ones.

Put here: counting again with few queries, and the hours that differ.
Not here: pulling those hours again (`ingestion.thanos.pull`), or the effect of a difference.

Samples arrive late: from the backlog of a sender, in a block that is uploaded hours later, from a
store that was down. The server counts its samples per series and hour, and only hours with another
sum are pulled again. The counts are not landed; the new responses are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from clients.json_text import NOT_JSON
from domain.interval import HOUR, Interval
from ingestion.evidence.hour_ledger import HourEntry
from ingestion.metric_catalogue import entries_to_recheck
from ingestion.settings import ClusterSource
from ingestion.thanos.attempt_client import AttemptClient, connected_to
from ingestion.thanos.outcomes import RAW_SAMPLES
from ingestion.thanos.query_runner import QueryRunner
from ingestion.thanos.response import REASON_LENGTH_LIMIT
from ingestion.thanos.splitting import FunctionQuery
from warehouse.manifest import Hour, Outcome, whole_hours

COUNTED = "count_over_time"
_PAIRS = msgspec.json.Decoder(list[tuple[float, str]])


@dataclass(frozen=True, slots=True, order=True)
class SampleCountDifference:
    """An hour of which the server now has another number of samples than was landed."""

    hour_started_at: datetime
    metric: str
    landed_count: int
    counted_now: int


@dataclass(frozen=True, slots=True)
class Recheck:
    """The result of counting again. A metric without a response shows no difference."""

    differences: tuple[SampleCountDifference, ...]
    unanswered: Mapping[str, str]  # metric: reason

    @property
    def hours(self) -> tuple[datetime, ...]:
        """The hours to be pulled again, in order."""
        return tuple(sorted({found.hour_started_at for found in self.differences}))


def recheck(
    cluster: ClusterSource,
    window: Interval,
    entries: Sequence[HourEntry],
    client: AttemptClient | None = None,
) -> Recheck:
    """Compare the server's counts for a window of whole hours with the best landed answers."""
    with connected_to(cluster.thanos.connection, client) as connected:
        return _compared(QueryRunner(cluster, connected), window, entries)


def _compared(runner: QueryRunner, window: Interval, entries: Sequence[HourEntry]) -> Recheck:
    landed = {
        entry.hour_started_at: entry.best.hour
        for entry in entries
        if entry.best is not None and entry.best.outcome is Outcome.OK
    }
    differences: list[SampleCountDifference] = []
    unanswered: dict[str, str] = {}
    for part in runner.send(_recounted_hours(runner, window)):
        [metric] = part.ask.metrics
        if part.outcome is not Outcome.OK:
            unanswered[metric] = part.answer.reason
            continue
        try:
            by_hour = _counted([bytes(raw.values) for raw in part.series])
        except (*NOT_JSON, OverflowError) as cause:
            unanswered[metric] = f"not the protocol: {cause}"[:REASON_LENGTH_LIMIT]
            continue
        for hour in whole_hours(part.window):
            if hour in landed:
                now = by_hour.get(int((hour + HOUR).timestamp()), 0)
                before = _landed_count(landed[hour], metric)
                if now != before:
                    differences.append(SampleCountDifference(hour, metric, before, now))
    return Recheck(tuple(sorted(differences)), unanswered)


def _recounted_hours(runner: QueryRunner, window: Interval) -> Iterator[FunctionQuery]:
    for entry in entries_to_recheck():
        yield FunctionQuery(COUNTED, ((entry.metric, runner.selector_of(entry)),), window)


def _counted(values: Sequence[bytes]) -> dict[int, int]:
    """The sum over all series, by the second at which the hour ends."""
    found: dict[int, int] = {}
    for text in values:
        for seconds, count in _PAIRS.decode(text):
            found[int(seconds)] = found.get(int(seconds), 0) + int(float(count))
    return found


def _landed_count(hour: Hour, metric: str) -> int:
    raw = hour.facts.get(f"{RAW_SAMPLES}{metric}")
    return raw if raw is not None else hour.by_metric.get(metric, (0, 0))[1]
