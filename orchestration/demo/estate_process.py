"""The fake estate in a process of its own: it answers on one core, collectors work on the other.

Put here: starting it, driving its clock together with ours, ending it.
Not here: what it serves (`fake_gpu.serve`), or when the clock stops (`clockwork`).

Both processes build the same estate from the same scenario, and both have a clock. Ours goes first:
what a collector hears of an instant, it hears when that instant has come here too.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from fake_gpu.clock import VirtualClock, driven
from orchestration.demo.estate_clock import EstateGone

if TYPE_CHECKING:
    from fake_gpu.estate.model import Estate
    from fake_gpu.kubernetes.objects import ObjectHistory

# Building the estate takes a second; a machine that needs minutes is in trouble.
STARTING_SECONDS_LIMIT = 120.0
STEP_SECONDS_LIMIT = 60.0
STOPPING_SECONDS_LIMIT = 10.0


@dataclass(slots=True)
class ServedApart:
    """An estate that another process serves, and that this one drives."""

    estate: Estate
    clock: VirtualClock
    histories: Mapping[str, ObjectHistory]
    thanos_url: str
    control_url: str
    kubernetes_urls: dict[str, str]
    _line: Connection = field(repr=False)

    def advance_to(self, when: datetime, telling: Collection[str] | None = None) -> None:
        """Drive both clocks; returns when every open watch was told (of these clusters)."""
        self.clock.advance_to(when)
        _say(self._line, (when, None if telling is None else tuple(telling)), self.control_url)
        _hear(self._line, STEP_SECONDS_LIMIT, self.control_url)


@contextmanager
def served_apart(scenario: str, estate: Estate, start: datetime) -> Iterator[ServedApart]:
    """Serve the scenario, of which `estate` was built, until the block is left."""
    from fake_gpu.faults.ledger import FaultLedger
    from fake_gpu.kubernetes.objects import ObjectHistory

    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_serve, args=(scenario, start, theirs), name="fake-estate", daemon=True
    )
    process.start()
    theirs.close()
    histories = {
        c.cluster_id: ObjectHistory(c, estate.faults, FaultLedger()) for c in estate.clusters
    }
    try:
        urls = _hear(ours, STARTING_SECONDS_LIMIT, scenario)
        yield ServedApart(estate, driven(start), histories, *urls, ours)
    finally:
        ours.close()  # it ends when nobody is at the other end
        process.join(STOPPING_SECONDS_LIMIT)
        process.kill()


def _serve(scenario: str, start: datetime, line: Connection) -> None:
    """In the other process: serve, and go where we are told until nobody tells any more."""
    from fake_gpu.estate.build import build_estate
    from fake_gpu.scenario.load import load_scenario
    from fake_gpu.serve import serve, settle

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever drives
    # A watch that its collector has left is told so once for every object that it would have had.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    estate = build_estate(load_scenario(scenario))
    with serve(estate, driven(start)) as running:
        settle()
        line.send((running.thanos_url, running.control_url, running.kubernetes_urls))
        while True:
            try:
                when, telling = line.recv()
                running.advance_to(when, telling)
                line.send(True)
            except (EOFError, OSError):
                return


def _say(line: Connection, message: object, where: str) -> None:
    try:
        line.send(message)
    except OSError as cause:
        raise EstateGone(where, f"its process is gone: {type(cause).__name__}") from None


def _hear(line: Connection, seconds: float, where: str) -> tuple[str, str, dict[str, str]]:
    """The next word of the other process."""
    try:
        if not line.poll(seconds):
            raise EstateGone(where, f"no word for {seconds:.0f} s")
        word: tuple[str, str, dict[str, str]] = line.recv()
    except (EOFError, OSError) as cause:
        raise EstateGone(where, f"its process is gone: {type(cause).__name__}") from None
    return word
