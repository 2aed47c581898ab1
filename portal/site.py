"""The portal as an ASGI application: its paths, and the checks of each request.

Put here: the handler of each path, the headers of every response, and the login form.
Not here: pages (`portal.pages`), the API (`portal.api`), or the process (`orchestration`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from domain.errors import LedgerError
from portal import api, health, pages, returned_gpus
from portal.access import Hosts, Message, Receive, Scope, Send, refusal_of_foreign_request
from portal.refusals import PageNotFound, RequestNotAllowed, RequestRefused
from portal.sessions import COOKIE, SESSION_HOURS
from portal.visits import API, LOG, CallerError, Handler, PortalSettings, endpoint, json_error

LOGIN_BYTES_LIMIT = 8192
TARGET_BYTES_LIMIT = 4096
"""Limit of path and query of a request: five times the longest address of a page."""

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # without a referrer, browsers send forms with Origin: null
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
FORM = "application/x-www-form-urlencoded"

PAGES: Mapping[str, Handler] = {
    "/": pages.front_page,
    "/tenants/{tenant}": pages.tenant_page,
    "/tenants/{tenant}/workload": pages.workload_page,
    "/tenants/{tenant}/charts/cost.svg": pages.cost_chart,
    "/tenants/{tenant}/charts/gpu-hours.svg": pages.hours_chart,
    api.DOCUMENT: api.document_download,
    "/tenants/{tenant}/returned": returned_gpus.tenant_page,
    "/provider": pages.provider_page,
    "/provider/returned": returned_gpus.provider_page,
    "/provider/charts/hours.svg": pages.coverage_chart,
    "/provider/health": health.provider_health_page,
    "/provider/charts/cards.svg": pages.cards_chart,
    "/provider/charts/nodes.svg": pages.nodes_chart,
    "/provider/map": pages.map_page,
    "/programme": pages.programme_page,
    "/programme/charts/gpus.svg": pages.gpus_chart,
}


def make_site(settings: PortalSettings, hosts: Hosts) -> Any:
    """The application; each of its responses has `HEADERS`."""
    page_endpoint = partial(endpoint, settings, error_page=pages.error_page)
    routes = [Route(path, page_endpoint(handler)) for path, handler in PAGES.items()]
    routes += [
        Route(f"{api.ROOT}{table.path}", page_endpoint(partial(api.answer, table)))
        for table in api.TABLES
    ]
    routes += [
        Route(f"{api.ROOT}/openapi.json", page_endpoint(_openapi)),
        Route(f"{api.ROOT}{api.DOCUMENT}", page_endpoint(api.document_download)),
        Route("/static/{name}", _static),
        Route("/healthz", partial(_health, settings)),
    ]
    if settings.has_login:
        routes += [
            Route("/login", partial(_login_form, settings), methods=["GET"]),
            Route("/login", partial(_login, settings), methods=["POST"]),
            Route("/logout", partial(_logout, settings), methods=["POST"]),
        ]
    routes.append(Route("/{path:path}", page_endpoint(_not_found)))
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    return _RequestGuard(app, hosts, settings)


class _RequestGuard:
    """Checks the host, origin, method and size of a request, and adds `HEADERS` to the response."""

    def __init__(self, app: Any, hosts: Hosts, settings: PortalSettings) -> None:
        self._app = app
        self._hosts = hosts
        self._posts = {"/login", "/logout"} if settings.has_login else set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in HEADERS.items()
                        if name.encode() not in present
                    ),
                ]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
        else:
            caller_error = CallerError.of(refusal)
            respond = json_error if scope["path"].startswith(API) else pages.error_page
            await respond(caller_error)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> RequestNotAllowed | None:
        foreign = refusal_of_foreign_request(scope, self._hosts, links=True)
        if foreign is not None:
            return RequestNotAllowed(foreign.status, foreign.seen, foreign.remedy)
        method, path = scope["method"], scope["path"]
        if method not in ("GET", "HEAD") and not (method == "POST" and path in self._posts):
            seen = "The method is neither GET nor HEAD"
            return RequestNotAllowed(405, seen, "Send a GET request")
        target = len(scope.get("raw_path") or path.encode()) + len(scope["query_string"])
        if target > TARGET_BYTES_LIMIT:
            seen = f"The address has more than {TARGET_BYTES_LIMIT} bytes"
            return RequestNotAllowed(414, seen, "Give fewer or shorter parameters")
        if not path.isprintable():
            seen = "The path has a character that is not printable"
            return RequestNotAllowed(400, seen, "Begin at the start page")
        return None


def _openapi(visit: Any) -> Response:
    visit.parameters()
    return JSONResponse(api.openapi())


def _not_found(visit: Any) -> Response:
    raise PageNotFound()


def _static(request: Request) -> Response:
    static_file = pages.static_files().get(request.path_params["name"])
    if static_file is None:
        return pages.error_page(CallerError.of(PageNotFound()))
    body, media_type = static_file
    headers = {"cache-control": "public, max-age=31536000, immutable"}
    return Response(body, media_type=media_type, headers=headers)


def _health(settings: PortalSettings, request: Request) -> Response:
    """The response to probes: whether snapshots exist. It has no data of a tenant."""
    try:
        settings.snapshots.tenants()
    except LedgerError as missing:
        return PlainTextResponse(f"{missing.code}\n", 503)
    return PlainTextResponse("ok\n")


def _login_form(settings: PortalSettings, request: Request) -> Response:
    """The login form. An address with a token begins a session at once, unless another page links
    to it."""
    token = request.query_params.get("token", "")
    if token and request.headers.get("sec-fetch-site", "none") == "none":
        return _begin_session(settings, lambda: token)
    return pages.plain_page("login.html", title="GPU consumption", text="")


async def _login(settings: PortalSettings, request: Request) -> Response:
    body = await _read_form(request)
    return await run_in_threadpool(_begin_session, settings, lambda: _token_of(request, body))


async def _read_form(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LOGIN_BYTES_LIMIT:
            return b""
    return body


def _begin_session(settings: PortalSettings, read_token: Callable[[], str]) -> Response:
    try:
        with settings.limits.of("login"):
            subject = settings.authority.session_subject(read_token())
    except (LedgerError, RequestRefused) as error:
        return pages.error_page(CallerError.of(error))
    if not subject:
        text = "This token is not valid."
        return pages.plain_page("login.html", 401, title="GPU consumption", text=text)
    response = RedirectResponse("/", 303)
    response.set_cookie(
        COOKIE,
        settings.sessions.begin(subject, settings.clock.now()),
        max_age=SESSION_HOURS * 3600,
        secure=settings.is_tls,
        httponly=True,
        samesite="strict",
    )
    return response


def _token_of(request: Request, body: bytes) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    fields = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
    if kind != FORM or [name for name, _ in fields] != ["token"]:
        raise RequestNotAllowed(400, "The form must have one field, token", "Use the login form")
    return fields[0][1].strip()


def _logout(settings: PortalSettings, request: Request) -> Response:
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=settings.is_tls)
    return response


def log_to_stderr() -> None:
    """Log one line per request: the caller, the method, the path and the status; never a token."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
