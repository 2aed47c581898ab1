"""A simulated fleet in a process of its own, so that it and the collectors use two processors.

Put here: starting it, driving its clock together with one of this process, ending it.
Not here: the servers (`fake_gpu.serve`), or the stops of the clock (`clock_driver`).

Both processes build the same fleet from the same scenario. The clock of this process goes first: a
collector receives an event only after the clock of this process shows its time.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from domain.errors import LedgerError
from fake_gpu.clock import VirtualClock, driven, epoch
from fake_gpu.faults.ledger import FaultLedger
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Fleet
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.scenario.load import load_scenario
from fake_gpu.serve import serve, settle
from orchestration.fleet_clock import SimulationStopped

# Building the fleet takes a second; a machine that needs minutes is in trouble.
STARTING_SECONDS_LIMIT = 120.0
STEP_SECONDS_LIMIT = 60.0

START_BEFORE = timedelta(minutes=10)
"""The collectors start before the first measured hour, as on a real cluster."""


@dataclass(frozen=True, slots=True)
class ServedFleet:
    """A fleet that another process serves, with a clock in this one."""

    fleet: Fleet
    clock: VirtualClock
    histories: Mapping[str, ObjectHistory]
    thanos_url: str
    control_url: str
    kubernetes_urls: Mapping[str, str]
    connection: Connection

    @property
    def clock_url(self) -> str:
        return f"{self.control_url}/-/clock"

    def advance_to(self, when: datetime, woken: Collection[str] | None = None) -> None:
        """Advance both clocks; returns when every open watch (of these clusters) is up to date."""
        self.clock.advance_to(when)
        try:
            self.connection.send((when, None if woken is None else tuple(woken)))
        except OSError as cause:
            raise _process_gone(cause) from None
        _receive(self.connection, STEP_SECONDS_LIMIT)


@contextmanager
def serve_in_own_process(scenario: str, start: datetime | None = None) -> Iterator[ServedFleet]:
    """Serve the scenario in another process until the block is left.

    The clock stands at `start`, or ten minutes before the fleet's first instant.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_serve, args=(scenario, theirs), name="simulated-fleet", daemon=True
    )
    process.start()
    theirs.close()
    try:
        fleet = build_fleet(load_scenario(scenario))
        start = start or epoch(fleet.started_at) - START_BEFORE
        with suppress(OSError):  # a process that is gone is reported by the next line
            ours.send(start)
        urls: tuple[str, str, dict[str, str]] = _receive(ours, STARTING_SECONDS_LIMIT)
        histories = {
            c.cluster_id: ObjectHistory(c, fleet.faults, FaultLedger()) for c in fleet.clusters
        }
        yield ServedFleet(fleet, driven(start), histories, *urls, ours)
    finally:
        ours.close()
        process.kill()  # it keeps nothing, and would wait for open watches
        process.join()


def _serve(scenario: str, connection: Connection) -> None:
    """In the other process: serve, and advance the clock until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    # asyncio logs a warning for each object of a watch that its client has left.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    try:
        fleet = build_fleet(load_scenario(scenario))
        start = connection.recv()
    except (LedgerError, EOFError, OSError):
        return  # the parent builds the same fleet, and reports the error
    with serve(fleet, driven(start)) as running:
        settle()
        connection.send((running.thanos_url, running.control_url, running.kubernetes_urls))
        while True:
            try:
                when, woken = connection.recv()
                running.advance_to(when, woken)
                connection.send(None)
            except (EOFError, OSError):
                return


def _receive(connection: Connection, seconds: float) -> Any:
    """The next message of the other process."""
    try:
        if connection.poll(seconds):
            return connection.recv()
    except (EOFError, OSError) as cause:
        raise _process_gone(cause) from None
    raise SimulationStopped("the process of the simulated fleet", f"no response in {seconds:.0f} s")


def _process_gone(cause: Exception) -> SimulationStopped:
    seen = f"its process is gone: {type(cause).__name__}"
    return SimulationStopped("the process of the simulated fleet", seen)
