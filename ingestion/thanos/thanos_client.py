"""A client for one Prometheus-compatible server: one request, retried within a budget, as bytes.

Put here: connections, credentials, compression, sizes, retries.
Not here: the content of a response (`ingestion.thanos.response`), or the queries
(`ingestion.metric_catalogue`).

No error is raised for a bad response: a `StoreResponse` describes it, because a failed query is
evidence, too. Tokens are read from their file for every request, and are in no response.
"""

from __future__ import annotations

import hashlib
import io
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import cast
from urllib.parse import urlencode

import httpx

from clients.credentials import make_tls_context, read_token
from clients.http_transport import make_transport
from clients.redaction import Secret, secret_of
from ingestion.settings import Connection

TRIES_LIMIT = 5
"""A restart of a querier takes seconds; a server that five tries over two minutes do not reach
is away."""

WAIT_BUDGET_SECONDS = 120.0
"""All waiting between tries of one attempt; the hour is pulled again later."""

FIRST_WAIT_SECONDS = 1.0
WAIT_LIMIT_SECONDS = 30.0

CONNECT_TIMEOUT_SECONDS = 10.0
"""A host that accepts no connection in this time is away, however long queries may take."""

ANSWER_BYTES_LIMIT = 96 << 20
"""96 MiB uncompressed: one such response and its decoded form stay under the memory limit of a
pull; larger queries are split."""

REQUESTS_LIMIT = 2_000
"""Requests of one attempt, repeated ones included. A day of a cluster takes about twenty; a server
that refuses every query as too large would be sent more than ten thousand."""

TOO_LARGE_LIMIT = 64
"""Responses of one attempt that were larger than is read. Each query learns its size within six."""

SECONDS_LIMIT = 1_800.0
"""Time of one attempt. Hours that it leaves out are pulled again by the next one."""

CHUNK_BYTES = 1 << 18

_HERE = ("127.0.0.1", "::1", "localhost")

RETRIED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class StoreResponse:
    """The response to one request. `failure` is "" for a whole HTTP response of any status."""

    status: int
    content_type: str
    body: bytes
    failure: str = ""
    cut_short: bool = False  # the body, or its compression, ended early
    too_large: bool = False  # our own limit ended it
    timed_out: bool = False
    not_connected: bool = False
    repeats_secret: bool = False  # dropped: evidence is kept for years, a credential must not be
    retry_after_seconds: float | None = None
    tries: int = 1

    @property
    def worth_another_try(self) -> bool:
        if self.too_large or self.repeats_secret or self.timed_out:
            return False  # a timeout has had its time; a smaller question may do better
        return bool(self.failure) or self.status in RETRIED_STATUSES


class ThanosClient:
    """One server. Safe to use from several threads."""

    def __init__(
        self,
        connection: Connection,
        transport: httpx.BaseTransport | None = None,
        wait: Callable[[float], None] = time.sleep,
        answer_bytes_limit: int = ANSWER_BYTES_LIMIT,
        encoding: str = "",
    ) -> None:
        self._connection = connection
        self._wait = wait
        self._budget_lock = threading.Lock()
        self.refill_budget()
        self._answer_bytes_limit = answer_bytes_limit
        self.encoding = encoding or ("identity" if _is_local(connection) else "gzip")
        self._timeout = httpx.Timeout(
            connection.timeout_seconds,
            connect=min(CONNECT_TIMEOUT_SECONDS, connection.timeout_seconds),
        ).as_dict()
        # Redirects are not followed: one leads to a login page, and would carry the token to
        # another host.
        self._transport = transport or make_transport(
            connection.url, connection.proxy, _tls(connection)
        )

    def __enter__(self) -> ThanosClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def refill_budget(self) -> None:
        """Allow all waiting, requests, bytes and time again; at the start of each attempt."""
        with self._budget_lock:
            self._budget = WAIT_BUDGET_SECONDS
            self._request_count = self._too_large_count = 0
            self._deadline = time.monotonic() + SECONDS_LIMIT

    def post(self, path: str, form: Mapping[str, str]) -> StoreResponse:
        """MetricQuery by POST: queries are longer than some proxies allow an URL to be."""
        for attempt in range(1, TRIES_LIMIT + 1):
            reply = replace(self._send_once("POST", path, form), tries=attempt)
            if not reply.worth_another_try or attempt == TRIES_LIMIT:
                break
            seconds = _pause(attempt, f"{path} {sorted(form.items())}", reply.retry_after_seconds)
            if self._exceeded_limit() or not self._spend(seconds):
                break
            self._wait(seconds)
        return reply

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> StoreResponse:
        """Send one GET, for a response that is not essential."""
        return self._send_once("GET", path, parameters or {})

    def _spend(self, seconds: float) -> bool:
        with self._budget_lock:
            if seconds > self._budget:
                return False
            self._budget -= seconds
            return True

    def _exceeded_limit(self) -> str:
        """Which limit of an attempt is reached; "" when none is."""
        if self._request_count >= REQUESTS_LIMIT:
            return f"{self._request_count} requests"
        if self._too_large_count >= TOO_LARGE_LIMIT:
            return f"{self._too_large_count} answers of more than {self._answer_bytes_limit} bytes"
        return f"{SECONDS_LIMIT:.0f} s" if time.monotonic() >= self._deadline else ""

    def _send_once(self, method: str, path: str, form: Mapping[str, str]) -> StoreResponse:
        if limit := self._exceeded_limit():
            return StoreResponse(
                0, "", b"", failure=f"not sent: the attempt has taken {limit}", tries=0
            )
        with self._budget_lock:
            self._request_count += 1
        file = self._connection.token_file
        token = read_token(Path(file)) if file else ""
        request = self._request(method, path, form, token)
        secret = secret_of(token)
        try:
            with closing(self._transport.handle_request(request)) as response:
                return _without_secret(self._read(response, secret), secret)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as cause:
            seen = f"not connected: {cause}"
            return StoreResponse(0, "", b"", failure=secret.redact(seen), not_connected=True)
        except httpx.TimeoutException as cause:
            seen = f"timed out ({type(cause).__name__})"
            return StoreResponse(0, "", b"", failure=seen, timed_out=True)
        except httpx.TransportError as cause:
            seen = f"cut off: {cause}"
            return StoreResponse(0, "", b"", failure=secret.redact(seen), cut_short=True)

    def _request(
        self, method: str, path: str, form: Mapping[str, str], token: str
    ) -> httpx.Request:
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": self.encoding,
            "User-Agent": "gpu-ledger",
        }
        if token:
            headers["Authorization"] = f"Bearer {token}"
        timeout = {"timeout": self._timeout}
        url = httpx.URL(self._connection.url.rstrip("/") + path)
        if method == "GET":
            url = url.copy_merge_params(form)
            return httpx.Request(method, url, headers=headers, extensions=timeout)
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = urlencode(form).encode("ascii")
        return httpx.Request(method, url, headers=headers, content=body, extensions=timeout)

    def _read(self, response: httpx.Response, secret: Secret) -> StoreResponse:
        reply = StoreResponse(
            response.status_code,
            response.headers.get("content-type", ""),
            b"",
            retry_after_seconds=_retry_after(response.headers),
        )
        encoding = response.headers.get("content-encoding", "identity")
        if encoding.lower() not in ("identity", "gzip", ""):
            seen = secret.redact(encoding)[:40]
            return replace(reply, failure=f"an encoding that was not requested: {seen}")
        unpacked = _Unpacked(encoding.lower() == "gzip", self._answer_bytes_limit)
        # httpx limits the silence between two chunks; a slow trickle could go on for ever.
        deadline = time.monotonic() + self._connection.timeout_seconds
        try:
            for chunk in cast(httpx.SyncByteStream, response.stream):
                unpacked.add(chunk)
                if time.monotonic() > deadline:
                    seen = f"still arriving after {self._connection.timeout_seconds} s"
                    return replace(reply, failure=seen, timed_out=True)
                if unpacked.too_large:
                    with self._budget_lock:
                        self._too_large_count += 1
                    seen = f"larger than {self._answer_bytes_limit} bytes"
                    return replace(reply, failure=seen, too_large=True)
        except httpx.TimeoutException as cause:
            seen = f"timed out ({type(cause).__name__}) in the body"
            return replace(reply, failure=seen, timed_out=True)
        except httpx.TransportError as cause:
            seen = secret.redact(f"cut off: {cause}")
            return replace(reply, body=unpacked.body, failure=seen, cut_short=True)
        except zlib.error as cause:
            return replace(reply, body=unpacked.body, failure=f"not gzip: {cause}", cut_short=True)
        if not unpacked.ended:
            return replace(reply, body=unpacked.body, failure="gzip ends early", cut_short=True)
        return replace(reply, body=unpacked.body)


@contextmanager
def connected_to(connection: Connection, client: ThanosClient | None) -> Iterator[ThanosClient]:
    """The client that was given, left open for its owner; or one of our own, for this use."""
    if client is not None:
        yield client
        return
    with ThanosClient(connection) as own:
        yield own


class _Unpacked:
    """Collects a body while it arrives; unpacks it ourselves to know whether gzip was whole."""

    def __init__(self, gzipped: bool, limit: int) -> None:
        self._inflate = zlib.decompressobj(wbits=31) if gzipped else None
        self._body = io.BytesIO()
        self.size = 0
        self._limit = limit

    def add(self, chunk: bytes) -> None:
        while chunk and not self.too_large:
            part = chunk
            chunk = b""
            if self._inflate is not None:
                part = self._inflate.decompress(part, CHUNK_BYTES * 4)
                chunk = self._inflate.unconsumed_tail
                if self._inflate.eof and self._inflate.unused_data:
                    raise zlib.error("more bytes after its end")
            self.size += self._body.write(part)

    @property
    def too_large(self) -> bool:
        return self.size > self._limit

    @property
    def ended(self) -> bool:
        return self._inflate is None or self._inflate.eof

    @property
    def body(self) -> bytes:
        return self._body.getvalue()


def _without_secret(reply: StoreResponse, secret: Secret) -> StoreResponse:
    """Drop a response that repeats our token, as a debugging page of a proxy may do."""
    if not secret.is_in(reply.body) and not secret.is_in(reply.content_type):
        return reply
    seen = f"status {reply.status} with an answer that repeats our token; it was dropped"
    return StoreResponse(reply.status, "", b"", failure=seen, repeats_secret=True)


def _pause(attempt: int, what: str, asked_for: float | None) -> float:
    """Seconds before the next try: doubling, spread by the request itself, at least Retry-After.

    The spread comes from a hash, not from chance: many requests that failed at one moment do not
    come back at one moment, and the same run waits the same way again.
    """
    spread = (
        int.from_bytes(hashlib.sha256(f"{attempt} {what}".encode()).digest()[:4], "big") / 2**32
    )
    backoff = min(FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1), WAIT_LIMIT_SECONDS)
    return max(backoff * (0.5 + spread / 2), asked_for or 0.0)


def _retry_after(headers: httpx.Headers) -> float | None:
    """Seconds to wait, as the server asks; its dates are measured by its own clock."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
        seconds: float = (until - parsedate_to_datetime(headers.get("date", ""))).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(seconds, 0.0)


def _is_local(connection: Connection) -> bool:
    """On this machine gzip costs more time than the transfer."""
    return httpx.URL(connection.url).host in _HERE and not connection.proxy


def _tls(connection: Connection) -> ssl.SSLContext | None:
    if not connection.url.startswith("https://"):
        return None
    return make_tls_context(
        _path(connection.ca_file),
        _path(connection.client_certificate_file),
        _path(connection.client_key_file),
    )


def _path(name: str) -> Path | None:
    return Path(name) if name else None
