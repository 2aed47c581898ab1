"""Reading the response of a Kubernetes API server: a body or a stream of lines, within limits.

Put here: the bytes of a response, its failure, and the search for our token in both.
Not here: requests (`clients.kubernetes`), or the meaning of documents.

The text of a failure is written into the journal, and a proxy that repeats the request would write
our token there: it is removed before the text is cut. A document that contains the token is
refused, because documents are evidence and stay byte-exact.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import httpx

from clients.http_transport import BodyOverLimit, whole_body
from clients.json_text import NOT_JSON
from clients.kubernetes_errors import HistoryGone, NotKubernetes, ServerRefused
from clients.redaction import Secret

BODY_BYTES_LIMIT = 64 << 20
"""A page of 500 pods has about 5 MB."""

BODY_SECONDS_LIMIT = 120.0
"""httpx limits only the silence between two parts of a body."""

EVENT_BYTES_LIMIT = 4 << 20
"""One object has at most 1.5 MB in etcd; its JSON is somewhat longer."""


@dataclass(frozen=True, slots=True)
class KubernetesResponse:
    """One response, before its bytes were read."""

    response: httpx.Response
    url: str
    path: str
    secret: Secret  # that the request was sent with

    def require_json(self) -> None:
        """Raise the error of a failure, or NotKubernetes for another content type."""
        status = self.response.status_code
        if status in (200, 201):
            kind = self.response.headers.get("content-type", "")
            if not kind.startswith("application/json"):
                seen = self.secret.redact(kind)[:60]
                raise NotKubernetes(self.url, self.path, f"content type {seen!r}, not JSON")
            return
        try:
            document = json.loads(self._bytes())
            self.fail(status, document.get("reason", ""), document.get("message", ""))
        except (*NOT_JSON, AttributeError):
            self.fail(status, self.response.reason_phrase, "")

    def fail(self, status: int, reason: object, message: object) -> NoReturn:
        """Raise the error of a failed response, or of a failure within a stream."""
        kind = HistoryGone if status == 410 else ServerRefused
        raise kind(
            self.url,
            self.path,
            status,
            self.secret.redact(str(reason)),
            self.secret.redact(str(message)),
            self.response.headers.get("retry-after", ""),
        )

    def body(self) -> bytes:
        body = self._bytes()
        self.refuse_our_secret(body)
        return body

    def lines(self) -> Iterator[bytes]:
        """The lines of a stream; one that never ends is refused before it fills the memory."""
        rest = b""
        for part in self.response.iter_bytes():
            *whole, rest = (rest + part).split(b"\n")
            yield from (line for line in whole if line)
            if len(rest) > EVENT_BYTES_LIMIT:
                seen = f"an event of more than {EVENT_BYTES_LIMIT} bytes"
                raise NotKubernetes(self.url, self.path, seen)
        if rest.strip():
            raise NotKubernetes(self.url, self.path, "the stream broke off within an event")

    def refuse_our_secret(self, text: bytes) -> None:
        if self.secret.is_in(text):
            seen = "a response that repeats our token; it was dropped"
            raise NotKubernetes(self.url, self.path, seen)

    def _bytes(self) -> bytes:
        try:
            return whole_body(self.response.iter_bytes(), BODY_SECONDS_LIMIT, BODY_BYTES_LIMIT)
        except BodyOverLimit as cause:
            raise NotKubernetes(self.url, self.path, str(cause)) from None
