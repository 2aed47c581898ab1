"""From a request to a response: authentication, parameters, limits, and errors as responses.

Put here: what every page and every API path does before and after its own work.
Not here: pages (`portal.pages`), the API (`portal.api`), or which paths there are (`portal.site`).
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from domain.billing_period import BillingPeriod
from domain.clock import Clock
from domain.errors import CouldNotLook, LedgerError, WrongUse
from domain.interval import Interval, parse_instant
from portal.callers import Authority, Caller, seen_by
from portal.sessions import COOKIE, Sessions
from portal.tokens import TokenFileInvalid
from warehouse.reports.source import Facts, NoFactsYet
from warehouse.snapshot_reader import PROVIDER, Snapshots

LOG = logging.getLogger("gpu_ledger.portal")

CONCURRENT_LIMIT = 8
"""Requests of one caller at a time; a page needs three."""
BURST_LIMIT, PER_SECOND_LIMIT = 120, 20
"""Requests of one caller: so many at once, and then so many per second."""
CALLERS_REMEMBERED = 10_000
PARAMETER_BYTES_LIMIT = 512

API = "/api/"
_BEARER = re.compile(r"Bearer ([\x21-\x7e]{1,4096})", re.ASCII)


class Refused(Exception):
    """A response other than the one that was requested."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = dict(headers or {})


def not_found() -> Refused:
    """The only 404: for what does not exist and for what the caller may not see."""
    return Refused(404, "There is no such page, or you may not see it.")


@dataclass
class _Allowance:
    tokens: float = BURST_LIMIT
    checked_at: float = 0.0
    running: int = 0


class Limits:
    """How many requests each caller may send."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._callers: OrderedDict[str, _Allowance] = OrderedDict()

    @contextmanager
    def of(self, caller: str) -> Iterator[None]:
        """Count a request while it runs; raises Refused with 429."""
        with self._lock:
            allowance = self._callers.setdefault(caller, _Allowance(checked_at=self._seconds()))
            self._callers.move_to_end(caller)
            while len(self._callers) > CALLERS_REMEMBERED:
                self._callers.popitem(last=False)
            now = self._seconds()
            gained = (now - allowance.checked_at) * PER_SECOND_LIMIT
            allowance.tokens = min(BURST_LIMIT, allowance.tokens + gained)
            allowance.checked_at = now
            if allowance.tokens < 1 or allowance.running >= CONCURRENT_LIMIT:
                raise Refused(429, "Too many requests. Wait a second.", {"Retry-After": "1"})
            allowance.tokens -= 1
            allowance.running += 1
        try:
            yield
        finally:
            with self._lock:
                allowance.running -= 1


@dataclass(frozen=True)
class Settings:
    """What a portal needs."""

    snapshots: Snapshots
    documents: Path
    authority: Authority
    clock: Clock
    has_login: bool  # whether a form begins sessions; else a proxy sends the bearer token
    is_tls: bool
    sessions: Sessions = field(default_factory=Sessions)
    limits: Limits = field(default_factory=Limits)


@dataclass
class Visit:
    """One request of an authenticated caller."""

    request: Request
    settings: Settings
    caller: Caller

    def parameters(self, *allowed: str) -> Parameters:
        return Parameters.of(self.request, allowed)

    @property
    def tenant(self) -> str:
        """The tenant in the path; raises Refused with 404 unless the caller may see it."""
        tenant: str = self.request.path_params["tenant"]
        if not seen_by(self.caller, tenant, self.known_tenants):
            raise not_found()
        return tenant

    @cached_property
    def known_tenants(self) -> list[str]:
        return self.settings.snapshots.tenants()

    @contextmanager
    def facts_of_tenant(self) -> Iterator[Facts]:
        with self.settings.snapshots.opened(self.tenant) as facts:
            yield facts

    @contextmanager
    def facts_of_fleet(self, *, programme: bool = False) -> Iterator[Facts]:
        """The provider's snapshot, for the provider, or for both roles."""
        may = self.caller.is_programme() if programme else self.caller.is_provider()
        if not may:
            raise not_found()
        with self.settings.snapshots.opened(PROVIDER) as facts:
            yield facts


@dataclass(frozen=True)
class Parameters:
    """The query string of a request: known names, each at most once."""

    values: Mapping[str, str]

    @classmethod
    def of(cls, request: Request, allowed: tuple[str, ...]) -> Parameters:
        found: dict[str, str] = {}
        for name, value in request.query_params.multi_items():
            if name not in allowed:
                known = ", ".join(allowed) or "none"
                raise Refused(400, f"There is no such parameter here. Known: {known}.")
            if name in found:
                raise Refused(400, f"The parameter {name} is there twice.")
            if len(value.encode("utf-8", "surrogatepass")) > PARAMETER_BYTES_LIMIT:
                raise Refused(400, f"The parameter {name} is too long.")
            found[name] = value
        return cls(found)

    def text(self, name: str, default: str = "") -> str:
        return self.values.get(name, "") or default

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        value = self.text(name, choices[0])
        if value not in choices:
            raise Refused(400, f"{name} is one of: {', '.join(choices)}.")
        return value

    def number(self, name: str, default: int, most: int) -> int:
        value = self.text(name, str(default))
        if not re.fullmatch(r"\d{1,9}", value, re.ASCII) or int(value) > most:
            raise Refused(400, f"{name} is a whole number up to {most}.")
        return int(value)

    def period(self, facts: Facts) -> BillingPeriod:
        """The month that was requested and counted, or the newest one."""
        if not facts.periods:
            raise not_found()
        name = self.text("period")
        if not name:
            return facts.newest
        try:
            period = BillingPeriod(name)
        except WrongUse:
            raise Refused(400, "period is a month, such as 2026-10.") from None
        if period.name not in facts.periods:
            counted = ", ".join(facts.periods)
            raise Refused(404, f"This month was not counted. Counted months: {counted}.")
        return period

    def hour(self, name: str) -> datetime | None:
        return self._instant(name) if self.text(name) else None

    def window(self) -> Interval | None:
        """`from` and `to`; None without both."""
        if not self.text("from") and not self.text("to"):
            return None
        if not self.text("from") or not self.text("to"):
            raise Refused(400, "Give both from and to, or neither.")
        started_at, ended_at = self._instant("from"), self._instant("to")
        if ended_at <= started_at:
            raise Refused(400, "to has to be later than from.")
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
            raise Refused(400, f"{name} is a time in UTC, such as 2026-10-09T14.") from None


Handler = Callable[[Visit], Response]
ErrorPage = Callable[[int, str], Response]


def endpoint(settings: Settings, handler: Handler, error_page: ErrorPage) -> Any:
    """What Starlette calls for a path. It runs in a thread: reviews and DuckDB block."""

    def respond(request: Request) -> Response:
        caller_name = "-"
        try:
            caller = _caller(settings, request)
            caller_name = caller.name
            with settings.limits.of(caller_name):
                response = handler(Visit(request, settings, caller))
        except Refused as refused:
            response = _refusal(settings, request, refused, error_page)
        except NoFactsYet:
            response = _refusal(settings, request, not_found(), error_page)
        except WrongUse as wrong:
            if isinstance(wrong, TokenFileInvalid):
                response = _refusal(settings, request, _unavailable(wrong), error_page)
            else:
                response = _refusal(
                    settings, request, Refused(400, f"{wrong.seen}; {wrong.remedy}"), error_page
                )
        except CouldNotLook as cause:
            response = _refusal(settings, request, _unavailable(cause), error_page)
        except Exception:
            LOG.exception("%s %s failed", request.method, request.url.path)
            response = _refusal(settings, request, Refused(500, "The portal failed."), error_page)
        LOG.info(
            "%s %s %s %d",
            caller_name,
            request.method,
            ascii(request.url.path),
            response.status_code,
        )
        return response

    return respond


def _unavailable(cause: LedgerError) -> Refused:
    """The reason, without the paths and addresses of the server."""
    LOG.error("%s", cause.message())
    return Refused(503, f"{cause.code}: {cause.why}. The operator's log has the details.")


def _caller(settings: Settings, request: Request) -> Caller:
    """Who sends the request: by a bearer token, else by a session. Raises Refused with 401."""
    headers = request.headers.getlist("authorization")
    if headers:
        found = _BEARER.fullmatch(headers[0]) if len(headers) == 1 else None
        caller = settings.authority.caller(found[1]) if found else None
    elif settings.has_login:
        subject = settings.sessions.subject(request.cookies.get(COOKIE, ""), settings.clock.now())
        caller = settings.authority.caller_of_session(subject) if subject else None
    else:
        caller = None
    if caller is None:
        raise Refused(401, "A valid token is needed.", {"WWW-Authenticate": "Bearer"})
    return caller


def _refusal(
    settings: Settings, request: Request, refused: Refused, error_page: ErrorPage
) -> Response:
    if request.url.path.startswith(API):
        response: Response = JSONResponse({"error": refused.text}, refused.status)
    elif refused.status == 401 and settings.has_login:
        response = RedirectResponse("/login", 303)
    else:
        response = error_page(refused.status, refused.text)
    response.headers.update(refused.headers)
    return response
