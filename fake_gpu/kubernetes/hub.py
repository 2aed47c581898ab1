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
    """One open watch: woken by `wake`, and done with the instant in `told_until`."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.wake = asyncio.Event()
        self.told_until = 0


class StepHub:
    """The open watches of one server. `on_step` is a listener of the clock."""

    def __init__(self) -> None:
        self.closed = False
        self._seats: set[OpenWatch] = set()
        self._told = threading.Condition()

    def take_seat(self) -> OpenWatch:
        seat = OpenWatch()
        with self._told:
            self._seats.add(seat)
        return seat

    def close(self) -> None:
        """Every open watch ends, as when a real server is restarted; clients come again."""
        with self._told:
            self.closed = True
            for seat in self._seats:
                seat.loop.call_soon_threadsafe(seat.wake.set)

    def leave(self, seat: OpenWatch) -> None:
        with self._told:
            self._seats.discard(seat)
            self._told.notify_all()

    def told(self, seat: OpenWatch, until: int) -> None:
        """This watch has sent everything up to a second."""
        with self._told:
            seat.told_until = until
            self._told.notify_all()

    @property
    def open_count(self) -> int:
        with self._told:
            return len(self._seats)

    def on_step(self, instant: datetime) -> None:
        """Wake all watches and return when each has sent its bookmark, or has gone."""
        second = int(instant.timestamp())
        deadline = time.monotonic() + DELIVERY_SECONDS_LIMIT
        with self._told:
            seats = list(self._seats)
            for seat in seats:
                seat.loop.call_soon_threadsafe(seat.wake.set)
            if any(seat.loop is _running_loop() for seat in seats):
                return
            while any(s.told_until < second for s in seats if s in self._seats):
                left = deadline - time.monotonic()
                if left <= 0 or not self._told.wait(left):
                    return


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
