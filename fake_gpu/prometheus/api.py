"""The HTTP API without HTTP: parameters in, replies out.

Put here: one method per path.
Not here: routes, headers and compression (`app`), JSON (`answer`), evaluation (`evaluate`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Literal

from domain.clock import Clock
from fake_gpu.fleet.model import Fault
from fake_gpu.prometheus import answer
from fake_gpu.prometheus.answer_faults import AnswerFaults, ResponseFault
from fake_gpu.prometheus.cycles import collector_paused
from fake_gpu.prometheus.evaluate import Dialect, edges, evaluate_steps, raw_range
from fake_gpu.prometheus.go_json import encode
from fake_gpu.prometheus.language import (
    METRIC_NAME,
    Expression,
    LabelledVector,
    Selector,
    Union,
    is_time_call,
)
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.parameters import FormParameters
from fake_gpu.prometheus.refusals import ParseError, QueryRefused, bad_parameter
from fake_gpu.prometheus.series import SeriesSource, WindowSeries
from fake_gpu.prometheus.stores import stores_data
from fake_gpu.prometheus.unions import in_order
from fake_gpu.prometheus.view import QuerierView

_EARLIEST_MS = 0
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
# As in the real servers: beyond it a query is an error instead of a danger.
LARGEST_SAMPLE_COUNT = 50_000_000


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Which server is imitated, and how it is set up."""

    flavour: Literal["thanos", "prometheus"] = "thanos"
    left_open: bool = False  # ranges as in Prometheus 3
    lookback_ms: int = 300_000
    replica_labels: tuple[str, ...] = ("prometheus_replica",)
    default_step_ms: int = 1000  # Thanos fills in a missing step
    largest_sample_count: int = LARGEST_SAMPLE_COUNT

    @property
    def version(self) -> str:
        if self.flavour == "thanos":
            return "0.41.0" if self.left_open else "0.37.2"
        return "3.15.0" if self.left_open else "2.42.0"


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A finished answer, before it is compressed."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    warned: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    ruin: Literal["", "cut", "reset"] = ""  # its fault on the way


Handler = Callable[["Api", FormParameters, str], ApiResponse]
Ask = Callable[[QuerierView, Dialect], ApiResponse]  # how one request is answered from a view


class Api:
    """Answers requests over one source of series."""

    def __init__(
        self,
        source: SeriesSource,
        clock: Clock,
        options: ApiOptions,
        faults: AnswerFaults | None = None,
    ) -> None:
        self.source = source
        self.clock = clock
        self.options = options
        self.faults = faults or AnswerFaults()

    def now_ms(self) -> int:
        return round(self.clock.now().astimezone(UTC).timestamp() * 1000)

    def second_of(self, asked: FormParameters) -> int:
        """When the request is made; with a clock that stands, the time that it asks about."""
        now = self.now_ms()
        if getattr(self.clock, "mode", "fixed") == "fixed":
            name = "end" if asked.first("end") else "time"
            now = min(now, asked.time(name, now))
        return now // 1000

    def answer(self, handler: Handler, asked: FormParameters, name: str = "") -> ApiResponse:
        """The reply of one path; everything that is refused becomes its error."""
        with collector_paused():
            return self._answer(handler, asked, name)

    def _answer(self, handler: Handler, asked: FormParameters, name: str) -> ApiResponse:
        try:
            at = self.second_of(asked)
            page = self.faults.before(at)
            if page is not None:
                return _page(page)
            reply = handler(self, asked, name)
            ruin = self.faults.after(at)
        except ParseError as error:
            return _error(bad_parameter("query", str(error)))
        except QueryRefused as error:
            return _error(error)
        return reply if ruin is None else _ruined(reply, ruin)

    # -- queries

    def query(self, asked: FormParameters, _: str = "") -> ApiResponse:
        at_ms = asked.time("time", self.now_ms())
        if is_time_call(asked.first("query")):
            return ApiResponse(
                answer.success(answer.scalar_data(answer.scalar(at_ms), self.extra)).encode()
            )
        expression = asked.expression()
        request = f"query {asked.first('query')} {at_ms} {asked.first('dedup')}"
        return self._cached(
            asked, request, lambda view, dialect: self._instant(view, dialect, expression, at_ms)
        )

    def _instant(
        self, view: QuerierView, dialect: Dialect, expression: Expression, at_ms: int
    ) -> ApiResponse:
        if isinstance(expression, Selector) and expression.range_ms is not None:
            return self._raw(view, expression, at_ms, dialect)
        points = evaluate_steps(view, expression, [at_ms], dialect)
        return self.answered(answer.vector(points), "vector", view)

    def _raw(
        self, view: QuerierView, selector: Selector, at_ms: int, dialect: Dialect
    ) -> ApiResponse:
        rows = view.rows(selector.matchers, *edges(selector, at_ms, dialect))
        if rows is not None:
            self._refuse_too_many(sum(each.count for each in rows))
            return self.answered(answer.rows_matrix(rows), "matrix", view)
        found = raw_range(view, selector, at_ms, dialect)
        parts = [part for series in found for part in series.parts]
        self._refuse_too_many(sum([part.high - part.low for part in parts]))
        return self.answered(answer.raw_matrix(found), "matrix", view)

    def query_range(self, asked: FormParameters, _: str = "") -> ApiResponse:
        thanos = self.options.flavour == "thanos"
        steps = asked.steps(self.options.default_step_ms if thanos else None)
        if is_time_call(asked.first("query")):
            values = ",".join(answer.scalar(at_ms) for at_ms in steps)
            series = [f'{{"metric":{{}},"values":[{values}]}}']
            return ApiResponse(answer.query("matrix", series, self.extra).encode())
        expression = asked.expression()
        request = f"range {asked.first('query')} {steps[0]} {steps[-1]} {len(steps)}"
        return self._cached(
            asked, request, lambda view, dialect: self._range(view, dialect, expression, steps)
        )

    def _range(
        self, view: QuerierView, dialect: Dialect, expression: Expression, steps: Sequence[int]
    ) -> ApiResponse:
        points = evaluate_steps(view, expression, steps, dialect)
        if isinstance(expression, Union | LabelledVector):
            points = in_order(points)
        return self.answered(answer.matrix(points), "matrix", view)

    def _cached(self, asked: FormParameters, request: str, ask: Ask) -> ApiResponse:
        at = self.second_of(asked)
        kept = self.faults.cached(at, request, lambda f: ask(*self.view(asked, in_part=f)).body)
        if kept is None:
            return self._evaluated(asked, at, ask)
        self.faults.differs(kept.fault, at, kept.body, self._without(asked, ask))
        return ApiResponse(kept.body)

    def _evaluated(self, asked: FormParameters, at: int, ask: Ask) -> ApiResponse:
        engine = self.faults.of_engine(at)
        others = [self._without(asked, ask, fault) for fault in engine]
        reply = ask(*self.view(asked))
        for fault, other in zip(engine, others, strict=True):
            self.faults.differs(fault, at, reply.body, other)
        return reply

    def _without(self, asked: FormParameters, ask: Ask, fault: Fault | None = None) -> bytes:
        """The response without faults, which is not sent, so no fault is counted."""
        try:
            return ask(*self.view(asked, self.faults.unheard(fault))).body
        except QueryRefused:
            return b""

    def _refuse_too_many(self, count: int) -> None:
        if count > self.options.largest_sample_count:
            raise QueryRefused(
                "execution",
                "query processing would load too many samples into memory in query execution",
            )

    def answered(self, series: list[str], kind: str, view: QuerierView) -> ApiResponse:
        warnings = list(dict.fromkeys(view.warnings))  # of a union each part may be warned of
        body = answer.query(kind, series, self.extra, warnings).encode()
        return ApiResponse(body, warned=bool(warnings))

    @property
    def extra(self) -> str:
        """The fields that Thanos adds to every response."""
        return ',"analysis":{}' if self.options.flavour == "thanos" else ""

    def success(self, data: str, view: QuerierView) -> ApiResponse:
        body = answer.success(data, view.warnings).encode()
        return ApiResponse(body, warned=bool(view.warnings))

    # -- metadata

    def series(self, asked: FormParameters, _: str = "") -> ApiResponse:
        view, _dialect = self.view(asked)
        found = {
            series.key: series.labels
            for matchers in asked.selectors(required=True)
            for series in self.in_window(view, matchers, asked)
        }
        return self.success(answer.label_sets(found[key] for key in sorted(found)), view)

    def labels(self, asked: FormParameters, _: str = "") -> ApiResponse:
        view = self._of_all_replicas(asked)
        names = {name for labels in self._label_sets(view, asked) for name in labels}
        return self.success(encode(sorted(names)), view)

    def label_values(self, asked: FormParameters, name: str) -> ApiResponse:
        if not _LABEL_NAME.fullmatch(name):
            raise QueryRefused("bad_data", f'invalid label name: "{name}"')
        view = self._of_all_replicas(asked)
        if name == METRIC_NAME:
            return self.success(encode(sorted(self._names(view, asked))), view)
        values = {labels[name] for labels in self._label_sets(view, asked) if name in labels}
        return self.success(encode(sorted(values)), view)

    def _names(self, view: QuerierView, asked: FormParameters) -> set[str]:
        """Of metrics: a pull queries them in every window."""
        start, end = asked.time("start", _EARLIEST_MS), asked.time("end", self.now_ms())
        found = [view.names_in(matchers, start, end) for matchers in self._selectors(asked)]
        return set().union(*found)

    def _of_all_replicas(self, asked: FormParameters) -> QuerierView:
        """Names and values of labels are never deduplicated."""
        view, _dialect = self.view(asked)
        view.deduplicate = False
        return view

    def _label_sets(self, view: QuerierView, asked: FormParameters) -> list[dict[str, str]]:
        return [
            dict(series.labels)
            for matchers in self._selectors(asked)
            for series in self.in_window(view, matchers, asked)
        ]

    @staticmethod
    def _selectors(asked: FormParameters) -> list[tuple[Matcher, ...]]:
        return asked.selectors() or [(Matcher(METRIC_NAME, "!=", ""),)]

    def in_window(
        self, view: QuerierView, matchers: Sequence[Matcher], asked: FormParameters
    ) -> list[WindowSeries]:
        start = asked.time("start", _EARLIEST_MS)
        end = asked.time("end", self.now_ms())
        return [series for series in view.select(matchers, start, end) if series.parts]

    # -- the server itself

    def build_info(self, asked: FormParameters, _: str = "") -> ApiResponse:
        at = self.second_of(asked)
        options = self.options
        for fault in self.faults.newer(at):
            options = replace(options, left_open=True)
            shown, usual = options.version.encode(), self.options.version.encode()
            self.faults.differs(fault, at, shown, usual)
        info = {
            "version": options.version,
            "revision": "fake",
            "branch": "HEAD",
            "buildUser": "",
            "buildDate": "",
            "goVersion": "",
        }
        return ApiResponse(answer.success(encode(info)).encode())

    def stores(self, asked: FormParameters, _: str = "") -> ApiResponse:
        errors = self.faults.store_errors(self.second_of(asked))
        data = stores_data(self.faults.stores, errors, self.now_ms())
        return ApiResponse(answer.success(encode(data)).encode())

    def ready(self, _: FormParameters, __: str = "") -> ApiResponse:
        text = "OK" if self.options.flavour == "thanos" else "Prometheus Server is Ready.\n"
        return ApiResponse(text.encode(), content_type="text/plain; charset=utf-8")

    def view(
        self,
        asked: FormParameters,
        faults: AnswerFaults | None = None,
        in_part: Fault | None = None,
    ) -> tuple[QuerierView, Dialect]:
        faults = faults or self.faults
        thanos = self.options.flavour == "thanos"
        names = asked.all("replicaLabels[]") or list(self.options.replica_labels)
        deduplicate = thanos and asked.flag("dedup", default=True)
        # Read only to refuse invalid values; it limits nothing, as measured.
        asked.flag("partial_response", default=True)
        is_told = asked.first("max_source_resolution") not in ("", "auto")
        resolution_ms = asked.duration("max_source_resolution", 0) if is_told else 0
        at = self.second_of(asked)
        usual = asked.duration("lookback_delta", 0) or self.options.lookback_ms
        lookback_ms, markers = faults.lookback_ms(usual, at)
        view = QuerierView(
            *(self.source, faults, at, deduplicate, names, markers),
            in_part=in_part,
            resolution_ms=resolution_ms,
        )
        left_open = self.options.left_open or bool(faults.newer(at))
        return view, Dialect(left_open, lookback_ms)


def _error(refused: QueryRefused) -> ApiResponse:
    return ApiResponse(answer.refusal(refused).encode(), refused.http_status)


def _page(page: ResponseFault) -> ApiResponse:
    return ApiResponse(page.body.encode(), page.status, page.content_type, False, page.headers)


def _ruined(reply: ApiResponse, ruin: ResponseFault) -> ApiResponse:
    how: Literal["cut", "reset"] = "cut" if ruin.kind == "cut" else "reset"
    return ApiResponse(
        reply.body, reply.status, reply.content_type, reply.warned, reply.headers, how
    )
