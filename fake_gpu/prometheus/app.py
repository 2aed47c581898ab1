"""The HTTP API of Prometheus and of a Thanos querier, over any source of series.

Put here: paths, methods, status codes, headers, gzip, and connections that end too early.
Not here: the responses (`api`).
"""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from domain.clock import Clock
from fake_gpu.prometheus.answer_faults import AnswerFaults
from fake_gpu.prometheus.api import Api, ApiOptions, ApiResponse, Handler
from fake_gpu.prometheus.parameters import FormParameters
from fake_gpu.prometheus.series import SeriesSource

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

__all__ = ["ApiOptions", "make_app"]

# Go's gzip handler leaves smaller answers as they are; they fit into one packet.
SMALLEST_GZIP_BYTES = 1400
# Fast rather than small: the answers repeat themselves so much that any level makes them tiny.
GZIP_LEVEL = 1
# A query is text that people or programs write; ten megabytes of it are a mistake.
LARGEST_FORM_BYTES = 10_000_000
_READS = ("GET", "POST")


def make_app(
    source: SeriesSource,
    clock: Clock,
    options: ApiOptions | None = None,
    faults: AnswerFaults | None = None,
) -> Starlette:
    """The application; one process may serve many of them."""
    from starlette.applications import Starlette

    # A whole fleet knows its own faults and stores.
    known = faults or getattr(source, "answer_faults", None)
    api = Api(source, clock, options or ApiOptions(), known)
    return Starlette(routes=_routes(api))


def _routes(api: Api) -> list[Route]:
    from starlette.routing import Route

    def route(path: str, handler: Handler, methods: tuple[str, ...] = ("GET",)) -> Route:
        return Route(path, _endpoint(api, handler), methods=list(methods))

    routes = [
        route("/api/v1/query", Api.query, _READS),
        route("/api/v1/query_range", Api.query_range, _READS),
        route("/api/v1/series", Api.series, _READS),
        route("/api/v1/labels", Api.labels, _READS),
        route("/api/v1/label/{name}/values", Api.label_values),
    ]
    plain: dict[str, Handler] = {
        "/api/v1/status/buildinfo": Api.build_info,
        "/-/ready": Api.ready,
        "/-/healthy": Api.ready,
    }
    if api.options.flavour == "thanos":
        plain["/api/v1/stores"] = Api.stores
    routes += [Route(path, _plain(api, handler)) for path, handler in plain.items()]
    return routes


def _endpoint(api: Api, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """A path that faults may spoil."""
    from starlette.concurrency import run_in_threadpool

    async def endpoint(request: Request) -> Response:
        asked = FormParameters.read(request.url.query, await _form(request))
        name = request.path_params.get("name", "")
        return _response(request, await run_in_threadpool(api.answer, handler, asked, name))

    return endpoint


def _plain(api: Api, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """A path about the server itself."""

    async def endpoint(request: Request) -> Response:
        return _response(request, handler(api, FormParameters.read(request.url.query), ""))

    return endpoint


async def _form(request: Request) -> str:
    content_type = request.headers.get("content-type", "")
    if request.method != "POST" or "x-www-form-urlencoded" not in content_type:
        return ""
    body = await request.body()
    return body[:LARGEST_FORM_BYTES].decode("utf-8", "replace")


def _response(request: Request, reply: ApiResponse) -> Response:
    from starlette.responses import Response

    headers = {"Vary": "Accept-Encoding", **dict(reply.headers)}
    if reply.warned or reply.status >= 400:
        headers["Cache-Control"] = "no-store"
    body = reply.body[: len(reply.body) // 2] if reply.ruin == "cut" else reply.body
    accepts = "gzip" in request.headers.get("accept-encoding", "")
    if accepts and len(body) >= SMALLEST_GZIP_BYTES:
        body = gzip.compress(body, GZIP_LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
    if reply.ruin == "reset":
        # The length that was promised is never sent, so the server has to drop the connection.
        headers["Content-Length"] = str(len(body))
        body = body[: len(body) // 2]
    return Response(body, reply.status, headers, reply.content_type)
