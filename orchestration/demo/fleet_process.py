"""The simulated fleet in a process of its own: collectors work on the other core.

Put here: starting it, driving its clock together with ours, ending it.
Not here: what it serves (`fake_gpu.serve`), or when the clock stops (`clockwork`).

Each process builds the same fleet from the same scenario, and has a clock. Ours goes first: what a
collector hears of an instant, it hears when that instant has come here too. The same fleet may be
served twice, watched in one process and asked in the other: whoever asks turns that one's clock to
the time in which it asks, so that no answer depends on how far the collectors are.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from domain.errors import LedgerError
from fake_gpu.clock import VirtualClock, driven
from orchestration.demo.fleet_clock import FleetGone

if TYPE_CHECKING:
    from fake_gpu.fleet.model import Fleet
    from fake_gpu.kubernetes.objects import ObjectHistory
    from fake_gpu.serve import Running

# Building the fleet takes a second; a machine that needs minutes is in trouble.
STARTING_SECONDS_LIMIT = 120.0
STEP_SECONDS_LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class Served:
    """A fleet that another process serves: where, and a way to drive it."""

    thanos_url: str
    control_url: str
    kubernetes_urls: dict[str, str]
    _line: Connection = field(repr=False)

    @property
    def clock_url(self) -> str:
        return f"{self.control_url}/-/clock"

    def advance_to(self, when: datetime, telling: Collection[str] | None = None) -> None:
        self._do(_advance, when, None if telling is None else tuple(telling))

    def take_counts_of(self, other: Served) -> None:
        """Know how often each fault touched an answer that the other one gave."""
        self._do(_fired_before, other._do(_fired))

    def _do(self, what: Callable[..., object], *arguments: object) -> Any:
        """Have it done there, to what is served; what came of it."""
        try:
            self._line.send((what, arguments))
        except OSError as cause:
            seen = f"its process is gone: {type(cause).__name__}"
            raise FleetGone(self.control_url, seen) from None
        return _hear(self._line, STEP_SECONDS_LIMIT, self.control_url)


@dataclass(slots=True)
class ServedApart:
    """A fleet that another process serves, and that this one lives through."""

    fleet: Fleet
    clock: VirtualClock
    histories: Mapping[str, ObjectHistory]
    served: Served

    @property
    def thanos_url(self) -> str:
        return self.served.thanos_url

    @property
    def kubernetes_urls(self) -> Mapping[str, str]:
        return self.served.kubernetes_urls

    def advance_to(self, when: datetime, telling: Collection[str] | None = None) -> None:
        """Drive both clocks; returns when every open watch was told (of these clusters)."""
        self.clock.advance_to(when)
        self.served.advance_to(when, telling)


Starting = Callable[[datetime], Served]


@contextmanager
def served_apart(scenario: str, fleet: Fleet, start: datetime) -> Iterator[ServedApart]:
    """Serve the scenario, of which `fleet` was built, until the block is left."""
    with serving(scenario) as from_then_on:
        yield lived_through(fleet, start, from_then_on)


def lived_through(fleet: Fleet, start: datetime, from_then_on: Starting) -> ServedApart:
    """What is served by the other process from a time on, driven together with a clock of ours."""
    from fake_gpu.faults.ledger import FaultLedger
    from fake_gpu.kubernetes.objects import ObjectHistory

    histories = {
        c.cluster_id: ObjectHistory(c, fleet.faults, FaultLedger()) for c in fleet.clusters
    }
    return ServedApart(fleet, driven(start), histories, from_then_on(start))


@contextmanager
def serving(scenario: str) -> Iterator[Starting]:
    """Have a process build the fleet; what is yielded waits until it answers, from a time on."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_serve, args=(scenario, theirs), name="fake-fleet", daemon=True
    )
    process.start()
    theirs.close()

    def from_then_on(start: datetime) -> Served:
        with suppress(OSError):  # of a process that is gone nothing will be heard
            ours.send(start)
        thanos_url, control_url, kubernetes_urls = _hear(ours, STARTING_SECONDS_LIMIT, scenario)
        return Served(thanos_url, control_url, kubernetes_urls, ours)

    try:
        yield from_then_on
    finally:
        ours.close()
        process.kill()  # it has nothing to keep, and would wait for whoever still watches
        process.join()


def _serve(scenario: str, line: Connection) -> None:
    """In the other process: serve, and do what we are told until nobody tells any more."""
    from fake_gpu.fleet.build import build_fleet
    from fake_gpu.scenario.load import load_scenario
    from fake_gpu.serve import serve, settle

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever drives
    # A watch that its collector has left is told so once for every object that it would have had.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    try:
        fleet = build_fleet(load_scenario(scenario))
        start = line.recv()
    except (LedgerError, EOFError, OSError):
        return  # whoever started this builds the same, and says what is wrong with it
    with serve(fleet, driven(start)) as running:
        settle()
        line.send((running.thanos_url, running.control_url, running.kubernetes_urls))
        while True:
            try:
                what, arguments = line.recv()
                line.send(what(running, *arguments))
            except (EOFError, OSError):
                return


def _advance(running: Running, when: datetime, telling: Collection[str] | None) -> None:
    running.advance_to(when, telling)


def _fired(running: Running) -> dict[str, int]:
    """How often each fault touched an answer or the fleet itself."""
    return running.ledger.counts()


def _fired_before(running: Running, counts: Mapping[str, int]) -> None:
    """What the fleet is built with was counted by both."""
    for fault_id, count in counts.items():
        running.ledger.fired_before(fault_id, count - running.fleet.fired.get(fault_id, 0))


def _hear(line: Connection, seconds: float, where: str) -> Any:
    """The next word of the other process."""
    try:
        if not line.poll(seconds):
            raise FleetGone(where, f"no word for {seconds:.0f} s")
        return line.recv()
    except (EOFError, OSError) as cause:
        raise FleetGone(where, f"its process is gone: {type(cause).__name__}") from None
