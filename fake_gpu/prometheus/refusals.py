"""Errors of the API, with the texts and the status of the real servers.

Put here: the kinds of refusal and their HTTP status.
Not here: faults, which make a response wrong.
"""

from __future__ import annotations

from typing import Literal

ErrorType = Literal["bad_data", "execution", "timeout", "internal", "unavailable", "not_found"]
HTTP_STATUS: dict[ErrorType, int] = {
    "bad_data": 400,
    "execution": 422,
    "timeout": 503,
    "internal": 500,
    "unavailable": 503,
    "not_found": 404,
}


class QueryRefused(Exception):
    """An answer with `status: error`."""

    def __init__(self, error_type: ErrorType, message: str) -> None:
        super().__init__(message)
        self.error_type: ErrorType = error_type
        self.message = message

    @property
    def http_status(self) -> int:
        return HTTP_STATUS[self.error_type]


def bad_parameter(name: str, message: str) -> QueryRefused:
    """A parameter is invalid."""
    return QueryRefused("bad_data", f'invalid parameter "{name}": {message}')


class ParseError(ValueError):
    """A query that is not of the language, with the place where that shows."""

    def __init__(self, query: str, position: int, message: str) -> None:
        before = query[:position]
        line = before.count("\n") + 1
        column = position - (before.rfind("\n") + 1) + 1
        super().__init__(f"{line}:{column}: parse error: {message}")
