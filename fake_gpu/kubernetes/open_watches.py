"""Wakes every open watch when the clock advances, and waits until each has written to its client.

Put here: the meeting of the driving thread and the server's event loop.
Not here: the events of a watch (`watch`).
"""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import datetime

# A client that does not read must not stop the clock for ever; a loopback answer takes ~1 ms.
DELIVERY_SECONDS_LIMIT = 5.0


class OpenWatch:
    """One open watch: woken by `wake`, and done with the instant in `sent_until`."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.wake = asyncio.Event()
        self.sent_until = 0


class OpenWatches:
    """The open watches of one server. `on_step` is a listener of the clock."""

    def __init__(self) -> None:
        self.closed = False
        self._open_watches: set[OpenWatch] = set()
        self._changed = threading.Condition()

    def open(self) -> OpenWatch:
        open_watch = OpenWatch()
        with self._changed:
            self._open_watches.add(open_watch)
        return open_watch

    def close(self) -> None:
        """Every open watch ends, as when a real server is restarted; clients come again."""
        with self._changed:
            self.closed = True
            for open_watch in self._open_watches:
                open_watch.loop.call_soon_threadsafe(open_watch.wake.set)

    def leave(self, open_watch: OpenWatch) -> None:
        with self._changed:
            self._open_watches.discard(open_watch)
            self._changed.notify_all()

    def mark_sent(self, open_watch: OpenWatch, until: int) -> None:
        """This watch has sent everything up to a second."""
        with self._changed:
            open_watch.sent_until = until
            self._changed.notify_all()

    @property
    def open_count(self) -> int:
        with self._changed:
            return len(self._open_watches)

    def on_step(self, instant: datetime) -> None:
        """Wake all watches and return when each has sent its bookmark, or has gone."""
        second = int(instant.timestamp())
        deadline = time.monotonic() + DELIVERY_SECONDS_LIMIT
        with self._changed:
            open_watches = list(self._open_watches)
            for open_watch in open_watches:
                open_watch.loop.call_soon_threadsafe(open_watch.wake.set)
            if any(open_watch.loop is _running_loop() for open_watch in open_watches):
                return
            while any(s.sent_until < second for s in open_watches if s in self._open_watches):
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
