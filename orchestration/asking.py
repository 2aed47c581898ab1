"""Asking the sources: one attempt, and many of them, of two clusters at a time.

Put here: in which order windows are asked, what is asked at once, and how that ends.
Not here: which windows there are (`orchestration.ledger`), what one asks (`ingestion`).

While one cluster's answers are decoded and written, another's server works. Each cluster is asked
for one window at a time, in the order given, so that its chains are the same as without company.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from domain.decisions import Source
from domain.errors import LedgerError
from domain.interval import Interval
from orchestration.open_home import OpenHome

if TYPE_CHECKING:
    from ingestion.thanos.query_runner import PullMemory
    from warehouse.manifest import Attempt

Progress = Callable[[int, int, str], None]

CLUSTERS_AT_ONCE = 2
"""The answers and labels of so many are in memory, up to 300 MB each: a third one would wait for
the same processor, which decodes them. Behind one hub each has connections of its own, so that
the hub has twice as many of us as `ingestion.thanos.thanos_client` allows one cluster."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A window of one source that is to be asked, and in a word why."""

    cluster_id: str
    source: Source
    window: Interval
    words: str


def ask(
    opened: OpenHome,
    cluster_id: str,
    source: Source,
    window: Interval,
    memory: PullMemory | None = None,
) -> Attempt | None:
    """One attempt; None where this source of this cluster is not configured."""
    if source is Source.THANOS:
        from ingestion.thanos.pull import pull_hours

        how = opened.thanos_source(cluster_id, window.started_at)
        if how is None:
            return None
        memory = memory or opened.pull_memory(cluster_id)
        return pull_hours(
            how, window, opened.landing, opened.home.runs, opened.clock, memory=memory
        )
    from ingestion.kubernetes.journal_decoder import write_lifecycle
    from ingestion.kubernetes.pull import pull_hours as pull_journal

    spool = opened.spool(cluster_id)
    attempt = pull_journal(cluster_id, window, spool, opened.landing, opened.clock)
    write_lifecycle(opened.landing, opened.home.runs, attempt)
    return attempt


def ask_all(
    opened: OpenHome,
    todo: Sequence[Wanted],
    progress: Progress | None = None,
    errors: list[LedgerError] | None = None,
) -> list[Attempt]:
    """Ask for every window; the attempts in the order of the windows.

    An error ends the asking of its own cluster; the others are asked to the end. Whoever gives a
    list finds them there, in the order of the windows; for everybody else the first is raised.
    Whatever else goes wrong, and Ctrl-C, lets the windows end that are under way, and begins no
    other.
    """
    rounds = _Rounds(todo)
    with ThreadPoolExecutor(max_workers=CLUSTERS_AT_ONCE) as pool:
        while rounds.left or rounds.under_way:
            for number in rounds.next():
                one = todo[number]
                if progress:
                    progress(rounds.done_count, len(todo), one.words)
                memory = _memory_of(opened, one, rounds.busy)
                future = pool.submit(ask, opened, one.cluster_id, one.source, one.window, memory)
                rounds.under_way[future] = number
            try:
                rounds.take(wait(rounds.under_way, return_when=FIRST_COMPLETED).done)
            except KeyboardInterrupt:
                if progress:
                    progress(rounds.done_count, len(todo), "stopping when what is asked is landed")
                raise
    if progress:
        progress(len(todo), len(todo), "")
    found = [error for _, error in sorted(rounds.errors.items())]
    if errors is not None:
        errors += found
    elif found:
        raise found[0]
    return [attempt for _, attempt in sorted(rounds.attempts.items()) if attempt is not None]


@dataclass(slots=True)
class _Rounds:
    """What is left, what is under way, and what came of the rest; by number in `todo`."""

    todo: Sequence[Wanted]
    left: list[int] = field(init=False)
    under_way: dict[Future[Attempt | None], int] = field(default_factory=dict)
    attempts: dict[int, Attempt | None] = field(default_factory=dict)
    errors: dict[int, LedgerError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.left = list(range(len(self.todo)))

    @property
    def busy(self) -> set[str]:
        """The clusters that are being asked."""
        return {self.todo[number].cluster_id for number in self.under_way.values()}

    @property
    def done_count(self) -> int:
        return len(self.attempts) + len(self.errors)

    def next(self) -> Iterator[int]:
        """The first windows of clusters that nobody asks; each is under way before the next."""
        while len(self.under_way) < CLUSTERS_AT_ONCE:
            busy = self.busy
            number = next((n for n in self.left if self.todo[n].cluster_id not in busy), None)
            if number is None:
                return
            self.left.remove(number)
            yield number

    def take(self, done: set[Future[Attempt | None]]) -> None:
        for future in done:
            number = self.under_way.pop(future)
            try:
                self.attempts[number] = future.result()
            except LedgerError as error:
                self.errors[number] = error
                lost = self.todo[number].cluster_id
                self.left = [n for n in self.left if self.todo[n].cluster_id != lost]


def _memory_of(opened: OpenHome, one: Wanted, busy: set[str]) -> PullMemory | None:
    """Found here, where one thread looks; a journal needs none."""
    if one.source is not Source.THANOS:
        return None
    return opened.pull_memory(one.cluster_id, beside=busy)
