"""Who sends a request, and which tenants and roles that caller may see.

Put here: the caller of a request, and the interface of every way of authentication.
Not here: tokens in a file (`portal.tokens`), or reviews by a Kubernetes API server
(`portal.reviews`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from domain.errors import TemporarilyUnavailable


class ReviewFailed(TemporarilyUnavailable):
    """The rights of a caller could not be reviewed."""

    code = "SERVER-002"

    def __init__(self, where: str, seen: str) -> None:
        super().__init__(
            where=where,
            seen=seen,
            why="without a review nothing is shown to this caller",
            remedy="check that the API server answers and that the portal's account is bound to "
            "system:auth-delegator",
        )


class Caller(Protocol):
    """One authenticated caller. Each method may raise ReviewFailed."""

    @property
    def name(self) -> str:
        """The name of this caller in the access log and the limits; never the token."""

    def clusters_of(self, tenant: str) -> Collection[str] | None:
        """The clusters whose rows of a tenant the caller may see: None for all of them, and
        nothing where the caller may not see the tenant."""

    def is_provider(self) -> bool: ...

    def is_programme(self) -> bool: ...

    def tenants_among(self, tenants: Sequence[str]) -> list[str]:
        """Those of these tenants that the caller may see."""


class Authority(Protocol):
    """A way of authentication."""

    def caller(self, token: str) -> Caller | None:
        """The caller with this bearer token; None when it is not valid. May raise ReviewFailed."""

    def caller_of_session(self, subject: str) -> Caller | None:
        """The caller of a session; None when the session must end."""

    def session_subject(self, token: str) -> str:
        """The name of a caller in a session, which is not secret; "" where none can begin."""
