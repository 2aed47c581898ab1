"""Responses other than the one that was requested, each with a code and a status.

Put here: refusals of single requests.
Not here: snapshots that are missing (`warehouse.snapshot_reader`), or reviews that failed
(`portal.callers`); both are responses with 503.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from domain.errors import FileDamaged, TemporarilyUnavailable, WrongUse


class RequestRefused(Exception):
    """The parts of every refusal; its message is that of its other base class."""

    code: ClassVar[str]
    status: int
    seen: str
    remedy: str


class PageNotFound(RequestRefused, WrongUse):
    """The page does not exist, or the caller may not see it; both have the same response."""

    code = "PORTAL-003"
    status = 404

    def __init__(self) -> None:
        super().__init__(
            where="this address",
            seen="There is no such page, or you may not see it",
            why="a response that told the two apart would name the tenants of others",
            remedy="Begin at the start page, which lists everything that you may see",
        )


class ParameterInvalid(RequestRefused, WrongUse):
    """A parameter of a request is unknown, there twice, or has a value that is not valid."""

    code = "PORTAL-004"
    status = 400

    def __init__(self, name: str, seen: str, valid: str) -> None:
        super().__init__(
            where=f"parameter {name}",
            seen=seen,
            why="a parameter that was ignored or guessed would show other numbers than requested",
            remedy=valid,
        )


class TokenNotValid(RequestRefused, WrongUse):
    """A request has no valid token and no session."""

    code = "PORTAL-005"
    status = 401

    def __init__(self) -> None:
        super().__init__(
            where="this request",
            seen="It has no valid token",
            why="nothing is shown to a caller who is not known",
            remedy="Send the header Authorization: Bearer TOKEN, or log in again",
        )


class TooManyRequests(RequestRefused, TemporarilyUnavailable):
    """A caller sent more requests than it may."""

    code = "PORTAL-006"
    status = 429

    def __init__(self) -> None:
        super().__init__(
            where="this caller",
            seen="It sent too many requests",
            why="one caller must not slow down the others",
            remedy="Wait a second, and send fewer requests at a time",
        )


class DocumentFileMissing(RequestRefused, FileDamaged):
    """The file of an issued document is missing, or does not have the bytes that were issued."""

    status = 503

    def __init__(self, period: str, name: str) -> None:
        super().__init__(
            where=f"documents/{period}/…/{name}",
            seen=f"{name} is missing, or differs from the file that was issued",
            why="only the bytes that were issued are sent",
            remedy=f"The operator can write it again: gpu-ledger close {period} --issue",
        )


class RequestNotAllowed(RequestRefused, WrongUse):
    """A request that no page of this server sends: its host, origin, method, size or form."""

    code = "PORTAL-004"

    def __init__(self, status: int, seen: str, remedy: str) -> None:
        super().__init__(
            where="this request",
            seen=seen,
            why="such a request can come from a page of another site",
            remedy=remedy,
        )
        self.status = status


class RequestFailed(RequestRefused, TemporarilyUnavailable):
    """The server failed while it responded."""

    code = "LOG-001"
    status = 500

    def __init__(self) -> None:
        super().__init__(
            where="this request",
            seen="The portal failed while it responded",
            why="no number is shown that may be wrong",
            remedy="The operator finds the cause in the log of this minute",
        )


def not_one_of(name: str, choices: Sequence[str]) -> ParameterInvalid:
    return ParameterInvalid(
        name, f"The value of {name} is unknown", f"Use one of: {', '.join(choices)}"
    )
