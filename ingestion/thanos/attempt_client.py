"""The client of one attempt: requests are repeated, within limits that all of them share.

Put here: the limits of an attempt, and the pauses between tries.
Not here: connections, credentials and sizes of one request (`clients.prometheus`), the content of a
response (`ingestion.thanos.response`), or the queries (`ingestion.metric_catalogue`).
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import httpx

from clients.prometheus import PrometheusClient, PrometheusResponse
from ingestion.settings import Connection

TRIES_LIMIT = 5
"""A restart of a querier takes seconds; a server that five tries over two minutes do not reach
is away."""

WAIT_BUDGET_SECONDS = 120.0
"""All waiting between tries of one attempt; the hour is pulled again later."""

FIRST_WAIT_SECONDS = 1.0
WAIT_LIMIT_SECONDS = 30.0

BODY_BYTES_LIMIT = 96 << 20
"""96 MiB uncompressed: one such response and its decoded form stay under the memory limit of a
pull; larger queries are split."""

REQUESTS_LIMIT = 2_000
"""Requests of one attempt, repeated ones included. A day of a cluster takes about twenty; a server
that refuses every query as too large would be sent more than ten thousand."""

TOO_LARGE_LIMIT = 64
"""Responses of one attempt above the limit of size. The size of a query is known after six."""

SECONDS_LIMIT = 1_800.0
"""Time of one attempt. Hours that it leaves out are pulled again by the next one."""

RETRIED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


class AttemptClient(PrometheusClient):
    """One server. Safe to use from several threads."""

    def __init__(
        self,
        connection: Connection,
        transport: httpx.BaseTransport | None = None,
        wait: Callable[[float], None] = time.sleep,
        body_bytes_limit: int = BODY_BYTES_LIMIT,
        encoding: str = "",
    ) -> None:
        super().__init__(
            connection.access,
            transport,
            timeout_seconds=connection.timeout_seconds,
            body_bytes_limit=body_bytes_limit,
            encoding=encoding,
        )
        self._wait = wait
        self._lock = threading.Lock()
        self.begin_attempt()

    def begin_attempt(self) -> None:
        """Allow all waiting, requests, bytes and time again."""
        with self._lock:
            self._wait_budget = WAIT_BUDGET_SECONDS
            self._request_count = self._too_large_count = 0
            self._deadline = time.monotonic() + SECONDS_LIMIT

    def post(self, path: str, form: Mapping[str, str]) -> PrometheusResponse:
        """Send a query, again after a failure that may be temporary."""
        for number in range(1, TRIES_LIMIT + 1):
            response = self._within_limits(lambda: super(AttemptClient, self).post(path, form))
            response = replace(response, tries=number)
            if number == TRIES_LIMIT or not _may_succeed_later(response):
                break
            request = f"{path} {sorted(form.items())}"
            seconds = _pause(number, request, response.retry_after_seconds or 0.0)
            if self._exceeded_limit() or not self._take_from_budget(seconds):
                break
            self._wait(seconds)
        return response

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> PrometheusResponse:
        """Send one GET, for a response that is not essential."""
        return self._within_limits(lambda: super(AttemptClient, self).get(path, parameters))

    def _within_limits(self, send: Callable[[], PrometheusResponse]) -> PrometheusResponse:
        if limit := self._exceeded_limit():
            seen = f"not sent: the attempt has taken {limit}"
            return PrometheusResponse(0, "", b"", failure=seen, tries=0)
        with self._lock:
            self._request_count += 1
        response = send()
        with self._lock:
            self._too_large_count += response.too_large
        return response

    def _take_from_budget(self, seconds: float) -> bool:
        with self._lock:
            if seconds > self._wait_budget:
                return False
            self._wait_budget -= seconds
            return True

    def _exceeded_limit(self) -> str:
        """Which limit of an attempt is reached; "" when none is."""
        if self._request_count >= REQUESTS_LIMIT:
            return f"{self._request_count} requests"
        if self._too_large_count >= TOO_LARGE_LIMIT:
            count, size = self._too_large_count, self._body_bytes_limit
            return f"{count} responses of more than {size} bytes"
        return f"{SECONDS_LIMIT:.0f} s" if time.monotonic() >= self._deadline else ""


@contextmanager
def connected_to(connection: Connection, client: AttemptClient | None) -> Iterator[AttemptClient]:
    """The given client, left open for its owner; or an own one for this use."""
    if client is not None:
        yield client
        return
    with AttemptClient(connection) as own:
        yield own


def _may_succeed_later(response: PrometheusResponse) -> bool:
    """Not after a timeout: it has taken its time, and a smaller query may do better."""
    if response.too_large or response.repeats_secret or response.timed_out:
        return False
    return bool(response.failure) or response.status in RETRIED_STATUSES


def _pause(number: int, request: str, seconds_min: float) -> float:
    """Seconds before the next try: doubled each time, spread by the request, at least Retry-After.

    The spread comes from a hash, not from chance: many requests that failed at one moment are not
    repeated at one moment, and the same run waits for the same times again.
    """
    digest = hashlib.sha256(f"{number} {request}".encode()).digest()
    spread = int.from_bytes(digest[:4], "big") / 2**32
    backoff = min(FIRST_WAIT_SECONDS * 2.0 ** (number - 1), WAIT_LIMIT_SECONDS)
    return max(backoff * (0.5 + spread / 2), seconds_min)
