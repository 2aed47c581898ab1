"""A client of the Prometheus HTTP API, as Prometheus, Thanos and OpenShift serve it.

Put here: one query, its limits, and the shape of its response.
Not here: queries, or the meaning of their series.

A response with a warning or an error is not data: the caller decides nothing from it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import ClassVar

import httpx
import msgspec

from clients.credentials import TokenWithoutTls, make_tls_context
from clients.http_transport import BodyOverLimit, make_transport, whole_body
from clients.redaction import secret_of
from domain.errors import TemporarilyUnavailable

CONNECT_SECONDS = 10.0
READ_SECONDS = 120.0  # Thanos ends a query after two minutes by default
ANSWER_BYTES_LIMIT = 512 << 20  # half an hour of 10,000 GPUs at 15 s has about 50 MB per metric


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
    """One server. `token` is called for every request, because tokens rotate."""

    def __init__(
        self,
        url: str,
        token: Callable[[], str] = lambda: "",
        ca_file: Path | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._token = token
        tls = make_tls_context(ca_file) if ca_file is not None else None
        # Not httpx.Client: it logs the reason phrase, in which a proxy may repeat the token.
        self._transport = transport or make_transport(self.url, tls=tls)

    def close(self) -> None:
        self._transport.close()

    def raw_samples(self, range_selector: str, at: datetime) -> list[Series]:
        """The raw samples of a range selector such as `up[30m]`, up to and including `at`."""
        token = self._token()
        if token and not self.url.startswith("https://"):
            raise TokenWithoutTls(self.url)
        form = {
            "query": range_selector,
            "time": f"{at.timestamp():.3f}",
            # Thanos: raw blocks only, and an error instead of a part of the data.
            "max_source_resolution": "0s",
            "partial_response": "false",
        }
        secret = secret_of(token)
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        request = httpx.Request(
            "POST",
            f"{self.url}/api/v1/query",
            data=form,
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "gzip",
                "User-Agent": "gpu-ledger",
                **({"Authorization": f"Bearer {token}"} if token else {}),
            },
            extensions={"timeout": timeout.as_dict()},
        )
        try:
            with closing(self._transport.handle_request(request)) as response:
                body = whole_body(response.iter_bytes(), READ_SECONDS, ANSWER_BYTES_LIMIT)
        except BodyOverLimit as cause:
            raise PrometheusFailed(self.url, str(cause)) from None
        except httpx.HTTPError as cause:
            seen = secret.redact(f"{type(cause).__name__}: {cause}")[:200]
            raise PrometheusFailed(self.url, seen) from None
        try:
            decoded = _decoder.decode(body)
        except (ValueError, RecursionError):
            seen = f"HTTP {response.status_code} with a body that is no Prometheus response"
            raise PrometheusFailed(self.url, seen) from None
        if response.status_code != 200 or decoded.status != "success" or decoded.data is None:
            text = secret.redact(f"{decoded.errorType}: {decoded.error}")[:200]
            raise PrometheusFailed(self.url, f"HTTP {response.status_code} {text}")
        if decoded.warnings:
            text = secret.redact("; ".join(decoded.warnings))[:200]
            raise PrometheusFailed(self.url, f"the response has warnings: {text}")
        if decoded.data.resultType != "matrix":
            seen = f"a result of type {decoded.data.resultType[:20]!r} instead of a matrix"
            raise PrometheusFailed(self.url, seen)
        return decoded.data.result


def quoted(text: str) -> str:
    """A PromQL string literal of `text`."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
