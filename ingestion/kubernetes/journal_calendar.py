"""The open hours of the journal, and when an hour may be closed.

Put here: the collector's calendar, as values. Not here: clocks, or writing (`collector`).

An hour is closed when every watch had an event or bookmark at or after its end, so that no event of
the hour can arrive later. After a short wait the hour is closed without a silent watch: the watched
intervals show the gap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from domain.interval import HOUR, format_instant, hour_of
from ingestion.kubernetes.journal_lines import Line
from ingestion.kubernetes.known_objects import KnownObjects

# Bookmarks arrive about once a minute; the wait for a silent watch ends after two minutes.
PATIENCE = timedelta(seconds=120)

# Hours before a longer absence are not closed.
CATCH_UP_LIMIT = timedelta(days=31)


@dataclass(slots=True)
class Calendar:
    """The hours that are not closed, and the hour of the last complete lists."""

    open_hours: list[datetime] = field(default_factory=list)
    listed_hour: datetime | None = None
    complete: dict[datetime, dict[str, bool]] = field(default_factory=dict)
    waiting_since: dict[datetime, datetime] = field(default_factory=dict)  # by edge

    def reach(self, at: datetime) -> None:
        """Open every hour until `at`."""
        hour = hour_of(at)
        if not self.open_hours or self.open_hours[0] < hour - CATCH_UP_LIMIT:
            self.open_hours = [hour if not self.open_hours else hour - CATCH_UP_LIMIT]
        while self.open_hours[-1] < hour:
            self.open_hours.append(self.open_hours[-1] + HOUR)

    def list_due(self, at: datetime, streams: Iterable[KnownObjects]) -> bool:
        """Whether the complete lists of the hour are due."""
        hour = hour_of(at)
        return self.listed_hour != hour and self._are_watches_current(streams, hour, at)

    def note_list(self, at: datetime, resource: str, complete: bool) -> None:
        """Note the end of a list; an hour has the resource if one of its lists was complete."""
        lists = self.complete.setdefault(hour_of(at), {})
        lists[resource] = lists.get(resource, False) or complete

    def closable(self, at: datetime, streams: Iterable[KnownObjects]) -> list[datetime]:
        """The hours that have ended and can be closed, oldest first."""
        watched = list(streams)
        ended = [hour for hour in self.open_hours if hour + HOUR <= at]
        return [hour for hour in ended if self._are_watches_current(watched, hour + HOUR, at)]

    def close(self, hour: datetime, at: datetime) -> Line:
        """The last line of an hour; its time is the last second of the hour."""
        self.open_hours.remove(hour)
        lists = self.complete.pop(hour, {})
        return {
            "line": "hour_closed",
            "at": format_instant(hour + HOUR - timedelta(seconds=1)),
            "closed_at": format_instant(at.replace(microsecond=0)),
            "hour": format_instant(hour),
            "lists": dict(sorted(lists.items())),
        }

    def _are_watches_current(
        self, streams: Iterable[KnownObjects], edge: datetime, at: datetime
    ) -> bool:
        """Whether every watch had an event or bookmark since `edge`, or the wait for it is over."""
        if all(s.live and s.heard_until is not None and s.heard_until >= edge for s in streams):
            return True
        self.waiting_since = {e: t for e, t in self.waiting_since.items() if e + HOUR >= edge}
        return at >= self.waiting_since.setdefault(edge, at) + PATIENCE
