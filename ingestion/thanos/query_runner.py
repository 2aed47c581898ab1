"""Sends the queries of one attempt, decodes the responses, and splits queries at limits.

Put here: forms of requests, keeping bodies for landing, and the memory from response to response.
Not here: the queries (`ingestion.metric_catalogue`), how they are split
(`ingestion.thanos.splitting`), or the outcome of an hour (`ingestion.thanos.pull`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec

from clients.json_text import NOT_JSON
from clients.prometheus import QUERY_PATH, PrometheusResponse
from domain.interval import Interval
from ingestion.evidence.landing import PackedBody, pack_body
from ingestion.metric_catalogue import Entry, MetricQuery
from ingestion.settings import ClusterSource
from ingestion.thanos.attempt_client import AttemptClient
from ingestion.thanos.decode import DecodeWindow, Runs, SeriesDictionary, decode_runs
from ingestion.thanos.response import Matrix, RawSeries, read_matrix
from ingestion.thanos.sample_columns import MalformedSeries
from ingestion.thanos.splitting import FunctionQuery, RawQuery, Sizes, smaller
from ingestion.thanos.stores import StoresSeen, read_stores
from ingestion.thanos.telemetry import KnownSeries
from warehouse.manifest import Outcome, QueryResponse

RANGE_PATH = "/api/v1/query_range"
NAMES_PATH = "/api/v1/label/__name__/values"
STORES_PATH = "/api/v1/stores"

METRIC_NAMES_ASK = "metric_names"
STORES_ASK = "stores"

COMMON_FORM = {"dedup": "false", "partial_response": "false", "max_source_resolution": "0s"}
"""Replicas are merged here, a partial response is refused, and averages are never taken for
samples. A plain Prometheus ignores all three."""

CLOCK_LIMIT = 10**10
"""In seconds; a time after the year 2286 is not that of a clock."""

GIVEN_UP_AFTER = 2
"""Requests in a row without any response: the server is down or hangs, so no more are sent."""

READ_TRIES_LIMIT = 3
"""A proxy that cuts bodies at a size cuts them again; a temporary fault does not repeat."""

Fetched = tuple[PrometheusResponse, Matrix, PackedBody | None]


@dataclass(frozen=True, slots=True)
class Part:
    """The response to a query for a part of the window, and its runs if it was usable."""

    ask: MetricQuery
    window: Interval
    answer: QueryResponse
    runs: Runs | None = None
    series: Sequence[RawSeries] = ()  # of telemetry, of which all functions are read together
    limit_hit: bool = False  # although the query cannot be split further

    @property
    def outcome(self) -> Outcome:
        return self.answer.outcome


@dataclass(slots=True)
class PullMemory:
    """Kept from one pull to the next of the same cluster; only speed depends on it."""

    dictionary: SeriesDictionary | None = None
    device_series: KnownSeries = field(default_factory=dict)
    sizes: Sizes = field(default_factory=Sizes)
    refuses_unions: bool = False


class QueryRunner:
    """Sends the queries of one attempt; `bodies` are the received bodies, to be landed by the
    caller."""

    def __init__(
        self,
        source: ClusterSource,
        client: AttemptClient,
        memory: PullMemory | None = None,
    ) -> None:
        self.source = source
        self._client = client
        self.bodies: list[PackedBody] = []  # every received body, until it is landed
        self.memory = memory or PullMemory()
        if self.memory.dictionary is None:
            self.memory.dictionary = SeriesDictionary(source.thanos.replica_labels)
        self._dictionary = self.memory.dictionary
        self._silent_in_a_row = 0

    def pull_raw(self, asks: Iterable[MetricQuery], window: Interval) -> Iterator[Part]:
        """Raw samples: whole, or in smaller queries where a limit is near."""
        return self.send(self.raw_queries(asks, window))

    def raw_queries(self, asks: Iterable[MetricQuery], window: Interval) -> Iterator[RawQuery]:
        """The queries for a window, split where a limit is known to be near."""
        for ask in asks:
            yield from self.memory.sizes.split(RawQuery(ask, window))

    def send(self, wanted: Iterable[RawQuery | FunctionQuery]) -> Iterator[Part]:
        """The responses in the order of the queries, one in memory at a time.

        A query is taken from `wanted` when it is its turn: the response to one may decide whether
        the next one is sent.
        """
        for one in wanted:
            if isinstance(one, RawQuery):
                yield from self._send_raw(one, self._fetch(one))
            else:
                yield from self._send_function(one, self._fetch(one))

    def selector(self, ask: MetricQuery, matcher: str = "") -> str:
        """`{__name__=~"a|b",resource!~"…",clusterID="…"}`."""
        name = f'__name__=~"{"|".join(ask.metrics)}"' if ask.metrics[1:] else ""
        parts = (name, ask.matchers, matcher, self._cluster_matcher)
        matchers = ",".join(part for part in parts if part)
        return f"{'' if name else ask.metrics[0]}{{{matchers}}}"

    def selector_of(self, entry: Entry) -> str:
        """The selector of one entry, restricted to the pinned exporters."""
        return self.selector(
            MetricQuery("", (entry.metric,), entry.selected(self.source.thanos.pins))
        )

    def source_time(self) -> float | None:
        """The server's clock, in seconds since 1970; None without a valid response."""
        reply = self._client.post(QUERY_PATH, {"query": "time()"})
        try:
            found: float = _SCALAR.decode(reply.body).data.result[0]
        except NOT_JSON:
            return None
        return found if 0 <= found < CLOCK_LIMIT else None

    def metric_names(
        self, patterns: Sequence[str], window: Interval, matchers: str = ""
    ) -> tuple[frozenset[str] | None, QueryResponse | None]:
        """The metrics of the window whose names match; None without a valid response."""
        selector = self.selector(MetricQuery("", tuple(patterns), matchers))
        form = {
            "match[]": selector,
            "start": _seconds(window.started_at),
            "end": _seconds(window.ended_at),
        }
        reply = self._client.get(NAMES_PATH, form)
        try:
            names = _NAMES.decode(reply.body).data
        except NOT_JSON:
            return None, None
        fetched = (reply, Matrix(Outcome.OK), _packed(reply))
        return frozenset(names), self._describe(METRIC_NAMES_ASK, selector, window, fetched)

    def stores(self, window: Interval) -> tuple[QueryResponse, StoresSeen] | None:
        """The querier's list of stores: landed, and the part that concerns this cluster."""
        reply = self._client.get(STORES_PATH)
        if reply.failure or reply.status != 200:
            return None
        seen = read_stores(reply.body, self._cluster_matcher)
        if seen is None:
            return None
        outcome = Outcome.WARNED if seen.failing else Outcome.OK
        fetched = (reply, Matrix(outcome, seen.reason), _packed(reply))
        return self._describe(STORES_ASK, "", window, fetched), seen

    def _fetch(self, wanted: RawQuery | FunctionQuery) -> Fetched:
        if isinstance(wanted, FunctionQuery):
            return self._read(RANGE_PATH, {**COMMON_FORM, **wanted.form})
        form = {
            **COMMON_FORM,
            "query": self._range_query(wanted),
            "time": _seconds(wanted.window.ended_at + self._overlap),
        }
        return self._read(QUERY_PATH, form)

    def _read(self, path: str, form: dict[str, str]) -> Fetched:
        """Send and read; a body whose JSON ends early in a whole HTTP response is requested
        again."""
        for _ in range(READ_TRIES_LIMIT):
            reply = self._post(path, form)
            matrix = read_matrix(reply)
            if matrix.outcome is not Outcome.TRUNCATED or reply.cut_short:
                break
        return reply, matrix, _packed(reply)

    def _post(self, path: str, form: dict[str, str]) -> PrometheusResponse:
        if self._silent_in_a_row >= GIVEN_UP_AFTER:
            seen = f"not queried: {self._silent_in_a_row} requests before it got no answer"
            return PrometheusResponse(0, "", b"", failure=seen, tries=0)
        reply = self._client.post(path, form)
        silent = reply.not_connected or reply.timed_out
        self._silent_in_a_row = self._silent_in_a_row + 1 if silent else 0
        return reply

    def _send_raw(self, question: RawQuery, fetched: Fetched) -> Iterator[Part]:
        matrix = fetched[1]
        if matrix.limit_hit and (pieces := smaller(question)):
            if fetched[0].too_large:
                self.memory.sizes.learn_too_large(question)
            for piece in pieces:
                for small in self.memory.sizes.split(piece):
                    yield from self._send_raw(small, self._fetch(small))
            return
        ask, window = question.ask, question.window
        query = self._range_query(question)
        answer = self._describe(ask.name, query, window, fetched)
        runs = None
        if matrix.usable:
            decode_window = DecodeWindow.at(window, self.source.sampling.sample_interval_seconds)
            try:
                runs = decode_runs(matrix.series, self._dictionary, decode_window)
            except MalformedSeries as cause:
                seen = f"not the protocol: {cause}"[:300]
                answer = replace(answer, outcome=Outcome.FAILED, reason=seen)
            else:
                samples = int(runs.sample_count.sum())
                self.memory.sizes.learn(question, answer.byte_count, samples)
        yield Part(ask, window, answer, runs)

    def _send_function(self, one: FunctionQuery, fetched: Fetched) -> Iterator[Part]:
        """Not decoded yet: the functions of a device are decoded together."""
        if fetched[1].limit_hit and (pieces := one.halves()):
            for piece in pieces:
                yield from self._send_function(piece, self._fetch(piece))
            return
        answer = self._describe(one.ask.name, one.query, one.window, fetched)
        yield Part(one.ask, one.window, answer, None, fetched[1].series, fetched[1].limit_hit)

    def _describe(self, name: str, query: str, window: Interval, fetched: Fetched) -> QueryResponse:
        """Keep the body for landing, and describe the response."""
        reply, matrix, body = fetched
        if body is not None:
            self.bodies.append(body)
        landed = body.landed if body is not None else None
        return QueryResponse(
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

    def _range_query(self, question: RawQuery) -> str:
        seconds = question.window.seconds + 2 * int(self._overlap.total_seconds())
        return f"{self.selector(question.ask, question.matcher)}[{seconds}s]"

    @property
    def _cluster_matcher(self) -> str:
        return self.source.thanos.cluster_matcher.format(cluster_id=self.source.cluster_id)

    @property
    def _overlap(self) -> timedelta:
        """One sampling interval on both sides: some servers leave out a range's left edge."""
        return timedelta(seconds=self.source.sampling.sample_interval_seconds)


class _ScalarData(msgspec.Struct):
    result: tuple[float, str]


class _Scalar(msgspec.Struct):
    data: _ScalarData


class _Names(msgspec.Struct):
    data: list[str]


_NAMES = msgspec.json.Decoder(_Names)
_SCALAR = msgspec.json.Decoder(_Scalar)


def _packed(reply: PrometheusResponse) -> PackedBody | None:
    return pack_body(reply.body) if reply.body else None


def _seconds(instant: datetime) -> str:
    return str(int(instant.timestamp()))
