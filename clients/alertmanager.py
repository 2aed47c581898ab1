"""A client of the Alertmanager API v2, for every peer of a highly available pair.

Put here: posting alerts, reading the present ones, and the addresses of all peers.
Not here: which alerts there are, or when they are sent.

The peers share notifications but not alerts, so each alert is posted to every peer.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from clients.credentials import TokenWithoutTls
from clients.http_transport import BodyOverLimit, make_transport, whole_body
from clients.redaction import secret_of
from domain.errors import TemporarilyUnavailable
from domain.interval import format_instant

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
BODY_BYTES_LIMIT = 64 << 20
"""Enough for more alerts than an Alertmanager can process, some ten thousand."""

T = TypeVar("T")


class AlertmanagerFailed(TemporarilyUnavailable):
    """An Alertmanager did not accept alerts, or did not list them."""

    code: ClassVar[str] = "SERVER-001"

    def __init__(self, peer: str, seen: str) -> None:
        super().__init__(
            where=f"Alertmanager {peer}",
            seen=seen,
            why="alerts that no Alertmanager has accepted cause no notification; the next run "
            "sends them again",
            remedy="check the URL, the token and its rights; then run gpu-ledger alerts send",
        )


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. Equal labels are the same alert."""

    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: datetime
    ends_at: datetime
    generator_url: str = ""


class PresentAlert(msgspec.Struct, frozen=True):
    """An alert in an Alertmanager."""

    labels: dict[str, str]
    fingerprint: str
    receivers: list[dict[str, Any]] = []


class Status(msgspec.Struct, frozen=True):
    """The parts of an Alertmanager's status that the doctor reads."""

    config: dict[str, str]
    versionInfo: dict[str, str]
    cluster: dict[str, Any] = {}


class Alertmanager:
    """One peer. `token` is called for every request, because tokens rotate."""

    def __init__(
        self,
        url: str,
        address: str = "",
        token: Callable[[], str] = lambda: "",
        tls: ssl.SSLContext | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.name = f"{self.url} ({address})" if address else self.url
        self._token = token
        self._http = httpx.Client(
            transport=transport or make_transport(self.url, tls=tls, address=address),
            timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
            headers={"Accept": "application/json", "User-Agent": "gpu-ledger"},
            follow_redirects=False,
        )

    def post(self, alerts: Sequence[Alert]) -> None:
        """Post alerts to this peer; raises AlertmanagerFailed."""
        body = [
            {
                "labels": alert.labels,
                "annotations": alert.annotations,
                "startsAt": format_instant(alert.starts_at),
                "endsAt": format_instant(alert.ends_at),
                "generatorURL": alert.generator_url,
            }
            for alert in alerts
        ]
        self._request("POST", "/api/v2/alerts", content=msgspec.json.encode(body))

    def present(self, matchers: Sequence[str]) -> list[PresentAlert]:
        """The alerts that match, also silenced and inhibited ones; raises AlertmanagerFailed."""
        body = self._request("GET", "/api/v2/alerts", params={"filter": list(matchers)})
        return self._decoded(body, list[PresentAlert])

    def status(self) -> Status:
        """Raises AlertmanagerFailed."""
        return self._decoded(self._request("GET", "/api/v2/status"), Status)

    def close(self) -> None:
        self._http.close()

    def _decoded(self, body: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except (ValueError, RecursionError):
            seen = "the response is not that of an Alertmanager API v2"
            raise AlertmanagerFailed(self.name, seen) from None

    def _request(self, method: str, path: str, **given: Any) -> bytes:
        token = self._token()
        if token and not self.url.startswith("https://"):
            raise TokenWithoutTls(self.url)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= {"Content-Type": "application/json"} if method == "POST" else {}
        secret = secret_of(token)
        try:
            with self._http.stream(
                method, f"{self.url}{path}", headers=headers, **given
            ) as response:
                body = whole_body(response.iter_bytes(), READ_SECONDS, BODY_BYTES_LIMIT)
        except BodyOverLimit as cause:
            raise AlertmanagerFailed(self.name, str(cause)) from None
        except httpx.HTTPError as cause:
            seen = secret.redact(f"{type(cause).__name__}: {cause}")[:200]
            raise AlertmanagerFailed(self.name, seen) from None
        if response.status_code != 200:
            text = secret.redact(body.decode("utf-8", "replace"))[:200].strip()
            raise AlertmanagerFailed(self.name, f"HTTP {response.status_code} {text}".strip())
        return body


def peer_addresses(url: str) -> list[str]:
    """All addresses of the host name, for example of a headless Service.

    [""] if the name has only one address, or cannot be resolved; the request then fails with the
    reason.
    """
    there = urlsplit(url)
    port = there.port or (443 if there.scheme == "https" else 80)
    try:
        found = socket.getaddrinfo(there.hostname, port, type=socket.SOCK_STREAM)
    except OSError:
        return [""]
    addresses = sorted({str(place[0]) for *_, place in found})
    # A host with an IPv4 and an IPv6 address is one peer.
    of_family = [address for address in addresses if "." in address] or addresses
    return of_family if len(of_family) > 1 else [""]
