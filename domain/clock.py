"""The clock as an argument: counting never reads the time of the machine.

Put here: the protocol of a clock, and from when an hour can be queried.
Not here: the virtual clock of the simulated fleet, which is one (`fake_gpu.clock`).
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from domain.interval import hour_of

READY_AFTER = timedelta(minutes=11)
"""Two rounds of ACM's collector (300 s each) and a minute; earlier, samples may be missing."""


class Clock(Protocol):
    """Returns the time and waits; a driven clock returns when it reaches the instant."""

    def now(self) -> datetime: ...

    def wait_until(self, instant: datetime) -> None: ...


class SystemClock:
    """The machine's clock, in UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def wait_until(self, instant: datetime) -> None:
        while (left := (instant - self.now()).total_seconds()) > 0:
            time.sleep(min(left, 60.0))


def ready_until(now: datetime) -> datetime:
    """The end of the last hour that can have been queried by now."""
    return hour_of(now - READY_AFTER)


class StoppedClock:
    """A clock that stands at one instant; for tests and for repeating a past run."""

    def __init__(self, instant: datetime) -> None:
        self.instant = instant

    def now(self) -> datetime:
        return self.instant

    def wait_until(self, instant: datetime) -> None:
        self.instant = max(self.instant, instant)
