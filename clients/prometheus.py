"""A client of the Prometheus HTTP API, as Prometheus, Thanos and OpenShift serve it.

Put here: one request, its limits of time and size, and the description of its response.
Not here: queries, the limits of an attempt (`ingestion.thanos.attempt_client`), or the meaning of
series.

`post` and `get` raise no error for a bad response: a `PrometheusResponse` describes it, because a
failed query is evidence, too. `raw_samples` raises: a response with a warning or an error is not
data, and its caller decides nothing from it. A token is in no response.
"""

from __future__ import annotations

import io
import time
import zlib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import ClassVar, Self, cast
from urllib.parse import urlencode

import httpx
import msgspec

from clients.credentials import ServerAccess, TokenWithoutTls, is_loopback
from clients.http_transport import make_transport
from clients.json_text import NOT_JSON
from clients.redaction import Secret, secret_of
from domain.errors import TemporarilyUnavailable

QUERY_PATH = "/api/v1/query"

CONNECT_SECONDS = 10.0
"""A host that accepts no connection in this time is away, however long queries may take."""

READ_SECONDS = 120.0
"""Thanos ends a query after two minutes by default."""

BODY_BYTES_LIMIT = 512 << 20
"""Uncompressed; half an hour of 10,000 GPUs at 15 s has about 50 MB per metric."""

CHUNK_BYTES = 1 << 20


class PrometheusFailed(TemporarilyUnavailable):
    """A query got no complete response."""

    code: ClassVar[str] = "SERVER-001"

    def __init__(self, url: str, seen: str) -> None:
        super().__init__(
            where=f"query of {url}",
            seen=seen,
            why="without a complete response it is unknown whether a GPU was used",
            remedy="check the URL, the token and its rights; then run the command again",
        )


@dataclass(frozen=True, slots=True)
class PrometheusResponse:
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


class Series(msgspec.Struct, frozen=True):
    """One time series: its labels, and (seconds since 1970, value as text) pairs."""

    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    resultType: str
    result: list[Series]


class _Response(msgspec.Struct):
    status: str
    data: _Data | None = None
    warnings: list[str] = []
    error: str = ""
    errorType: str = ""


_decoder = msgspec.json.Decoder(_Response)


class PrometheusClient:
    """One server. Safe to use from several threads. `transport` replaces the network in tests."""

    def __init__(
        self,
        access: ServerAccess,
        transport: httpx.BaseTransport | None = None,
        *,
        timeout_seconds: float = READ_SECONDS,
        body_bytes_limit: int = BODY_BYTES_LIMIT,
        encoding: str = "",
    ) -> None:
        self.url = access.url.rstrip("/")
        self._access = access
        self._timeout_seconds = timeout_seconds
        self._body_bytes_limit = body_bytes_limit
        # On the same machine gzip costs more time than the transfer.
        is_near = is_loopback(self.url) and not access.proxy
        self.encoding = encoding or ("identity" if is_near else "gzip")
        # Not httpx.Client: it logs the reason phrase, in which a proxy may repeat the token, and a
        # redirect leads to a login page, and would carry the token to another host.
        self._transport = transport or make_transport(self.url, access.proxy, access.tls_context())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def post(self, path: str, form: Mapping[str, str]) -> PrometheusResponse:
        """Send one POST: queries are longer than some proxies allow a URL to be."""
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return self._send("POST", httpx.URL(self.url + path), headers, urlencode(form).encode())

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> PrometheusResponse:
        """Send one GET."""
        return self._send("GET", httpx.URL(self.url + path, params=dict(parameters or {})), {}, b"")

    def raw_samples(self, range_selector: str, at: datetime) -> list[Series]:
        """The raw samples of a range selector such as `up[30m]`, up to and including `at`.

        Raises PrometheusFailed unless the response is complete.
        """
        form = {
            "query": range_selector,
            "time": f"{at.timestamp():.3f}",
            # Thanos: raw blocks only, and an error instead of a part of the data.
            "max_source_resolution": "0s",
            "partial_response": "false",
        }
        response = self.post(QUERY_PATH, form)
        if response.failure:
            raise PrometheusFailed(self.url, response.failure[:200])
        try:
            decoded = _decoder.decode(response.body)
        except NOT_JSON:
            seen = f"HTTP {response.status} with a body that is no Prometheus response"
            raise PrometheusFailed(self.url, seen) from None
        if response.status != 200 or decoded.status != "success" or decoded.data is None:
            text = f"{decoded.errorType}: {decoded.error}"[:200]
            raise PrometheusFailed(self.url, f"HTTP {response.status} {text}")
        if decoded.warnings:
            text = "; ".join(decoded.warnings)[:200]
            raise PrometheusFailed(self.url, f"the response has warnings: {text}")
        if decoded.data.resultType != "matrix":
            seen = f"a result of type {decoded.data.resultType[:20]!r} instead of a matrix"
            raise PrometheusFailed(self.url, seen)
        return decoded.data.result

    def _send(
        self, method: str, url: httpx.URL, headers: dict[str, str], content: bytes
    ) -> PrometheusResponse:
        token = self._access.current_token()
        if token and url.scheme != "https" and not is_loopback(self.url):
            raise TokenWithoutTls(self.url)
        headers |= {
            "Accept": "application/json",
            "Accept-Encoding": self.encoding,
            "User-Agent": "gpu-ledger",
        }
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        seconds = self._timeout_seconds
        timeout = httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds)).as_dict()
        request = httpx.Request(
            method, url, headers=headers, content=content, extensions={"timeout": timeout}
        )
        secret = secret_of(token)
        try:
            with closing(self._transport.handle_request(request)) as response:
                return _without_secret(self._read(response, secret), secret)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as cause:
            seen = f"not connected: {cause}"
            return PrometheusResponse(0, "", b"", failure=secret.redact(seen), not_connected=True)
        except httpx.TimeoutException as cause:
            seen = f"timed out ({type(cause).__name__})"
            return PrometheusResponse(0, "", b"", failure=seen, timed_out=True)
        except httpx.TransportError as cause:
            seen = f"cut off: {cause}"
            return PrometheusResponse(0, "", b"", failure=secret.redact(seen), cut_short=True)

    def _read(self, response: httpx.Response, secret: Secret) -> PrometheusResponse:
        found = PrometheusResponse(
            response.status_code,
            response.headers.get("content-type", ""),
            b"",
            retry_after_seconds=_retry_after(response.headers),
        )
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding not in ("identity", "gzip", ""):
            seen = f"an encoding that was not requested: {secret.redact(encoding)[:40]}"
            return replace(found, failure=seen)
        body = _Body(encoding == "gzip", self._body_bytes_limit)
        # httpx limits the silence between two chunks, not the time of the whole body.
        deadline = time.monotonic() + self._timeout_seconds
        try:
            for chunk in cast(httpx.SyncByteStream, response.stream):
                body.add(chunk)
                if time.monotonic() > deadline:
                    seen = f"still arriving after {self._timeout_seconds:g} s"
                    return replace(found, failure=seen, timed_out=True)
                if body.is_too_large:
                    seen = f"larger than {self._body_bytes_limit} bytes"
                    return replace(found, failure=seen, too_large=True)
        except httpx.TimeoutException as cause:
            seen = f"timed out ({type(cause).__name__}) in the body"
            return replace(found, failure=seen, timed_out=True)
        except httpx.TransportError as cause:
            seen = secret.redact(f"cut off: {cause}")
            return replace(found, body=body.content, failure=seen, cut_short=True)
        except zlib.error as cause:
            return replace(found, body=body.content, failure=f"not gzip: {cause}", cut_short=True)
        if not body.is_whole:
            return replace(found, body=body.content, failure="gzip ends early", cut_short=True)
        return replace(found, body=body.content)


class _Body:
    """A body as it arrives. gzip is unpacked here: httpx does not say whether it was whole."""

    def __init__(self, is_gzip: bool, limit: int) -> None:
        self._inflate = zlib.decompressobj(wbits=31) if is_gzip else None
        self._content = io.BytesIO()
        self._limit = limit

    def add(self, chunk: bytes) -> None:
        while chunk and not self.is_too_large:
            part, chunk = chunk, b""
            if self._inflate is not None:
                part = self._inflate.decompress(part, CHUNK_BYTES)
                chunk = self._inflate.unconsumed_tail
                if self._inflate.eof and self._inflate.unused_data:
                    raise zlib.error("more bytes after its end")
            self._content.write(part)

    @property
    def is_too_large(self) -> bool:
        return self._content.tell() > self._limit

    @property
    def is_whole(self) -> bool:
        return self._inflate is None or self._inflate.eof

    @property
    def content(self) -> bytes:
        return self._content.getvalue()


def _without_secret(response: PrometheusResponse, secret: Secret) -> PrometheusResponse:
    """Drop a response that repeats our token, as a debugging page of a proxy may do."""
    if not secret.is_in(response.body) and not secret.is_in(response.content_type):
        return response
    seen = f"status {response.status} with a body that repeats our token; it was dropped"
    return PrometheusResponse(response.status, "", b"", failure=seen, repeats_secret=True)


def _retry_after(headers: httpx.Headers) -> float | None:
    """The seconds of the header Retry-After; a date in it is compared with the server's clock."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
        seconds: float = (until - parsedate_to_datetime(headers.get("date", ""))).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(seconds, 0.0)


def quoted(text: str) -> str:
    """A PromQL string literal of `text`."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
