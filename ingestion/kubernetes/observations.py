"""The observations of a collector, as values.

Put here: one class per kind of observation. Not here: their effects (`journal_state`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingestion.kubernetes.projections import Projection

BEGINNINGS = ("start", "expired")
"""The reasons of a list from which a watch continues."""


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page of a list, processed when it arrives: a whole list could fill the memory."""

    resource: str
    at: datetime
    why: str
    documents: tuple[Mapping[str, Any], ...]
    version: int
    first: bool  # earlier pages belong to another list
    began_at: datetime  # of the request: the list may not show later changes

    @property
    def begins(self) -> bool:
        return self.why in BEGINNINGS


@dataclass(frozen=True, slots=True)
class Listed:
    """The end of a list, complete or not. Its documents are those that were in no page."""

    resource: str
    at: datetime
    began_at: datetime
    why: str  # start, hourly, expired, second_look
    documents: tuple[Mapping[str, Any], ...]
    version: int
    complete: bool = True
    reason: str = ""
    paged: bool = False  # its documents were in pages

    @property
    def begins(self) -> bool:
        """Whether a watch is to begin from this list."""
        return self.why in BEGINNINGS


@dataclass(frozen=True, slots=True)
class Event:
    """One change, from a watch."""

    resource: str
    at: datetime
    verb: str  # ADDED, MODIFIED, DELETED
    document: Mapping[str, Any]
    version: int
    byte_count: int = 0  # for the limit of the queue


@dataclass(frozen=True, slots=True)
class Bookmark:
    """All changes until this version were sent."""

    resource: str
    at: datetime
    version: int


@dataclass(frozen=True, slots=True)
class Broken:
    """A watch ended, or could not begin; it will be tried again."""

    resource: str
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class OwnerSeen:
    """An owner, looked up once, so that pods have their whole chain of owners."""

    resource: str
    at: datetime
    uid: str
    projection: Projection


@dataclass(frozen=True, slots=True)
class Access:
    """A review of the right of this collector to list and watch a resource."""

    resource: str
    at: datetime
    allowed: bool


Observation = ListedPage | Listed | Event | Bookmark | Broken | OwnerSeen | Access
