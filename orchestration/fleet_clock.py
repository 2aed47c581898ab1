"""The clock of a simulated fleet over HTTP, for processes that work in the fleet's time.

Put here: reading the time, and advancing it.
Not here: the clock itself (`fake_gpu.clock`), or its stops (`orchestration.demo.clock_driver`).
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import datetime
from functools import cache

import httpx

from domain.errors import TemporarilyUnavailable
from domain.interval import format_instant, parse_instant

RESPONSE_SECONDS = 30.0
POLL_SECONDS = 0.2


class SimulationStopped(TemporarilyUnavailable):
    """A part of a simulated month stopped: the fleet, its clock, or a collector."""

    code = "LOG-001"

    def __init__(self, where: str, seen: str) -> None:
        super().__init__(
            where=where,
            seen=seen,
            why="without it the simulated time does not pass, and hours would have gaps",
            remedy="start the demo or the simulated fleet again; to open the home in real time, "
            "unset GPU_LEDGER_NOW",
        )


@cache
def _client(process_id: int) -> httpx.Client:
    """The client of this process; a forked process must not share its parent's connections.

    A collector reads the clock for every line that it writes: a client for each reading, with its
    TLS context, costs 19 ms of processor time.
    """
    return httpx.Client(timeout=RESPONSE_SECONDS)


@dataclass(frozen=True, slots=True)
class FleetClock:
    """Implements `domain.clock.Clock`."""

    url: str  # of the control endpoint's clock, …/-/clock

    def now(self) -> datetime:
        return self._request("GET")

    def advance_to(self, instant: datetime) -> datetime:
        """Advance the clock; returns when every watch has received the events until then."""
        return self._request("POST", {"advance_to": format_instant(instant)})

    def _request(self, method: str, body: dict[str, str] | None = None) -> datetime:
        try:
            response = _client(os.getpid()).request(method, self.url, json=body)
            response.raise_for_status()
        except httpx.HTTPError as cause:
            where = f"the clock of the simulated fleet at {self.url}"
            raise SimulationStopped(where, str(cause) or type(cause).__name__) from None
        return parse_instant(str(response.json()["now"]))

    def wait_until(self, instant: datetime) -> None:
        while self.now() < instant:
            time.sleep(POLL_SECONDS)
