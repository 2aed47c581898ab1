"""One question to one server: asked, landed, understood, and split when a limit is in the way.

Put here: forms of requests, splitting by time and by matcher, landing of every body.
Not here: which questions there are (`ingestion.catalogue`), or what all answers together say about
an hour (`ingestion.thanos.pull`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from domain.interval import HOUR, Interval
from ingestion.catalogue import Ask
from ingestion.landing import Landing
from ingestion.manifest import Answer, Outcome
from ingestion.settings import ClusterSource
from ingestion.thanos.answer import Matrix, RawSeries, read_matrix
from ingestion.thanos.client import Reply, ThanosClient
from ingestion.thanos.decode import Look, MalformedSeries, Runs, SeriesDictionary, decode_runs

QUERY_PATH = "/api/v1/query"
RANGE_PATH = "/api/v1/query_range"

COMMON_FORM = {"dedup": "false", "partial_response": "false", "max_source_resolution": "0s"}
"""Replicas are united here, half an answer is refused, and averages are never taken for samples.
A plain Prometheus ignores all three."""


@dataclass(frozen=True, slots=True)
class Part:
    """The answer to an ask for a part of the window, landed and, where possible, understood."""

    ask: str
    window: Interval
    answer: Answer
    runs: Runs | None = None
    series: Sequence[RawSeries] = ()  # telemetry is decoded later, by function

    @property
    def outcome(self) -> Outcome:
        return self.answer.outcome


class Asker:
    """Asks for one cluster; remembers label sets from answer to answer."""

    def __init__(
        self,
        source: ClusterSource,
        client: ThanosClient,
        landing: Landing,
        dictionary: SeriesDictionary | None = None,
    ) -> None:
        self.source = source
        self._client = client
        self._landing = landing
        self._dictionary = dictionary or SeriesDictionary(source.thanos.replica_labels)

    def allocation(self, ask: Ask, window: Interval) -> Iterator[Part]:
        """Raw samples of an ask: whole, or in halves, or metric by metric where a limit bites."""
        query = f"{self.selector(ask)}[{self._range_seconds(window)}s]"
        form = {
            **COMMON_FORM,
            "query": query,
            "time": str(int((window.ended_at + self._overlap).timestamp())),
        }
        reply = self._client.post(QUERY_PATH, form)
        matrix = read_matrix(reply)
        smaller = _smaller(ask, window) if matrix.limit_hit else []
        if smaller:
            for part_ask, part_window in smaller:
                yield from self.allocation(part_ask, part_window)
            return
        answer = self.landed(ask.name, query, window, reply, matrix)
        try:
            look = Look.at(window, self.source.sampling.sample_interval_seconds)
            runs = decode_runs(matrix.series, self._dictionary, look)
        except MalformedSeries as cause:
            answer = replace(answer, outcome=Outcome.FAILED, reason=f"not the protocol: {cause}")
            yield Part(ask.name, window, answer)
            return
        yield Part(ask.name, window, answer, runs if matrix.usable else None)

    def function(self, name: str, form: dict[str, str], window: Interval) -> Part:
        """One function of one metric, per hour of the window."""
        reply = self._client.post(RANGE_PATH, {**COMMON_FORM, **form})
        matrix = read_matrix(reply)
        answer = self.landed(name, form["query"], window, reply, matrix)
        return Part(name, window, answer, series=matrix.series)

    def selector(self, ask: Ask) -> str:
        """`{__name__=~"a|b",resource!~"…",clusterID="…"}`."""
        name = f'__name__=~"{"|".join(ask.metrics)}"' if ask.metrics[1:] else ""
        cluster = self.source.thanos.cluster_matcher.format(cluster_id=self.source.cluster_id)
        matchers = ",".join(part for part in (name, ask.matchers, cluster) if part)
        return f"{'' if name else ask.metrics[0]}{{{matchers}}}"

    def landed(
        self, name: str, query: str, window: Interval, reply: Reply, matrix: Matrix
    ) -> Answer:
        """Keep the body, whatever it says; describe it."""
        landed = self._landing.land_body(reply.body) if reply.body else None
        return Answer(
            ask=name,
            query=query,
            status=reply.status,
            sha256=landed.sha256 if landed else "",
            byte_count=landed.byte_count if landed else 0,
            stored_byte_count=landed.stored_byte_count if landed else 0,
            warnings=matrix.warnings,
            outcome=matrix.outcome,
            reason=matrix.reason,
            window=window,
            tries=reply.tries,
        )

    @property
    def _overlap(self) -> timedelta:
        """One sampling interval on both sides: some servers leave out a range's left edge."""
        return timedelta(seconds=self.source.sampling.sample_interval_seconds)

    def _range_seconds(self, window: Interval) -> int:
        return window.seconds + 2 * int(self._overlap.total_seconds())


def _smaller(ask: Ask, window: Interval) -> list[tuple[Ask, Interval]]:
    """Smaller questions that together are the same: halves of the time, then single metrics."""
    hours = window.seconds // 3600
    if hours > 1:
        middle = window.started_at + hours // 2 * HOUR
        return [(ask, piece) for piece in window.split_at([middle])]
    if ask.metrics[1:]:
        return [(replace(ask, metrics=(metric,)), window) for metric in ask.metrics]
    return []
