"""The clock of the simulated clusters: fixed, running at a speed, or driven by requests.

Put here: the virtual time, and waits for an instant.
Not here: the events of an instant (`fleet`), or the HTTP endpoint that drives it (`serve`).

A driven clock stands still until `advance_to`. Servers of the fleet register a listener, which is
called with every new instant *before* the waiters wake: when `advance_to` returns, every watch has
received its events.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Literal

from domain.errors import WrongUse
from domain.interval import format_instant, require_instant

Mode = Literal["fixed", "driven", "running"]
Listener = Callable[[datetime], None]

# With ten thousand virtual seconds per second, a month takes less than five minutes. With a higher
# speed, milliseconds of the machine's clock would become minutes of the fleet.
MAXIMUM_SPEED = 10_000.0

# Longest wait, in real seconds, until a waiter of a running clock reads it again: a closed clock
# ends all waits within this time.
LONGEST_WAIT_SECONDS = 0.5


class SimulatedPastIsFixed(WrongUse):
    """A request would change simulated time that was already served, or move a clock that is
    not driven."""

    code = "FAKE-001"


class VirtualClock:
    """Implements `domain.clock.Clock`; it can be used by several threads."""

    def __init__(
        self,
        start: datetime,
        mode: Mode = "driven",
        speed: float = 1.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0 < speed <= MAXIMUM_SPEED:
            raise SimulatedPastIsFixed(
                where="the clock of the simulated fleet",
                seen=f"speed {speed:g} is not above 0 and at most {MAXIMUM_SPEED:g}",
                why="simulated time must advance, and listeners must be able to follow it",
                remedy="give --speed between 0.001 and 10000, or use --driven",
            )
        self.mode: Mode = mode
        self.speed = speed
        self._monotonic = monotonic
        self._origin = require_instant(start, "the start of the clock")
        self._began = monotonic()
        self._notified = self._origin  # the latest instant of which all listeners were notified
        self._changed = threading.Condition()
        self._advancing = threading.Lock()
        self._listeners: list[Listener] = []
        self._closed = False

    def now(self) -> datetime:
        """The virtual time, in whole seconds."""
        if self.mode == "running":
            passed = (self._monotonic() - self._began) * self.speed
            return self._origin + timedelta(seconds=int(passed))
        return self._origin

    def now_seconds(self) -> int:
        """The virtual time in seconds since the epoch, as the model writes times."""
        return int(self.now().timestamp())

    def add_listener(self, listener: Listener) -> None:
        """Call `listener` with every instant that a driven clock is advanced to."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    def advance_to(self, instant: datetime) -> datetime:
        """Move a driven clock forward; returns when every listener has been called."""
        target = require_instant(instant, "advance_to")
        with self._advancing:
            self._require_possible(target)
            with self._changed:
                self._origin = target
            for listener in list(self._listeners):
                listener(target)
            with self._changed:
                self._notified = target
                self._changed.notify_all()
        return target

    def advance(self, seconds: int) -> datetime:
        return self.advance_to(self.now() + timedelta(seconds=seconds))

    def wait_until(self, instant: datetime) -> None:
        """Return when it is `instant` or later, or when the clock is closed."""
        with self._changed:
            while not self._closed and (left := self._seconds_until(instant)) > 0:
                if self.mode == "running":
                    self._changed.wait(min(left / self.speed, LONGEST_WAIT_SECONDS))
                else:
                    self._changed.wait()

    def _seconds_until(self, instant: datetime) -> float:
        """A driven clock reaches an instant when all listeners were notified of it."""
        reached = self.now() if self.mode == "running" else self._notified
        return (instant - reached).total_seconds()

    def close(self) -> None:
        """End all waits permanently."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _require_possible(self, target: datetime) -> None:
        if self.mode != "driven":
            raise SimulatedPastIsFixed(
                where="the clock of the simulated fleet",
                seen=f"it is {self.mode}, and the requested time is {format_instant(target)}",
                why="only a driven clock can be set",
                remedy="start the fleet with `gpu-ledger fake serve SCENARIO --driven`",
            )
        if target < self._origin:
            raise SimulatedPastIsFixed(
                where="the clock of the simulated fleet",
                seen=f"it is {format_instant(self._origin)}, and the requested time is the earlier "
                f"{format_instant(target)}",
                why="events that watches received cannot be withdrawn",
                remedy="start the fleet again at the earlier time",
            )


def fixed(instant: datetime) -> VirtualClock:
    """A clock that does not advance."""
    return VirtualClock(instant, "fixed")


def driven(start: datetime) -> VirtualClock:
    """A clock that advances on request."""
    return VirtualClock(start, "driven")


def running(start: datetime, speed: float = 1.0) -> VirtualClock:
    """A clock that advances by `speed` virtual seconds per second."""
    return VirtualClock(start, "running", speed)


def epoch(second: int) -> datetime:
    """The instant of a second of the model."""
    return datetime.fromtimestamp(second, UTC)
