"""The envelope of a response of the Prometheus HTTP API, and all its faults.

Put here: from a response to (outcome, reason, warnings, series as raw JSON slices).
Not here: the samples inside (`ingestion.thanos.decode`), or retries
(`ingestion.thanos.attempt_client`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from clients.json_text import NOT_JSON, members
from clients.prometheus import PrometheusResponse
from warehouse.manifest import Outcome

REASON_LENGTH_LIMIT = 300
"""A server's own error text can be a page; the body is landed, the reason is a sentence."""

_LIMIT_WORDS = re.compile(
    r"too many samples|exceed|limit|too large|max[-_ ]?(series|samples|points)",
    re.IGNORECASE,
)


NO_VALUES = msgspec.Raw(b"[]")
NO_HISTOGRAMS = msgspec.Raw(b"")


class RawSeries(msgspec.Struct, gc=False):
    """One series, not yet decoded: slices of the body."""

    metric: msgspec.Raw
    values: msgspec.Raw = NO_VALUES
    histograms: msgspec.Raw = NO_HISTOGRAMS


class _MatrixData(msgspec.Struct, gc=False):
    resultType: str  # the protocol's own spelling
    result: list[RawSeries]


class _MatrixEnvelope(msgspec.Struct, gc=False):
    status: str
    data: _MatrixData
    warnings: list[str] = []


class _AnyData(msgspec.Struct):
    resultType: str = ""


class _AnyEnvelope(msgspec.Struct):
    status: str = ""
    data: _AnyData | None = None
    error: str = ""
    errorType: str = ""
    warnings: list[str] = []


_MATRIX = msgspec.json.Decoder(_MatrixEnvelope)
_ANY = msgspec.json.Decoder(_AnyEnvelope)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])

# A response without spaces, as servers write it, has these bytes and those of its series.
_AROUND = len('{"status":"success","data":{"resultType":"matrix","result":[]}}')
_ANALYSIS = b',"analysis":{}}}'  # Thanos
_AROUND_SERIES = len('{"metric":}')
_VALUES, _HISTOGRAMS = len(',"values":'), len(',"histograms":')


@dataclass(frozen=True, slots=True)
class Matrix:
    """A decoded response, or the reason why it could not be decoded."""

    outcome: Outcome
    reason: str = ""
    warnings: tuple[str, ...] = ()
    series: tuple[RawSeries, ...] | list[RawSeries] = ()
    limit_hit: bool = False  # a smaller query may succeed

    @property
    def usable(self) -> bool:
        return self.outcome in (Outcome.OK, Outcome.WARNED)


def read_matrix(reply: PrometheusResponse) -> Matrix:
    """The series of a response, all of them or none."""
    if reply.too_large:
        return Matrix(Outcome.REFUSED, f"the answer is {reply.failure}", limit_hit=True)
    if reply.cut_short:
        return Matrix(Outcome.TRUNCATED, reply.failure)
    if reply.failure:
        # A query that takes too long as a whole may succeed in pieces.
        return Matrix(Outcome.FAILED, reply.failure, limit_hit=reply.timed_out)
    if not reply.content_type.lower().startswith("application/json"):
        kind = reply.content_type[:60] or "no content type"
        outcome = (
            Outcome.REFUSED if reply.status in (301, 302, 303, 307, 401, 403) else Outcome.FAILED
        )
        return Matrix(outcome, f"status {reply.status} with {kind}, not JSON")
    if reply.status != 200:
        return _refusal(reply)
    return read_matrix_body(reply.body)


def read_matrix_body(body: bytes) -> Matrix:
    """The series in the body of a response with status 200, received or landed."""
    try:
        envelope = _MATRIX.decode(body)
    except msgspec.ValidationError as cause:
        return _not_a_matrix(body, str(cause))
    except NOT_JSON as cause:
        # A number that ends with its sign or its point is invalid at the last byte.
        is_cut = "truncated" in str(cause) or str(cause).endswith(f"(byte {len(body)})")
        outcome = Outcome.TRUNCATED if is_cut else Outcome.FAILED
        return Matrix(outcome, _sentence(f"incomplete JSON: {cause}"))
    if envelope.status != "success":
        return Matrix(Outcome.FAILED, _sentence(f"status {envelope.status!r} with data"))
    if envelope.data.resultType != "matrix":
        return Matrix(
            Outcome.FAILED, _sentence(f"a {envelope.data.resultType}, and a matrix was expected")
        )
    try:
        _require_unique_keys(body, envelope.data.result)
    except (*NOT_JSON, KeyError) as cause:
        return Matrix(Outcome.FAILED, _sentence(f"not the protocol: {cause}"))
    warnings = tuple(envelope.warnings)
    if warnings:
        seen = _sentence(f"{len(warnings)} warnings, the first: {warnings[0]}")
        return Matrix(Outcome.WARNED, seen, warnings, envelope.data.result)
    return Matrix(Outcome.OK, series=envelope.data.result)


def _require_unique_keys(body: bytes, series: list[RawSeries]) -> None:
    """Raise RepeatedKey where an object around the samples has a key twice.

    A repeated key makes a text longer than its parts. Only an answer of another length is read
    again, object by object. Labels are compared where they are read.
    """
    size = _AROUND + max(len(series) - 1, 0) + _AROUND_SERIES * len(series)
    for one in series:
        size += len(one.metric)
        size += _VALUES + len(one.values) if one.values is not NO_VALUES else 0
        size += _HISTOGRAMS + len(one.histograms) if one.histograms is not NO_HISTOGRAMS else 0
    length = len(body) - body.endswith(b"\n")
    if length == size or (length == size + len(_ANALYSIS) - 2 and _ANALYSIS in body[-20:]):
        return
    data = members(members(msgspec.json.format(body, indent=-1))["data"])
    for text in _LIST.decode(data["result"]):
        members(text)


def _not_a_matrix(body: bytes, cause: str) -> Matrix:
    try:
        envelope = _ANY.decode(body)
    except NOT_JSON:
        return Matrix(Outcome.FAILED, _sentence(f"not the protocol: {cause}"))
    if envelope.status == "error":
        text = _sentence(f"{envelope.errorType}: {envelope.error}")
        limit_hit = bool(_LIMIT_WORDS.search(envelope.error))
        outcome = Outcome.REFUSED if limit_hit else Outcome.FAILED
        return Matrix(outcome, text, tuple(envelope.warnings), limit_hit=limit_hit)
    if envelope.data is not None and envelope.data.resultType not in ("", "matrix"):
        kind = envelope.data.resultType
        return Matrix(Outcome.FAILED, _sentence(f"a {kind}, and a matrix was expected"))
    return Matrix(Outcome.FAILED, _sentence(f"not the protocol: {cause}"))


def _refusal(reply: PrometheusResponse) -> Matrix:
    """A status other than 200: an error envelope if the server is one, else only the number."""
    try:
        envelope = _ANY.decode(reply.body)
    except NOT_JSON:
        envelope = _AnyEnvelope()
    seen = f"status {reply.status}"
    if envelope.error:
        seen += f", {envelope.errorType}: {envelope.error}"
    limit_hit = reply.status in (400, 413, 422) and bool(_LIMIT_WORDS.search(envelope.error))
    # A status 4xx is permanent, except those that request a retry.
    final = 400 <= reply.status < 500 and reply.status not in (408, 425, 429)
    return Matrix(
        Outcome.REFUSED if final else Outcome.FAILED,
        _sentence(seen),
        tuple(envelope.warnings),
        limit_hit=limit_hit or reply.status == 413,
    )


def _sentence(text: str) -> str:
    """One line of limited length, without control characters of the server."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return line if len(line) <= REASON_LENGTH_LIMIT else line[: REASON_LENGTH_LIMIT - 1] + "…"
