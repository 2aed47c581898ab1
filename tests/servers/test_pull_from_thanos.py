"""Pulls from a real Thanos whose stores are complete, lose scrapes, stop, disconnect, or hang.

A real querier returns `success` without half of the data, first with a warning and later without
one. The pull must not count such an hour as complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from domain.clock import SystemClock
from domain.decisions.rows import Source
from domain.interval import HOUR, Interval
from fake_gpu.clock import VirtualClock
from fake_gpu.fleet.model import Fleet
from fake_gpu.serve import serve
from ingestion.evidence.hour_ledger import (
    INCOMPLETE_PODS,
    MASS_ENDINGS,
    SUSPICIONS,
    DueReason,
    hour_ledger,
    why_due,
)
from ingestion.evidence.landing import Landing
from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.pull import pull_hours
from tests.derived_rows import rows_of
from tests.servers import thanos
from tests.servers.process import wait_for
from tests.servers.stored_fleets import (
    FORGETS_AFTER,
    INTERVAL_SECONDS,
    PODS,
    REPLICA,
    START,
    Store,
    by_replica,
    by_series,
    by_tenant,
    halves,
    is_whole,
    replicated_fleet,
    series_of,
    whole_fleet,
)
from tests.small_fleets import MIDNIGHT
from warehouse.manifest import Attempt, Outcome, Sampling
from warehouse.store import FolderStore

pytestmark = pytest.mark.servers

FIRST = Interval(START, START + HOUR)
SECOND = Interval(START + HOUR, START + 2 * HOUR)
# The querier waits for a store that hangs; the pull ends before that.
TIMEOUT_SECONDS = 60


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return whole_fleet()


@pytest.fixture(scope="module")
def replicated() -> Fleet:
    return replicated_fleet()


# --- queries -------------------------------------------------------------------------------------


COLUMNS = ("cluster_id", "hour_started_at", "metric", "labels", "first_sampled_at",
           "last_sampled_at", "sample_count", "sample_value")  # fmt: skip


class SharedLanding:
    """One landing for several pulls."""

    def __init__(self, fleet: Fleet, url: str, folder: Path) -> None:
        connection = Connection(url, timeout_seconds=TIMEOUT_SECONDS)
        settings = ThanosSettings("hub", connection, replica_labels=(REPLICA, "receive_replica"))
        sampling = Sampling(INTERVAL_SECONDS, INTERVAL_SECONDS)
        self.source = ClusterSource(fleet.clusters[0].cluster_id, settings, sampling)
        self.landing = Landing(FolderStore(folder / "landing"))
        self.runs = folder / "runs"

    def pull(self, window: Interval = FIRST) -> Attempt:
        return pull_hours(self.source, window, self.landing, self.runs, SystemClock())

    def rows(self, attempt: Attempt) -> list[tuple[object, ...]]:
        rows = rows_of(self.runs, attempt.cluster_id, [attempt.attempt_id], "runs")
        return [tuple(row[name] for name in COLUMNS) for row in rows]


def true_rows(fleet: Fleet, folder: Path, window: Interval = FIRST) -> list[tuple[object, ...]]:
    """The rows of the same fleet from the simulated Thanos."""
    with serve(fleet, VirtualClock(START + 4 * HOUR)) as fake:
        asked = SharedLanding(fleet, fake.thanos_url, folder / "fake")
        attempt = pull_hours(asked.source, window, asked.landing, asked.runs, fake.clock)
        return asked.rows(attempt)


def doubts(attempt: Attempt) -> list[str]:
    """All signs of an attempt that its data may be incomplete."""
    found = [f"{h.outcome}: {h.reason}" for h in attempt.hours if h.outcome is not Outcome.OK]
    for hour in attempt.hours:
        found += [f"{name}={hour.facts[name]}" for name in SUSPICIONS if hour.facts.get(name)]
    if attempt.draft.facts.get("failing_stores"):
        found.append(f"failing_stores={attempt.draft.facts['failing_stores']}")
    return found


def count_missing_runs(
    asked: SharedLanding, attempt: Attempt, truth: list[tuple[object, ...]]
) -> int:
    """The number of runs of the truth that an attempt lacks."""
    return len(set(truth) - set(asked.rows(attempt)))


def is_silent(url: str) -> bool:
    """Whether the querier returns no warning."""
    asked: dict[str, str | int] = {
        "query": "up[1h]",
        "time": MIDNIGHT + 3600,
        "partial_response": "false",
    }
    answer = httpx.get(f"{url}/api/v1/query", params=asked, timeout=60, trust_env=False).json()
    return answer["status"] == "success" and not answer.get("warnings")


def has_forgotten(url: str, left: int) -> bool:
    """Whether the list of stores no longer has the lost one."""
    return is_silent(url) and is_whole(url, left)


def wait_until_forgotten(url: str, left: int = 1) -> None:
    wait_for(lambda: has_forgotten(url, left), "the querier's forgetting", every_seconds=0.5)


# --- replicas ------------------------------------------------------------------------------------


def test_replicas_with_different_lost_scrapes_are_complete_together(
    replicated: Fleet, tmp_path: Path
) -> None:
    with halves(replicated, by_replica, tmp_path, steady=[1]) as made:
        asked = SharedLanding(replicated, made.url, tmp_path)
        whole = asked.pull()
        assert doubts(whole) == []
        assert asked.rows(whole) == true_rows(replicated, tmp_path)
        # The other replica lacks the scrape that it lost; that is a visible gap.
        made.stores[0].sidecar.kill()
        wait_until_forgotten(made.url)
        alone = asked.pull()
        assert alone.outcome is Outcome.DEGRADED
        assert "less than an earlier ok answer" in alone.hours[0].reason
        pods = [row for row in asked.rows(alone) if row[2] == "kube_pod_info"]
        assert len(pods) == 2 * PODS


# --- half of the data ----------------------------------------------------------------------------

WAYS: dict[str, Callable[[Store], None]] = {
    "stopped": lambda store: store.sidecar.kill(),
    "hangs": lambda store: store.sidecar.hang(),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_store_with_half_of_all_series_goes(fleet: Fleet, tmp_path: Path, way: str) -> None:
    """The series of a pod's metrics are in both stores, so the rest contradicts itself."""
    truth = true_rows(fleet, tmp_path)
    with halves(fleet, by_series, tmp_path, steady=[0]) as made:
        asked = SharedLanding(fleet, made.url, tmp_path / "asked")
        whole = asked.pull()
        assert (doubts(whole), count_missing_runs(asked, whole, truth)) == ([], 0)

        WAYS[way](made.stores[1])
        at_once = asked.pull()
        assert at_once.outcome in (Outcome.WARNED, Outcome.DEGRADED)
        assert count_missing_runs(asked, at_once, truth) > len(truth) / 4

        wait_until_forgotten(made.url)
        silent = asked.pull()
        assert {answer.outcome for answer in silent.answers} == {Outcome.OK}
        assert silent.warning_count == 0
        assert silent.outcome is Outcome.DEGRADED
        assert count_missing_runs(asked, silent, truth) > len(truth) / 4

        # For a new landing every response seems complete, except for the pods.
        first = SharedLanding(fleet, made.url, tmp_path / "first").pull()
        assert first.outcome is Outcome.OK
        assert first.hours[0].facts[INCOMPLETE_PODS] > PODS / 4
        assert due_again(first) is DueReason.SUSPICION

        if way == "hangs":
            made.stores[1].sidecar.go_on()
            wait_for(lambda: is_whole(made.url, 2), "the store's return")
            repaired = asked.pull()
            assert (doubts(repaired), count_missing_runs(asked, repaired, truth)) == ([], 0)


def due_again(attempt: Attempt) -> DueReason | None:
    hour = attempt.hours[0].hour
    [entry] = hour_ledger([(attempt.cluster_id, Source.THANOS, hour)], [attempt])
    return why_due(entry, attempt.draft.asked_at + timedelta(minutes=10))


def test_a_store_with_all_of_one_tenant_goes(fleet: Fleet, tmp_path: Path) -> None:
    """The rest contains no contradiction; only earlier pulls show that half is missing."""
    with halves(fleet, by_tenant, tmp_path, steady=[0]) as made:
        asked = SharedLanding(fleet, made.url, tmp_path / "asked")
        whole = asked.pull()
        assert (doubts(whole), pods_of(whole)) == ([], PODS)
        # Its connections are refused; the store itself works.
        made.stores[1].relay.cut()
        assert asked.pull().outcome is Outcome.WARNED

        wait_until_forgotten(made.url)
        again = asked.pull()
        assert (again.outcome, pods_of(again)) == (Outcome.DEGRADED, PODS // 2)
        assert "less than an earlier ok answer" in again.hours[0].reason
        after = asked.pull(SECOND)
        assert (after.outcome, pods_of(after)) == (Outcome.DEGRADED, PODS // 2)
        assert after.hours[0].reason.startswith("a store is gone: 1 answer, 2 did at ")
        assert after.hours[0].facts[MASS_ENDINGS] == PODS // 2
        assert due_again(after) is DueReason.NOT_OK

        # A landing without earlier pulls cannot detect the other tenant. The landed number of
        # stores and the journal remain as evidence.
        first = SharedLanding(fleet, made.url, tmp_path / "first").pull()
        assert doubts(first) == []
        assert (first.draft.facts["stores"], whole.draft.facts["stores"]) == (1, 2)

        made.stores[1].relay.mend()
        wait_for(lambda: is_whole(made.url, 2), "the store's return")
        repaired = asked.pull()
        assert (doubts(repaired), pods_of(repaired)) == ([], PODS)


def pods_of(attempt: Attempt) -> int:
    return attempt.hours[0].by_metric["kube_pod_info"][0]


# --- receivers -----------------------------------------------------------------------------------


def test_one_of_three_receivers_that_share_all_series_goes(fleet: Fleet, tmp_path: Path) -> None:
    """`up` is complete, every response is ok, and a third of the pods' series is missing."""
    with ExitStack() as stack:
        three = stack.enter_context(thanos.receivers(3, tmp_path))
        thanos.remote_write(three.write_url, series_of(fleet))
        url = stack.enter_context(
            thanos.querier(
                three.endpoints,
                tmp_path,
                replica_label="receive_replica",
                forgets_after=FORGETS_AFTER,
            )
        )
        wait_for(lambda: is_whole(url, 3), "three stores")
        asked = SharedLanding(fleet, url, tmp_path / "asked")
        whole = asked.pull()
        assert doubts(whole) == []
        assert counted(asked.rows(whole)) == counted(true_rows(fleet, tmp_path))

        member, has_every_node = without_sentinels(url)
        three.members[member].kill()
        assert asked.pull().outcome is Outcome.WARNED
        wait_until_forgotten(url, left=2)
        silent = asked.pull()
        assert {answer.outcome for answer in silent.answers} == {Outcome.OK}
        assert silent.hours[0].by_metric["up"] == whole.hours[0].by_metric["up"]
        assert silent.outcome is (Outcome.EMPTY if has_every_node else Outcome.DEGRADED)
        assert silent.hours[0].facts[INCOMPLETE_PODS] > 0
        first = SharedLanding(fleet, url, tmp_path / "first").pull()
        assert first.hours[0].facts[INCOMPLETE_PODS] > 0
        if not has_every_node:  # otherwise the hour is empty and remains due
            assert due_again(first) is DueReason.SUSPICION


def counted(rows: list[tuple[object, ...]]) -> Counter[tuple[object, ...]]:
    """Runs without the names of series, which differ by the label of the receivers' tenant."""
    name = COLUMNS.index("labels")
    return Counter((*row[:name], *row[name + 1 :]) for row in rows)


def holders(url: str, metric: str) -> set[int]:
    """The receivers with series of a metric; the distribution differs from run to run."""
    form: dict[str, str | int] = {"query": f"{metric}[1h]", "time": MIDNIGHT + 3600}
    answer = httpx.get(
        f"{url}/api/v1/query", params=form | {"dedup": "false"}, timeout=60, trust_env=False
    ).json()
    return {int(row["metric"]["receive_replica"]) for row in answer["data"]["result"]}


def without_sentinels(url: str) -> tuple[int, bool]:
    """A receiver without a series of `up`, and whether it has all series of `kube_node_info`."""
    nodes = holders(url, "kube_node_info")
    member = min({0, 1, 2} - holders(url, "up"), key=lambda one: nodes == {one})
    return member, nodes == {member}
