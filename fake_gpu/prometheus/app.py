"""The HTTP API of Prometheus and of a Thanos querier, over any source of series.

Put here: paths, methods, status codes, headers, gzip.
Not here: what is answered (`evaluate`, `answer`), what is asked (`parameters`).
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Literal

from domain.clock import Clock
from fake_gpu.prometheus import answer
from fake_gpu.prometheus.evaluate import Dialect, evaluate_steps, raw_range
from fake_gpu.prometheus.go_json import encode
from fake_gpu.prometheus.language import Selector
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.parameters import Parameters
from fake_gpu.prometheus.refusals import ParseError, Refused, bad_parameter
from fake_gpu.prometheus.series import RawSeries, SeriesSource
from fake_gpu.prometheus.view import QuerierView

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

# Go's gzip handler leaves smaller answers as they are; they fit into one packet.
SMALLEST_GZIP_BYTES = 1400
# Fast rather than small: the answers repeat themselves so much that any level makes them tiny.
GZIP_LEVEL = 1
# A query is text that people or programs write; ten megabytes of it are a mistake.
LARGEST_FORM_BYTES = 10_000_000
_EARLIEST_MS = 0
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Which server is imitated, and how it is set up."""

    flavour: Literal["thanos", "prometheus"] = "thanos"
    left_open: bool = False  # ranges as in Prometheus 3
    lookback_ms: int = 300_000
    replica_labels: tuple[str, ...] = ("prometheus_replica",)
    default_step_ms: int = 1000  # Thanos fills in a missing step

    @property
    def version(self) -> str:
        if self.flavour == "thanos":
            return "0.41.0"
        return "3.15.0" if self.left_open else "2.42.0"


@dataclass(frozen=True, slots=True)
class Reply:
    """A finished answer, before it is compressed."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    warned: bool = False


Handler = Callable[["Api", Parameters, str], Reply]


class Api:
    """Answers requests; knows nothing of HTTP but parameters and replies."""

    def __init__(self, source: SeriesSource, clock: Clock, options: ApiOptions) -> None:
        self.source = source
        self.clock = clock
        self.options = options

    def now_ms(self) -> int:
        return round(self.clock.now().astimezone(UTC).timestamp() * 1000)

    # -- queries

    def query(self, asked: Parameters, _: str = "") -> Reply:
        at_ms = asked.time("time", self.now_ms())
        expression = asked.expression()
        view = self.view(asked)
        dialect = self.dialect(asked)
        if isinstance(expression, Selector) and expression.range_ms is not None:
            found = raw_range(view, expression, at_ms, dialect)
            return self.answered(answer.raw_matrix(found), "matrix", view)
        points = evaluate_steps(view, expression, [at_ms], dialect)
        return self.answered(answer.vector(points), "vector", view)

    def query_range(self, asked: Parameters, _: str = "") -> Reply:
        thanos = self.options.flavour == "thanos"
        steps = asked.steps(self.options.default_step_ms if thanos else None)
        expression = asked.expression()
        view = self.view(asked)
        points = evaluate_steps(view, expression, steps, self.dialect(asked))
        return self.answered(answer.matrix(points), "matrix", view)

    def answered(self, series: list[str], kind: str, view: QuerierView) -> Reply:
        extra = ',"analysis":{}' if self.options.flavour == "thanos" else ""
        return self.success(answer.query_data(kind, series, extra), view)

    def success(self, data: str, view: QuerierView) -> Reply:
        body = answer.success(data, view.warnings).encode()
        return Reply(body, warned=bool(view.warnings))

    # -- what there is

    def series(self, asked: Parameters, _: str = "") -> Reply:
        view = self.view(asked)
        found = {
            series.key: series.labels
            for matchers in asked.selectors(required=True)
            for series in self.in_window(view, matchers, asked)
        }
        return self.success(answer.label_sets(found[key] for key in sorted(found)), view)

    def labels(self, asked: Parameters, _: str = "") -> Reply:
        view = self.view(asked)
        names = {name for labels in self._label_sets(view, asked) for name in labels}
        return self.success(encode(sorted(names)), view)

    def label_values(self, asked: Parameters, name: str) -> Reply:
        if not _LABEL_NAME.fullmatch(name):
            raise Refused("bad_data", f'invalid label name: "{name}"')
        view = self.view(asked)
        values = {labels[name] for labels in self._label_sets(view, asked) if name in labels}
        return self.success(encode(sorted(values)), view)

    def _label_sets(self, view: QuerierView, asked: Parameters) -> list[dict[str, str]]:
        selectors = asked.selectors() or [(Matcher("__name__", "!=", ""),)]
        return [
            dict(series.labels)
            for matchers in selectors
            for series in self.in_window(view, matchers, asked)
        ]

    def in_window(
        self, view: QuerierView, matchers: Sequence[Matcher], asked: Parameters
    ) -> list[RawSeries]:
        start = asked.time("start", _EARLIEST_MS)
        end = asked.time("end", self.now_ms())
        return view.select(matchers, start, end)

    # -- the server itself

    def build_info(self, _: Parameters, __: str = "") -> Reply:
        info = {
            "version": self.options.version,
            "revision": "fake",
            "branch": "HEAD",
            "buildUser": "",
            "buildDate": "",
            "goVersion": "",
        }
        return Reply(answer.success(encode(info)).encode())

    def view(self, asked: Parameters) -> QuerierView:
        thanos = self.options.flavour == "thanos"
        names = asked.all("replicaLabels[]") or list(self.options.replica_labels)
        deduplicate = thanos and asked.flag("dedup", default=True)
        asked.flag("partial_response", default=True)
        return QuerierView(self.source, deduplicate, names)

    def dialect(self, asked: Parameters) -> Dialect:
        lookback = asked.duration("lookback_delta", self.options.lookback_ms)
        return Dialect(self.options.left_open, lookback or self.options.lookback_ms)


def make_app(source: SeriesSource, clock: Clock, options: ApiOptions | None = None) -> Starlette:
    """The application; one process may serve many of them."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    api = Api(source, clock, options or ApiOptions())
    reads = ["GET", "POST"]
    routes = [
        Route("/api/v1/query", _endpoint(api, Api.query), methods=reads),
        Route("/api/v1/query_range", _endpoint(api, Api.query_range), methods=reads),
        Route("/api/v1/series", _endpoint(api, Api.series), methods=reads),
        Route("/api/v1/labels", _endpoint(api, Api.labels), methods=reads),
        Route("/api/v1/label/{name}/values", _endpoint(api, Api.label_values), methods=["GET"]),
        Route("/api/v1/status/buildinfo", _endpoint(api, Api.build_info), methods=["GET"]),
        Route("/-/ready", _endpoint(api, _ready), methods=["GET"]),
        Route("/-/healthy", _endpoint(api, _ready), methods=["GET"]),
    ]
    return Starlette(routes=routes)


def _ready(api: Api, _: Parameters, __: str) -> Reply:
    text = "OK" if api.options.flavour == "thanos" else "Prometheus Server is Ready.\n"
    return Reply(text.encode(), content_type="text/plain; charset=utf-8")


def _endpoint(api: Api, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    from starlette.concurrency import run_in_threadpool

    async def endpoint(request: Request) -> Response:
        form = await _form(request)
        asked = Parameters.read(request.url.query, form)
        name = request.path_params.get("name", "")
        reply = await run_in_threadpool(_safely, handler, api, asked, name)
        return _response(request, reply)

    return endpoint


def _safely(handler: Handler, api: Api, asked: Parameters, name: str) -> Reply:
    try:
        return handler(api, asked, name)
    except ParseError as error:
        refused = bad_parameter("query", str(error))
    except Refused as error:
        refused = error
    return Reply(answer.refusal(refused).encode(), refused.http_status)


async def _form(request: Request) -> str:
    content_type = request.headers.get("content-type", "")
    if request.method != "POST" or "x-www-form-urlencoded" not in content_type:
        return ""
    body = await request.body()
    return body[:LARGEST_FORM_BYTES].decode("utf-8", "replace")


def _response(request: Request, reply: Reply) -> Response:
    from starlette.responses import Response

    headers = {"Vary": "Accept-Encoding"}
    if reply.warned or reply.status >= 400:
        headers["Cache-Control"] = "no-store"
    body = reply.body
    accepts = "gzip" in request.headers.get("accept-encoding", "")
    if accepts and len(body) >= SMALLEST_GZIP_BYTES:
        body = gzip.compress(body, GZIP_LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(body, reply.status, headers, reply.content_type)
