"""The clock of a simulated fleet over HTTP: other processes live in the fleet's time, and drive it.

Put here: asking what time it is, and turning it on.
Not here: the clock itself (`fake_gpu.clock`), or where it stops (`orchestration.demo.clockwork`).
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import datetime
from functools import cache

import httpx

from domain.errors import CouldNotLook
from domain.interval import format_instant, parse_instant

ANSWER_SECONDS = 30.0
NAP_SECONDS = 0.2


class FleetGone(CouldNotLook):
    """The simulated fleet whose time is meant does not answer."""

    code = "DEMO-003"

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(
            where=f"the clock of the simulated fleet at {url}",
            seen=cause,
            why="without it nobody knows which hours are over",
            remedy="start the fleet again, or open the home in the machine's own time",
        )


@cache
def _client(process_id: int) -> httpx.Client:
    """The client of this process: a collector reads the clock for every line that it writes.

    A client of its own for each reading, with its TLS context, costs 19 ms of processor time. A
    forked process must not share its parent's connections.
    """
    return httpx.Client(timeout=ANSWER_SECONDS)


@dataclass(frozen=True, slots=True)
class FleetClock:
    """Implements `domain.clock.Clock`."""

    url: str  # of the control endpoint's clock, …/-/clock

    def now(self) -> datetime:
        return self._asked("GET")

    def advance_to(self, instant: datetime) -> datetime:
        """Turn it on; returns when every watch was told what happened meanwhile."""
        return self._asked("POST", {"advance_to": format_instant(instant)})

    def _asked(self, method: str, body: dict[str, str] | None = None) -> datetime:
        try:
            answer = _client(os.getpid()).request(method, self.url, json=body)
            answer.raise_for_status()
        except httpx.HTTPError as cause:
            raise FleetGone(self.url, str(cause) or type(cause).__name__) from None
        return parse_instant(str(answer.json()["now"]))

    def wait_until(self, instant: datetime) -> None:
        while self.now() < instant:
            time.sleep(NAP_SECONDS)
