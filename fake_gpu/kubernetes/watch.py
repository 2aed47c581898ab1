"""The stream of one watch: existing objects, changes, bookmarks, and its end.

Put here: the events and their times. Not here: access (`server`), or the clock (`open_watches`).

In driven mode a bookmark follows every step of the clock, also when nothing changed: it shows the
watcher that all events until then were sent. Elsewhere bookmarks come once a minute, as from a real
server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from fake_gpu.kubernetes.answers import (
    ApiRefusal,
    bookmark,
    match_forbidden,
    too_large,
    too_old,
)
from fake_gpu.kubernetes.faults import chosen, drawn, forbids
from fake_gpu.kubernetes.lists import Params, whole_param
from fake_gpu.kubernetes.objects import Change
from fake_gpu.kubernetes.open_watches import OpenWatch, OpenWatches
from fake_gpu.kubernetes.resources import Resource
from fake_gpu.kubernetes.selectors import BadSelector, Test, matcher
from fake_gpu.kubernetes.texts import encoded
from fake_gpu.kubernetes.view import View

# The age of the events that a replaying watch sends again.
REPLAYED_SECONDS = 3600
BOOKMARK_SECONDS = 60  # virtual; a real server sends one about every minute
# The default duration of a watch (a real server: 30 to 60 minutes).
DEFAULT_TIMEOUT_SECONDS = 1800
# Real seconds between two looks at a clock that goes by itself.
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """The parameters of one client's watch."""

    resource: Resource
    namespace: str
    test: Test | None
    after: int  # resource version
    begins_with_state: bool
    marks_initial_end: bool
    bookmarks: bool
    opened_at: int
    until: int  # virtual second at which the server ends it

    @classmethod
    def of(cls, view: View, resource: Resource, namespace: str, params: Params) -> WatchRequest:
        at = view.second()
        after = whole_param(params, "resourceVersion")
        initial = params.get("sendInitialEvents", "").lower() in ("1", "true")
        bookmarks = params.get("allowWatchBookmarks", "").lower() in ("1", "true")
        if initial and params.get("resourceVersionMatch") != "NotOlderThan":
            why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise match_forbidden(why)
        try:
            test = matcher(params.get("fieldSelector", ""), params.get("labelSelector", ""))
        except BadSelector as cause:
            raise ApiRefusal(400, "BadRequest", str(cause)) from None
        return cls(
            resource=resource,
            namespace=namespace,
            test=test,
            after=after,
            begins_with_state=initial or after == 0,
            # From version 0 every watch is a streaming list, for those who take bookmarks.
            marks_initial_end=bookmarks and (initial or after == 0),
            bookmarks=bookmarks,
            opened_at=at,
            until=at + (whole_param(params, "timeoutSeconds") or DEFAULT_TIMEOUT_SECONDS),
        )


# The type of an event, and the JSON of its object.
WatchEvent = tuple[str, str]


class _Ended(Exception):
    """The stream ends here, after the remaining events."""

    def __init__(self, last_event: WatchEvent | None = None) -> None:
        super().__init__("the watch ended")
        self.last_event = last_event


class _WatchEvents:
    """The objects that one watcher knows, and its next events."""

    def __init__(self, view: View, wanted: WatchRequest) -> None:
        self.view = view
        self.wanted = wanted
        self.sent = wanted.after
        self.bookmarked_at = wanted.opened_at
        self.faults_from = wanted.opened_at  # a cut in the past does not cut a new watch

    def first_events(self) -> list[WatchEvent]:
        """The present state, if it was requested; or the refusal to continue from there."""
        at = self.view.second()
        version, wanted = self.view.version(at), self.wanted
        if not wanted.begins_with_state:
            oldest = self.view.oldest_version(at, wanted.resource.plural)
            fault = self.view.faults.active("watch_expired", at, wanted.resource.plural)
            if fault is not None and self.sent < version:
                self.view.faults.fire(fault, at, f"watch {wanted.resource.plural} resumed")
                oldest = version
            if self.sent < oldest:
                raise _Ended(_error(too_old(self.sent, oldest)))
            return []
        if wanted.after > version:
            raise _Ended(_error(too_large(wanted.after, version)))
        state = self.view.timeline(at).state(wanted.resource.kind, version)
        shown = [state[key] for key in sorted(state) if self._is_shown(state[key])]
        events = [("ADDED", self._text(change)) for change in shown]
        if wanted.marks_initial_end:
            events.append(_bookmark(wanted.resource, version, initial_end=True))
        self.sent = version
        return events

    def new_events(self, at: int, driven: bool) -> list[WatchEvent]:
        """The events since the last call, and a bookmark when one is due."""
        self._refuse_faults(at)
        version = self.view.version(at)
        timeline = self.view.timeline(at)
        kind = self.wanted.resource.kind
        events = self._replayed(at)
        for change in timeline.between(kind, self.sent, version):
            event = self._event(change)
            if event is not None:
                events += [event] * (2 if self._twice(at, change) else 1)
        # A watch from the future (the store was set back) is silent, as at a real server.
        due = driven or (at - self.bookmarked_at >= BOOKMARK_SECONDS and version >= self.sent)
        due = due and self.wanted.bookmarks
        missing = due and self.view.faults.active("bookmarks_missing", at)
        if missing:
            self.view.faults.fire(missing, at, f"watch {self.wanted.resource.plural}")
        elif due:
            events.append(_bookmark(self.wanted.resource, version))
            self.bookmarked_at = at
        self.sent = max(self.sent, version)
        return events

    def _text(self, change: Change) -> str:
        return self.view.texts.whole(self.wanted.resource, change)

    def _is_shown(self, change: Change) -> bool:
        wanted = self.wanted
        if wanted.namespace and change.namespace != wanted.namespace:
            return False
        return wanted.test is None or wanted.test(change.object)

    def _event(self, change: Change) -> WatchEvent | None:
        """A change as an event; into and out of the selector it is an addition or a deletion."""
        if self.wanted.namespace and change.namespace != self.wanted.namespace:
            return None
        test = self.wanted.test
        if test is None:
            return change.verb, self._text(change)
        state = self.view.timeline(change.at).state(
            self.wanted.resource.kind, change.resource_version - 1
        )
        before = state.get((change.namespace, change.name))
        was_in = before is not None and test(before.object)
        is_in = change.verb != "DELETED" and test(change.object)
        if is_in:
            return "MODIFIED" if was_in else "ADDED", self._text(change)
        if was_in and before is not None:
            # An object that leaves the selection is sent in its last state, with the number of the
            # change.
            return "DELETED", encoded(before.numbered(change.resource_version))
        return None

    # --- faults -------------------------------------------------------------------------------

    def _refuse_faults(self, at: int) -> None:
        """End the stream where a fault began since the last look."""
        faults, plural = self.view.faults, self.wanted.resource.plural
        for fault in faults.of_kind("watch_expired", plural):
            if self.faults_from < fault.from_at <= at:
                faults.fire(fault, at, f"watch {plural}")
                oldest = self.view.oldest_version(at, plural)
                raise _Ended(_error(too_old(self.sent, oldest)))
        cuts = [*faults.of_kind("watch_dropped", plural), *faults.of_kind("etcd_restored")]
        cuts += [
            f for f in faults.of_kind("rbac_lost", plural) if forbids(f, self.wanted.namespace)
        ]
        for fault in cuts:
            if self.faults_from < fault.from_at <= at:
                faults.fire(fault, at, f"watch {plural} cut")
                raise _Ended
        self.faults_from = at

    def _replayed(self, at: int) -> list[WatchEvent]:
        """Old versions sent once more, of deleted objects too, as some clients and caches do."""
        faults, kind = self.view.faults, self.wanted.resource.kind
        fault = faults.active("watch_replays", at)
        if fault is None:
            return []
        timeline = self.view.timeline(at)
        old = timeline.between(kind, timeline.version_at(at - REPLAYED_SECONDS), self.sent)
        uids = chosen(fault, {change.uid for change in old})
        events = [event for c in old if c.uid in uids and (event := self._event(c)) is not None]
        replayed = [("ADDED", text) for verb, text in events if verb != "DELETED"]
        if replayed:
            faults.fire(fault, at, f"{len(replayed)} old {kind} events")
        return replayed

    def _twice(self, at: int, change: Change) -> bool:
        fault = self.view.faults.active("events_twice", at)
        if fault is None or not drawn(fault, f"{change.uid} {change.resource_version}"):
            return False
        self.view.faults.fire(fault, at, f"{change.verb} {change.name}")
        return True


async def watch_stream(
    view: View, watches: OpenWatches, wanted: WatchRequest
) -> AsyncIterator[bytes]:
    """The chunks of one watch: one JSON document a line."""
    open_watch = watches.open()
    events = _WatchEvents(view, wanted)
    try:
        for event in events.first_events():
            yield _line(event)
        while not watches.closed:
            at = view.second()
            for event in events.new_events(at, view.clock.mode == "driven"):
                yield _line(event)
            watches.mark_sent(open_watch, at)
            if at >= wanted.until or watches.closed:
                return
            # A step may have been seen before its wake-up came: events are not sent twice.
            while view.second() == at and not watches.closed:
                await _next_step(view, open_watch)
    except _Ended as ended:
        if ended.last_event is not None:
            yield _line(ended.last_event)
    finally:
        watches.leave(open_watch)


async def _next_step(view: View, open_watch: OpenWatch) -> None:
    if view.clock.mode == "running":
        await asyncio.sleep(_POLL_SECONDS)
        return
    await open_watch.wake.wait()
    open_watch.wake.clear()  # set again by a change of the clock or the end of the hub


def _bookmark(resource: Resource, version: int, initial_end: bool = False) -> WatchEvent:
    return "BOOKMARK", encoded(bookmark(resource, version, initial_end))


def _error(refusal: ApiRefusal) -> WatchEvent:
    return "ERROR", encoded(refusal.status())


def _line(event: WatchEvent) -> bytes:
    return f'{{"type":"{event[0]}","object":{event[1]}}}\n'.encode()
