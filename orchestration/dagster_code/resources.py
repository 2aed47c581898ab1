"""The resource of all assets: the home, opened again by every run.

Put here: resources, their configuration, and how an error of ours fails a run.
Not here: the steps of a run (`orchestration.steps`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from domain.errors import LedgerError, WrongFolder
from orchestration.open_home import CLOCK_VARIABLE, OpenHome, clock_of
from warehouse.connection import WarehouseInUse

HOME_VARIABLE = "GPU_LEDGER_HOME"


@dataclass(frozen=True, slots=True)
class LedgerHome:
    """The home of the ledger, and its clock.

    Not a configurable resource: in the launchpad, a user could choose another home.
    """

    path: str
    now: str = ""  # empty: the machine's clock; else as GPU_LEDGER_NOW

    def open(self) -> OpenHome:
        return OpenHome.at(Path(self.path), clock_of(self.now))


HomeParameter = dg.ResourceParam[LedgerHome]
"""The type of the parameter by which assets, ops, sensors and schedules receive the home."""


def home_from_environment() -> LedgerHome:
    path = os.environ.get(HOME_VARIABLE, "")
    if not path:
        raise WrongFolder(
            where=f"the environment variable {HOME_VARIABLE}",
            seen="it is not set",
            why="it names the home whose hours and periods Dagster shows",
            remedy=f"start it as `gpu-ledger up --home FOLDER`, or set {HOME_VARIABLE}",
        )
    return LedgerHome(path=path, now=os.environ.get(CLOCK_VARIABLE, ""))


WAREHOUSE_TRIES = 5
WAREHOUSE_WAIT_SECONDS = 60.0
"""A run waits this often and this long: a command uses the warehouse for minutes at most."""


@contextmanager
def report_errors() -> Iterator[None]:
    """Fail the run with the four parts of an error; if the warehouse is locked, retry later."""
    try:
        yield
    except WarehouseInUse as error:
        raise dg.RetryRequested(WAREHOUSE_TRIES, WAREHOUSE_WAIT_SECONDS) from error
    except LedgerError as error:
        raise dg.Failure(
            description=error.message(),
            metadata={
                "code": error.code,
                "where": error.where,
                "next command": dg.MetadataValue.md(error.remedy),
            },
            allow_retries=False,
        ) from error
