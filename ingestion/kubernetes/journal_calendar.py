"""Which hours of the journal are still open, and when one of them may be closed.

Put here: the collector's calendar, as values. Not here: clocks, or writing (`collector`).

An hour is closed when every watch was heard at or after its end, so that no event of it can still
arrive. A silent watch is waited for a little, and then the hour is closed without it: the intervals
that were watched show the gap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from domain.interval import HOUR, format_instant, hour_of
from ingestion.kubernetes.journal_lines import Line
from ingestion.kubernetes.known_objects import KnownObjects

# Bookmarks come about once a minute; a watch that is silent for two is waited for no longer.
PATIENCE = timedelta(seconds=120)

# Hours before a longer absence are not looked at.
CATCH_UP_LIMIT = timedelta(days=31)


@dataclass(slots=True)
class Calendar:
    """The hours that are not closed yet, and the one whose lists are still to be made."""

    open_hours: list[datetime] = field(default_factory=list)
    listed_hour: datetime | None = None
    complete: dict[datetime, dict[str, bool]] = field(default_factory=dict)
    waiting_since: dict[datetime, datetime] = field(default_factory=dict)  # by edge

    def reach(self, at: datetime) -> None:
        """Time has come to `at`: open every hour until then."""
        hour = hour_of(at)
        if not self.open_hours or self.open_hours[0] < hour - CATCH_UP_LIMIT:
            self.open_hours = [hour if not self.open_hours else hour - CATCH_UP_LIMIT]
        while self.open_hours[-1] < hour:
            self.open_hours.append(self.open_hours[-1] + HOUR)

    def list_due(self, at: datetime, streams: Iterable[KnownObjects]) -> bool:
        """Whether the hour's complete lists are to be made now."""
        hour = hour_of(at)
        return self.listed_hour != hour and self._are_watches_current(streams, hour, at)

    def note_list(self, at: datetime, resource: str, complete: bool) -> None:
        """A list of a resource came to its end; the hour has it if one of its lists was whole."""
        lists = self.complete.setdefault(hour_of(at), {})
        lists[resource] = lists.get(resource, False) or complete

    def closable(self, at: datetime, streams: Iterable[KnownObjects]) -> list[datetime]:
        """The hours that have ended and can be closed, oldest first."""
        watched = list(streams)
        ended = [hour for hour in self.open_hours if hour + HOUR <= at]
        return [hour for hour in ended if self._are_watches_current(watched, hour + HOUR, at)]

    def close(self, hour: datetime, at: datetime) -> Line:
        """The last line of an hour. Its own time is the hour's last second: it belongs there."""
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
        """Whether every watch was heard at or after `edge`, or was waited for long enough."""
        if all(s.live and s.heard_until is not None and s.heard_until >= edge for s in streams):
            return True
        self.waiting_since = {e: t for e, t in self.waiting_since.items() if e + HOUR >= edge}
        return at >= self.waiting_since.setdefault(edge, at) + PATIENCE
