"""Reading what an API server answers: a body or a stream of lines, never more than a limit.

Put here: bytes as they come, what a failure says of itself, and keeping our token out of both.
Not here: asking (`client`), or what documents mean (`state`).

What a failure says is written into the journal, and a proxy that shows what was sent to it would
write our token there: it is taken out before anything else is done with the text. An answer that
should be evidence and repeats it is refused, as the other source does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import httpx

from clients.kubernetes_errors import HistoryGone, NotKubernetes, ServerRefused
from clients.redaction import Secret
from clients.wire import BodyOverLimit, whole_body
from ingestion.json_text import NOT_JSON

# 500 pods of the largest size that etcd stores would be 750 MB; a real page is 5 MB.
PAGE_BYTES_LIMIT = 64 * 1024 * 1024
# A page of that size takes some seconds; httpx limits only the silence between two parts.
PAGE_SECONDS_LIMIT = 120.0
# One object is at most 1.5 MB in etcd; JSON of it is somewhat longer.
EVENT_BYTES_LIMIT = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, while its bytes come."""

    response: httpx.Response
    url: str
    path: str
    secret: Secret  # what it was asked with

    def check(self) -> None:
        """Raise what a failure says, or that this is no JSON."""
        status = self.response.status_code
        if status in (200, 201):
            kind = self.response.headers.get("content-type", "")
            if not kind.startswith("application/json"):
                seen = self.secret.taken_out_of(kind)[:60]
                raise NotKubernetes(self.url, self.path, f"content type {seen!r}, not JSON")
            return
        try:
            said = json.loads(self._bytes())
            self.fail(status, said.get("reason", ""), said.get("message", ""))
        except (*NOT_JSON, AttributeError):
            self.fail(status, self.response.reason_phrase, "")

    def fail(self, status: int, reason: object, message: object) -> NoReturn:
        """Raise what a failure says of itself, as an answer or within a stream."""
        why, text = self.secret.taken_out_of(str(reason)), self.secret.taken_out_of(str(message))
        if status == 410:
            raise HistoryGone(text)
        later = self.response.headers.get("retry-after", "")
        raise ServerRefused(self.url, self.path, status, why, text, later)

    def body(self) -> bytes:
        """All of it."""
        body = self._bytes()
        self.refuse_our_secret(body)
        return body

    def lines(self) -> Iterator[bytes]:
        """The lines of a stream; one that never ends is refused before it fills the memory."""
        rest = b""
        for part in self._parts():
            *whole, rest = (rest + part).split(b"\n")
            yield from (line for line in whole if line)
            if len(rest) > EVENT_BYTES_LIMIT:
                seen = f"an event of more than {EVENT_BYTES_LIMIT} bytes"
                raise NotKubernetes(self.url, self.path, seen)
        if rest.strip():
            raise NotKubernetes(self.url, self.path, "the stream broke off within an event")

    def refuse_our_secret(self, text: bytes) -> None:
        """What should be evidence is dropped where it repeats what we sent."""
        if self.secret.is_in(text):
            seen = "an answer that repeats our token; it was dropped"
            raise NotKubernetes(self.url, self.path, seen)

    def _bytes(self) -> bytes:
        try:
            return whole_body(self._parts(), PAGE_SECONDS_LIMIT, PAGE_BYTES_LIMIT)
        except BodyOverLimit as cause:
            raise NotKubernetes(self.url, self.path, str(cause)) from None

    def _parts(self) -> Iterator[bytes]:
        """What comes, as it comes; httpx looks through every part even where nothing is packed."""
        if "content-encoding" in self.response.headers or not isinstance(
            self.response.stream, httpx.SyncByteStream
        ):
            return self.response.iter_bytes()
        return iter(self.response.stream)
