"""The fake estate in a process of its own: it answers on one core, collectors work on the other.

Put here: starting it, driving its clock together with ours, ending it.
Not here: what it serves (`fake_gpu.serve`), or when the clock stops (`clockwork`).

Each process builds the same estate from the same scenario, and has a clock. Ours goes first: what a
collector hears of an instant, it hears when that instant has come here too. The same estate may be
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
from orchestration.demo.estate_clock import EstateGone

if TYPE_CHECKING:
    from fake_gpu.estate.model import Estate
    from fake_gpu.kubernetes.objects import ObjectHistory
    from fake_gpu.serve import Running

# Building the estate takes a second; a machine that needs minutes is in trouble.
STARTING_SECONDS_LIMIT = 120.0
STEP_SECONDS_LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class Served:
    """An estate that another process serves: where, and a way to drive it."""

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
            raise EstateGone(self.control_url, seen) from None
        return _hear(self._line, STEP_SECONDS_LIMIT, self.control_url)


@dataclass(slots=True)
class ServedApart:
    """An estate that another process serves, and that this one lives through."""

    estate: Estate
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
def served_apart(scenario: str, estate: Estate, start: datetime) -> Iterator[ServedApart]:
    """Serve the scenario, of which `estate` was built, until the block is left."""
    with serving(scenario) as from_then_on:
        yield lived_through(estate, start, from_then_on)


def lived_through(estate: Estate, start: datetime, from_then_on: Starting) -> ServedApart:
    """What is served by the other process from a time on, driven together with a clock of ours."""
    from fake_gpu.faults.ledger import FaultLedger
    from fake_gpu.kubernetes.objects import ObjectHistory

    histories = {
        c.cluster_id: ObjectHistory(c, estate.faults, FaultLedger()) for c in estate.clusters
    }
    return ServedApart(estate, driven(start), histories, from_then_on(start))


@contextmanager
def serving(scenario: str) -> Iterator[Starting]:
    """Have a process build the estate; what is yielded waits until it answers, from a time on."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_serve, args=(scenario, theirs), name="fake-estate", daemon=True
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
    from fake_gpu.estate.build import build_estate
    from fake_gpu.scenario.load import load_scenario
    from fake_gpu.serve import serve, settle

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever drives
    # A watch that its collector has left is told so once for every object that it would have had.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    try:
        estate = build_estate(load_scenario(scenario))
        start = line.recv()
    except (LedgerError, EOFError, OSError):
        return  # whoever started this builds the same, and says what is wrong with it
    with serve(estate, driven(start)) as running:
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
    """How often each fault touched an answer or the estate itself."""
    return running.ledger.counts()


def _fired_before(running: Running, counts: Mapping[str, int]) -> None:
    """What the estate is built with was counted by both."""
    for fault_id, count in counts.items():
        running.ledger.fired_before(fault_id, count - running.estate.fired.get(fault_id, 0))


def _hear(line: Connection, seconds: float, where: str) -> Any:
    """The next word of the other process."""
    try:
        if not line.poll(seconds):
            raise EstateGone(where, f"no word for {seconds:.0f} s")
        return line.recv()
    except (EOFError, OSError) as cause:
        raise EstateGone(where, f"its process is gone: {type(cause).__name__}") from None
