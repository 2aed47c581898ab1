"""Pulls windows of hours: one attempt each, of two clusters at a time.

Put here: the order of attempts, and the end of a pull after an error.
Not here: the choice of windows (`orchestration.open_hours`), or one attempt (`ingestion`).

While responses of one cluster are decoded and written, the server of another works. The windows of
one cluster are pulled one after another in the order given, so that its chains of manifests do not
depend on the other clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from domain.decisions import Source
from domain.errors import LedgerError
from domain.interval import Interval
from ingestion.kubernetes.journal_decoder import write_lifecycle
from ingestion.kubernetes.pull import pull_hours as pull_journal
from ingestion.thanos.pull import pull_hours as pull_samples
from ingestion.thanos.query_runner import PullMemory
from orchestration.open_home import OpenHome
from warehouse.manifest import Attempt

Progress = Callable[[int, int, str], None]

CLUSTERS_AT_ONCE = 2
"""Responses and labels of two clusters are in memory, up to 300 MB each. A third one would wait for
the same processor. Each cluster has connections of its own, so a hub behind two clusters has twice
the connections that `ingestion.thanos.attempt_client` permits for one."""


@dataclass(frozen=True, slots=True)
class PullWindow:
    """A window of one source of one cluster, and its label in progress reports."""

    cluster_id: str
    source: Source
    window: Interval
    label: str


def pull_window(
    opened: OpenHome,
    cluster_id: str,
    source: Source,
    window: Interval,
    memory: PullMemory | None = None,
) -> Attempt | None:
    """Make one attempt; returns None where the source of this cluster is not configured.

    `memory` has the decoded labels of earlier attempts; it saves time and changes no result.
    """
    if source is Source.THANOS:
        settings = opened.thanos_source(cluster_id, window.started_at)
        if settings is None:
            return None
        return pull_samples(
            settings, window, opened.landing, opened.home.runs, opened.clock, memory=memory
        )
    spool = opened.spool(cluster_id)
    attempt = pull_journal(cluster_id, window, spool, opened.landing, opened.clock)
    write_lifecycle(opened.landing, opened.home.runs, attempt)
    return attempt


def pull_windows(
    opened: OpenHome,
    windows: Sequence[PullWindow],
    progress: Progress | None = None,
    errors: list[LedgerError] | None = None,
) -> list[Attempt]:
    """Pull every window; returns the attempts in the order of the windows.

    A `LedgerError` ends the pull of its own cluster; the other clusters are pulled to the end.
    `errors` collects such errors in the order of the windows; without it the first one is raised.
    After any other exception, and after Ctrl-C, the attempts in progress are completed and no
    other one begins.
    """
    waiting = dict.fromkeys(windows)
    running: dict[Future[Attempt | None], PullWindow] = {}
    attempts: dict[PullWindow, Attempt | None] = {}
    failed: dict[PullWindow, LedgerError] = {}
    memories: dict[str, PullMemory] = {}

    def report(label: str) -> None:
        if progress:
            progress(len(attempts) + len(failed), len(windows), label)

    with ThreadPoolExecutor(max_workers=CLUSTERS_AT_ONCE) as pool:
        while waiting or running:
            while one := _next_window(waiting, running):
                del waiting[one]
                report(one.label)
                pulled = {one.cluster_id, *(window.cluster_id for window in running.values())}
                memories = {key: memory for key, memory in memories.items() if key in pulled}
                memory = memories.setdefault(one.cluster_id, PullMemory())
                future = pool.submit(
                    pull_window, opened, one.cluster_id, one.source, one.window, memory
                )
                running[future] = one
            try:
                done = wait(running, return_when=FIRST_COMPLETED).done
            except KeyboardInterrupt:
                report("stopping after the attempts in progress")
                raise
            for future in done:
                one = running.pop(future)
                try:
                    attempts[one] = future.result()
                except LedgerError as error:
                    failed[one] = error
                    for window in [w for w in waiting if w.cluster_id == one.cluster_id]:
                        del waiting[window]
    if progress:
        progress(len(windows), len(windows), "")
    found = [failed[one] for one in windows if one in failed]
    if errors is not None:
        errors += found
    elif found:
        raise found[0]
    return [attempt for one in windows if (attempt := attempts.get(one)) is not None]


def _next_window(
    waiting: Mapping[PullWindow, None], running: Mapping[Future[Attempt | None], PullWindow]
) -> PullWindow | None:
    """The first waiting window of a cluster that is not being pulled; None if there is no room."""
    if len(running) >= CLUSTERS_AT_ONCE:
        return None
    busy = {window.cluster_id for window in running.values()}
    return next((window for window in waiting if window.cluster_id not in busy), None)
