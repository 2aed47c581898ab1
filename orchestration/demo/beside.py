"""A process beside this one that runs steps of the line: a machine has more than one core.

Put here: starting it, giving it steps, waiting for them.
Not here: the steps (`orchestration.steps`), or what is told of them (`story`).

Its steps run one after the other, in the order in which they were given. The time in which each of
them happens is given with it, so that what it writes does not depend on how busy a machine is.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.decisions import Source
from domain.errors import CouldNotLook, LedgerError
from domain.interval import HOUR, Interval
from orchestration.open_home import OpenHome

Progress = Callable[[int, int, str], None]

# Idle it ends at once; a step that still runs is not waited for.
STOPPING_SECONDS_LIMIT = 2.0


class HelperGone(CouldNotLook):
    """The process that was given a step ended before the step did."""

    code = "DEMO-004"

    def __init__(self) -> None:
        super().__init__(
            where="the process beside the demo's",
            seen="it ended in the middle of a step; its last words are above",
            why="without that step nothing is counted, and nothing can be billed",
            remedy="run the demo again; a machine that ran out of memory ends such processes",
        )


@dataclass(slots=True)
class Beside:
    """The other process, as it is seen from here."""

    _line: Connection = field(repr=False)
    _given_count: int = 0

    def begin(self, step: Callable[..., object], *arguments: object) -> None:
        """Have a step run there; it is called with these arguments and a way to report."""
        try:
            self._line.send((step, arguments))
        except OSError:
            raise HelperGone from None
        self._given_count += 1

    def listen(self, report: Progress | None = None) -> None:
        """Hear what there is to hear, without waiting; raises what a step raised."""
        while self._given_count and self._line.poll():
            self._hear(report)

    def finish(self, report: Progress | None = None) -> None:
        """Wait until everything that was begun is done; raises what a step raised."""
        while self._given_count:
            self._hear(report)

    def _hear(self, report: Progress | None) -> None:
        try:
            kind, said = self._line.recv()
        except (EOFError, OSError):
            raise HelperGone from None
        if kind == "progress":
            if report:
                report(*said)
            return
        self._given_count -= 1
        if kind == "failed":
            raise said


@contextmanager
def beside() -> Iterator[Beside]:
    """A process that waits for steps until the block is left; a step that still runs is ended."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(theirs,), name="beside", daemon=True)
    process.start()
    theirs.close()
    try:
        yield Beside(ours)
    finally:
        ours.close()  # it ends when nobody is at the other end
        process.join(STOPPING_SECONDS_LIMIT)
        process.kill()


def get_ready(home: Path, now: datetime, report: Progress) -> None:
    """Read the dbt project: that needs no fact."""
    from warehouse.build import project_of

    del report
    project_of(OpenHome.at(home, StoppedClock(now)).home).parse()


def ask(
    home: Path,
    clock_urls: Sequence[str],
    source: Source,
    now: datetime,
    hours: Interval,
    span: Interval,
    report: Progress,
) -> None:
    """Ask one source for these hours, at that time; tells how much of the span is asked then.

    The fleets that are asked for samples have clocks, which go to that time first.
    """
    from orchestration import steps
    from orchestration.demo.fleet_clock import FleetClock

    if source is Source.THANOS:
        for url in clock_urls:
            FleetClock(url).advance_to(now)
    before, here, whole = (
        (end - start) // HOUR
        for start, end in (
            (span.started_at, hours.started_at),
            (hours.started_at, hours.ended_at),
            (span.started_at, span.ended_at),
        )
    )

    def told(done: int, total: int, what: str) -> None:
        report(before + here * done // max(total, 1), whole, what)

    opened = OpenHome.at(home, StoppedClock(now))
    steps.pull(opened, hours, sources=[source], progress=told)


def count(home: Path, now: datetime, period: BillingPeriod, report: Progress) -> None:
    from orchestration import steps

    steps.refresh(OpenHome.at(home, StoppedClock(now)), period, report, compacting=False)


def tidy_up(home: Path, now: datetime, report: Progress) -> None:
    """What a refresh does at its end; nobody waits for it."""
    from orchestration import steps

    del report
    steps.compact(OpenHome.at(home, StoppedClock(now)))


def _run(line: Connection) -> None:
    """In the other process: one step after the other, until nobody gives any."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever gives the steps
    with suppress(_NobodyThere):
        while True:
            step, arguments = _heard(line)
            _say(line, _outcome(step, arguments, line))


class _NobodyThere(BaseException):
    """Whoever gives the steps has gone; no step of ours may take it for an error of its own."""


def _heard(line: Connection) -> tuple[Callable[..., object], tuple[object, ...]]:
    try:
        step, arguments = line.recv()
    except (EOFError, OSError):
        raise _NobodyThere from None
    return step, arguments


def _say(line: Connection, word: tuple[str, object]) -> None:
    try:
        line.send(word)
    except OSError:
        raise _NobodyThere from None


def _outcome(
    step: Callable[..., object], arguments: tuple[object, ...], line: Connection
) -> tuple[str, object]:
    try:
        step(*arguments, lambda *word: _say(line, ("progress", word)))
    except (LedgerError, OSError) as error:
        return "failed", error
    return "done", None
