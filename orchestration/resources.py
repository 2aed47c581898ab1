"""What assets are given: the home, opened anew by every run.

Put here: resources, and where their configuration comes from.
Not here: work.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import dagster as dg

from domain.clock import Clock, StoppedClock, SystemClock
from domain.errors import WrongUse
from domain.interval import parse_instant
from orchestration.open_home import OpenHome

HOME_VARIABLE = "GPU_LEDGER_HOME"
CLOCK_VARIABLE = "GPU_LEDGER_NOW"


class NoHomeNamed(WrongUse):
    """Dagster was started without saying which ledger it is for."""

    code = "HOME-010"

    def __init__(self) -> None:
        super().__init__(
            where=f"the environment variable {HOME_VARIABLE}",
            seen="it is not set",
            why="Dagster must know whose hours and periods it shows",
            remedy=f"start it as `gpu-ledger up --home FOLDER`, or set {HOME_VARIABLE}",
        )


class LedgerHome(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The home of the ledger, and the time that holds in it."""

    path: str
    now: str = ""  # a fixed time, for a demo's past month; the machine's clock when empty

    def open(self) -> OpenHome:
        return OpenHome.at(Path(self.path), self._clock())

    def _clock(self) -> Clock:
        return StoppedClock(parse_instant(self.now)) if self.now else SystemClock()


def home_from_environment() -> LedgerHome:
    path = os.environ.get(HOME_VARIABLE, "")
    if not path:
        raise NoHomeNamed
    return LedgerHome(path=path, now=os.environ.get(CLOCK_VARIABLE, ""))


def started_at(opened: OpenHome) -> datetime:
    """The first instant at which any cluster is measured."""
    return min(row.valid_from for row in opened.decisions.clusters)
