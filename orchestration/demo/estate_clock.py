"""The clock of a fake estate, read over HTTP: Dagster's processes live in the estate's time.

Put here: asking what time it is.
Not here: the clock itself (`fake_gpu.clock`), or driving it (`orchestration.demo.clockwork`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

from domain.errors import CouldNotLook
from domain.interval import parse_instant

ANSWER_SECONDS = 30.0
NAP_SECONDS = 0.2


class EstateGone(CouldNotLook):
    """The fake estate whose time is meant does not answer."""

    code = "DEMO-003"

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(
            where=f"the clock of the fake estate at {url}",
            seen=cause,
            why="without it nobody knows which hours are over",
            remedy="start the estate again, or open the home in the machine's own time",
        )


@dataclass(frozen=True, slots=True)
class EstateClock:
    """Implements `domain.clock.Clock`."""

    url: str  # of the control endpoint's clock, …/-/clock

    def now(self) -> datetime:
        import httpx

        try:
            answer = httpx.get(self.url, timeout=ANSWER_SECONDS).raise_for_status()
        except httpx.HTTPError as cause:
            raise EstateGone(self.url, str(cause) or type(cause).__name__) from None
        return parse_instant(str(answer.json()["now"]))

    def wait_until(self, instant: datetime) -> None:
        while self.now() < instant:
            time.sleep(NAP_SECONDS)
