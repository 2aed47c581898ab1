"""From a request to a response: authentication, parameters, limits, and errors as responses.

Put here: the work of every page and every API path before and after its own.
Not here: pages (`portal.pages`), the API (`portal.api`), or which paths there are (`portal.site`).
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from domain.billing_period import BillingPeriod
from domain.clock import Clock
from domain.errors import LedgerError, WrongUse
from domain.interval import Interval, parse_instant
from portal.callers import Authority, Caller
from portal.refusals import (
    PageNotFound,
    ParameterInvalid,
    RequestFailed,
    RequestRefused,
    TokenNotValid,
    TooManyRequests,
    not_one_of,
)
from portal.sessions import COOKIE, Sessions
from portal.tokens import TokenFileInvalid
from warehouse.reports.opened_facts import Facts, NoFactsYet
from warehouse.snapshot_reader import PROVIDER, Snapshots

LOG = logging.getLogger("gpu_ledger.portal")

CONCURRENT_LIMIT = 8
"""Requests of one caller at a time; a page needs three."""
WAITING_LIMIT, WAIT_SECONDS = 8, 2.0
"""Requests of one caller that wait while its limit is reached, and the longest wait. Each waiting
request occupies one of 40 threads."""
BURST_LIMIT, PER_SECOND_LIMIT = 120, 20
"""Requests of one caller: without delay after a pause, and per second on average."""
CALLERS_REMEMBERED = 10_000
PARAMETER_BYTES_LIMIT = 512

API = "/api/"
ACCESS_TOKEN = "x-forwarded-access-token"
ERROR_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}}
_BEARER = re.compile(r"Bearer ([\x21-\x7e]{1,4096})", re.ASCII)


@dataclass
class _Allowance:
    tokens: float = BURST_LIMIT
    checked_at: float = 0.0
    running: int = 0
    waiting: int = 0


class RequestLimits:
    """How many requests each caller may send."""

    def __init__(
        self, seconds: Callable[[], float] = time.monotonic, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._seconds = seconds
        self._wait_seconds = wait_seconds
        self._ended = threading.Condition()
        self._callers: OrderedDict[str, _Allowance] = OrderedDict()

    @contextmanager
    def of(self, caller: str) -> Iterator[None]:
        """Count a request while it runs, after a wait for earlier ones; raises TooManyRequests."""
        with self._ended:
            allowance = self._callers.setdefault(caller, _Allowance(checked_at=self._seconds()))
            self._callers.move_to_end(caller)
            while len(self._callers) > CALLERS_REMEMBERED:
                self._callers.popitem(last=False)
            now = self._seconds()
            gained = (now - allowance.checked_at) * PER_SECOND_LIMIT
            allowance.tokens = min(BURST_LIMIT, allowance.tokens + gained)
            allowance.checked_at = now
            if allowance.tokens < 1 or not self._is_next(allowance):
                raise TooManyRequests()
            allowance.tokens -= 1
            allowance.running += 1
        try:
            yield
        finally:
            with self._ended:
                allowance.running -= 1
                self._ended.notify_all()

    def _is_next(self, allowance: _Allowance) -> bool:
        """Whether a request may run now, or after a short wait."""
        if allowance.running < CONCURRENT_LIMIT:
            return True
        if allowance.waiting >= WAITING_LIMIT:
            return False
        allowance.waiting += 1
        try:
            return self._ended.wait_for(
                lambda: allowance.running < CONCURRENT_LIMIT, self._wait_seconds
            )
        finally:
            allowance.waiting -= 1


@dataclass(frozen=True)
class PortalSettings:
    """The parts of a portal."""

    snapshots: Snapshots
    documents: Path
    authority: Authority
    clock: Clock
    has_login: bool  # whether a form begins sessions; else a proxy sends the bearer token
    is_tls: bool
    dagster_url: str = ""  # of the pages that the provider's steps link to
    sessions: Sessions = field(default_factory=Sessions)
    limits: RequestLimits = field(default_factory=RequestLimits)


@dataclass
class Visit:
    """One request of an authenticated caller."""

    request: Request
    settings: PortalSettings
    caller: Caller

    def parameters(self, *allowed: str) -> QueryParameters:
        return QueryParameters.of(self.request, allowed)

    @property
    def tenant(self) -> str:
        """The tenant in the path; raises PageNotFound unless the caller may see it."""
        return self._visible[0]

    @property
    def clusters(self) -> Collection[str] | None:
        """The clusters whose rows of that tenant the caller may see; None for all of them."""
        return self._visible[1]

    @cached_property
    def _visible(self) -> tuple[str, Collection[str] | None]:
        """The rights are looked up first: how long a response takes does not depend on whether
        the tenant exists."""
        tenant: str = self.request.path_params["tenant"]
        clusters = self.caller.clusters_of(tenant)
        exists = tenant in self.known_tenants
        if clusters == frozenset() or not exists:
            raise PageNotFound()
        return tenant, clusters

    @cached_property
    def known_tenants(self) -> list[str]:
        return self.settings.snapshots.tenants()

    def facts_of_tenant(self) -> AbstractContextManager[Facts]:
        return self.settings.snapshots.opened(self.tenant, self.clusters)

    def facts_of_fleet(self, *, programme: bool = False) -> AbstractContextManager[Facts]:
        """The provider's snapshot, for the provider, or for both roles."""
        may = self.caller.is_programme() if programme else self.caller.is_provider()
        if not may:
            raise PageNotFound()
        return self.settings.snapshots.opened(PROVIDER)


@dataclass(frozen=True)
class QueryParameters:
    """The query string of a request: known names, each at most once."""

    values: Mapping[str, str]

    @classmethod
    def of(cls, request: Request, allowed: tuple[str, ...]) -> QueryParameters:
        found: dict[str, str] = {}
        for name, value in request.query_params.multi_items():
            if name not in allowed:
                shown = ascii(name[:40])
                known = ", ".join(allowed) or "none"
                raise ParameterInvalid(
                    shown, f"There is no parameter {shown} here", f"Known parameters: {known}"
                )
            if name in found:
                raise ParameterInvalid(name, f"The parameter {name} is there twice", "Give it once")
            if len(value.encode("utf-8", "surrogatepass")) > PARAMETER_BYTES_LIMIT:
                raise ParameterInvalid(
                    name,
                    f"The parameter {name} is too long",
                    f"Give at most {PARAMETER_BYTES_LIMIT} bytes",
                )
            found[name] = value
        return cls(found)

    def text(self, name: str, default: str = "") -> str:
        return self.values.get(name, "") or default

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        value = self.text(name, choices[0])
        if value not in choices:
            raise not_one_of(name, choices)
        return value

    def number(self, name: str, default: int, most: int) -> int:
        value = self.text(name, str(default))
        if not re.fullmatch(r"\d{1,9}", value, re.ASCII) or int(value) > most:
            raise ParameterInvalid(
                name,
                f"{name} is not a whole number, or is larger than {most}",
                f"Give a whole number up to {most}",
            )
        return int(value)

    def period(self, facts: Facts) -> BillingPeriod:
        """The month that was requested and counted, or the newest one."""
        if not facts.periods:
            raise PageNotFound()
        name = self.text("period")
        if not name:
            return facts.newest
        try:
            period = BillingPeriod(name)
        except WrongUse:
            raise ParameterInvalid(
                "period", "period is not a month", "Give a month such as 2026-10"
            ) from None
        if period.name not in facts.periods:
            counted = ", ".join(facts.periods)
            raise ParameterInvalid(
                "period", f"{period} was not counted", f"Counted months: {counted}"
            )
        return period

    def hour(self, name: str) -> datetime | None:
        """The start of an hour; None without the parameter."""
        hour = self.instant(name)
        if hour is not None and (hour.minute or hour.second):
            raise ParameterInvalid(
                name, f"{name} is not the start of an hour", "Give an hour such as 2026-10-09T14"
            )
        return hour

    def instant(self, name: str) -> datetime | None:
        return self._instant(name) if self.text(name) else None

    def window(self) -> Interval | None:
        """`from` and `to`; None without both."""
        if not self.text("from") and not self.text("to"):
            return None
        if not self.text("from") or not self.text("to"):
            raise ParameterInvalid(
                "from", "Only one of from and to is there", "Give both from and to, or neither"
            )
        started_at, ended_at = self._instant("from"), self._instant("to")
        if ended_at <= started_at:
            raise ParameterInvalid(
                "to", "to is not later than from", "Give a time in to that is later than from"
            )
        return Interval(started_at, ended_at)

    def _instant(self, name: str) -> datetime:
        text = self.text(name)
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
            text += "T00"
        if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d", text, re.ASCII):
            text += ":00"
        if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d", text, re.ASCII):
            text += ":00"
        try:
            return parse_instant(text if text.endswith("Z") else f"{text}Z")
        except (ValueError, LedgerError):
            raise ParameterInvalid(
                name,
                f"{name} is not a time in whole seconds",
                "Give a time in UTC, such as 2026-10-09T14 or 2026-10-09T14:30:05",
            ) from None


Handler = Callable[[Visit], Response]
ErrorPage = Callable[["CallerError"], Response]


@dataclass(frozen=True, slots=True)
class CallerError:
    """An error as a caller sees it: without the paths and addresses of the server."""

    status: int
    code: str
    seen: str
    remedy: str

    @classmethod
    def of(cls, error: LedgerError | RequestRefused) -> CallerError:
        if isinstance(error, RequestRefused):
            return cls(error.status, error.code, error.seen, error.remedy)
        if isinstance(error, NoFactsYet):
            seen = "A month of this window was not counted"
            return cls(400, error.code, seen, "Begin and end the window in counted months")
        if isinstance(error, WrongUse) and not isinstance(error, TokenFileInvalid):
            return cls(400, error.code, error.seen, error.remedy)
        LOG.error("%s", error.message())
        remedy = "The operator finds the details in the portal's log"
        return cls(503, error.code, error.why, remedy)


def endpoint(settings: PortalSettings, handler: Handler, error_page: ErrorPage) -> Any:
    """The function that Starlette calls for a path, in a thread: reviews and DuckDB block."""

    def respond(request: Request) -> Response:
        caller_name = "-"
        try:
            caller = _caller(settings, request)
            caller_name = caller.name
            with settings.limits.of(caller_name):
                response = handler(Visit(request, settings, caller))
        except (LedgerError, RequestRefused) as error:
            response = _refusal(settings, request, CallerError.of(error), error_page)
        except Exception:
            LOG.exception("%s %s failed", request.method, request.url.path)
            response = _refusal(settings, request, CallerError.of(RequestFailed()), error_page)
        LOG.info(
            "%s %s %s %d",
            caller_name,
            request.method,
            ascii(request.url.path),
            response.status_code,
        )
        return response

    return respond


def _caller(settings: PortalSettings, request: Request) -> Caller:
    """The caller by a bearer token, else by a session; raises TokenNotValid."""
    headers = request.headers.getlist("authorization")
    if not headers and not settings.has_login:
        # OpenShift's proxies pass the token of a person so; no page of another site can send it.
        headers = [f"Bearer {token}" for token in request.headers.getlist(ACCESS_TOKEN)]
    if headers:
        found = _BEARER.fullmatch(headers[0]) if len(headers) == 1 else None
        caller = settings.authority.caller(found[1]) if found else None
    elif settings.has_login:
        subject = settings.sessions.subject(request.cookies.get(COOKIE, ""), settings.clock.now())
        caller = settings.authority.caller_of_session(subject) if subject else None
    else:
        caller = None
    if caller is None:
        raise TokenNotValid()
    return caller


def _refusal(
    settings: PortalSettings, request: Request, shown: CallerError, error_page: ErrorPage
) -> Response:
    if request.url.path.startswith(API):
        response = json_error(shown)
    elif shown.status == 401 and settings.has_login:
        response = RedirectResponse("/login", 303)
    else:
        response = error_page(shown)
    response.headers.update(ERROR_HEADERS.get(shown.status, {}))
    return response


def json_error(shown: CallerError) -> Response:
    body = {"code": shown.code, "error": f"{shown.seen}.", "remedy": f"{shown.remedy}."}
    return JSONResponse(body, shown.status)
