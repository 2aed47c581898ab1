"""What assets are given: the home, opened anew by every run.

Put here: resources, and where their configuration comes from.
Not here: work.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import dagster as dg

from domain.errors import LedgerError, WrongUse
from orchestration.open_home import CLOCK_VARIABLE, OpenHome, clock_of

HOME_VARIABLE = "GPU_LEDGER_HOME"


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


@dataclass(frozen=True, slots=True)
class LedgerHome:
    """The home of the ledger, and the time that holds in it.

    A plain value: as a configurable resource, every launch would offer another home to be typed in.
    """

    path: str
    now: str = (
        ""  # empty: the machine's; else a fixed time, or where a simulated fleet tells its own
    )

    def open(self) -> OpenHome:
        return OpenHome.at(Path(self.path), clock_of(self.now))


GivenHome = dg.ResourceParam[LedgerHome]
"""What assets, ops, sensors and schedules call the home that they are given."""


def home_from_environment() -> LedgerHome:
    path = os.environ.get(HOME_VARIABLE, "")
    if not path:
        raise NoHomeNamed
    return LedgerHome(path=path, now=os.environ.get(CLOCK_VARIABLE, ""))


def started_at(opened: OpenHome) -> datetime:
    """The first instant at which any cluster is measured."""
    return min(row.valid_from for row in opened.decisions.clusters)


WAREHOUSE_TRIES = 5
WAREHOUSE_WAIT_SECONDS = 60.0
"""A command that a person runs beside Dagster holds the warehouse for minutes at most."""


@contextmanager
def failing_in_words() -> Iterator[None]:
    """Our errors fail a run with their four parts; a locked warehouse is tried again."""
    from warehouse.connection import WarehouseInUse

    try:
        yield
    except WarehouseInUse as busy:
        raise dg.RetryRequested(WAREHOUSE_TRIES, WAREHOUSE_WAIT_SECONDS) from busy
    except LedgerError as error:
        raise dg.Failure(
            description=error.message(),
            metadata={
                "code": error.code,
                "where": error.where,
                "what to run next": dg.MetadataValue.md(error.remedy),
            },
            allow_retries=False,
        ) from error
