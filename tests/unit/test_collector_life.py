"""A collector watches the fake API over HTTP: pod lifetimes, hours, kills and landed files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient, WatchEvent
from domain.clock import StoppedClock
from domain.errors import InvalidSetting
from domain.interval import parse_instant
from fake_gpu.clock import epoch
from fake_gpu.fleet.model import PodLifetime
from ingestion.evidence.hour_ledger import FIRST_UNWATCHED
from ingestion.kubernetes.collector import Collector, CollectorSettings
from ingestion.kubernetes.journal_decoder import decode
from ingestion.kubernetes.lifecycle_tables import TABLES, table_schema
from ingestion.kubernetes.pull import pull_hours
from ingestion.kubernetes.watched_resources import PATHS
from ingestion.kubernetes.watcher import Retry
from tests.collected import World, world
from tests.kubernetes_by_hand import vias
from tests.small_fleets import CLUSTER_ID, HOUR, MIDNIGHT, node, pod, quiet_cluster
from warehouse.manifest import Outcome

START = MIDNIGHT - 600


def uid_of(name: str) -> str:
    return next(p.uid for p in quiet_cluster().pods if p.name == name)


def ends(made: World, hours: int = 1) -> dict[str, tuple[str, str, str]]:
    """Bound, started and ended of each pod, according to the landed hours."""
    found = {}
    for row in made.rows(made.pull(hours))["pod_observations"]:
        times = (row["bound_at"], row["started_at"], row["ended_at"])
        found[row["pod_name"]] = tuple("" if t is None else t.strftime("%H:%M:%S") for t in times)
    return found


def test_a_pod_lifetime_is_landed_to_the_second(tmp_path: Path) -> None:
    with world(quiet_cluster(), tmp_path, START) as made:
        made.start_collector()
        made.advance(600 + HOUR)
        attempt = made.pull()
        assert [(h.outcome, h.reason) for h in attempt.hours] == [(Outcome.OK, "")]
        assert ends(made) == {
            "train-5d9c-abcde": ("23:30:10", "23:30:30", ""),
            "short": ("00:15:05", "00:15:20", "00:25:20"),
            "waits": ("", "", ""),
        }


def test_requests_and_owners_of_a_pod_are_landed_with_it(tmp_path: Path) -> None:
    with world(quiet_cluster(), tmp_path, START) as made:
        made.start_collector()
        made.advance(600 + HOUR)
        rows = made.rows(made.pull())
        train = next(r for r in rows["pod_observations"] if r["pod_name"].startswith("train"))
        assert (train["owner_kind"], train["owner_name"]) == ("ReplicaSet", "train-5d9c")
        assert (train["workload_kind"], train["workload_name"]) == ("Deployment", "train")
        assert train["namespace_uid"] == "team-a-uid"
        requests = {(r["pod_uid"], r["resource"], r["device_count"]) for r in rows["pod_requests"]}
        assert requests == {
            (uid_of("train-5d9c-abcde"), "nvidia.com/gpu", 2),
            (uid_of("short"), "nvidia.com/gpu", 1),
            (uid_of("waits"), "nvidia.com/gpu", 1),
        }
        assert [(r["node_name"], r["ready"], r["roles"]) for r in rows["node_observations"]] == [
            ("node-a", True, ["worker"]),
            ("node-b", True, ["worker"]),
        ]
        assert [(r["quota_name"], r["hard"], r["used"]) for r in rows["quota_observations"]] == [
            ("gpus", 4, 2)
        ]


def test_empty_tables_have_their_columns_and_types(tmp_path: Path) -> None:
    with world(quiet_cluster(), tmp_path, START) as made:
        made.start_collector()
        made.advance(600 + HOUR)
        tables = decode(made.pull(), made.landing)
        assert sorted(tables) == sorted(TABLES)
        for name, table in tables.items():
            assert table.schema == table_schema(name), name
        assert tables["pod_observations"].num_rows > 0
        assert set(tables["pod_observations"].column("cluster_id").to_pylist()) == {CLUSTER_ID}


def test_the_journal_does_not_depend_on_thread_scheduling(tmp_path: Path) -> None:
    bodies = []
    for turn in ("one", "two"):
        with world(quiet_cluster(), tmp_path / turn, START) as made:
            made.start_collector()
            made.advance(600 + HOUR, step=60)
            spool = made.spool
            bodies.append([(key, spool.read(key)) for key in spool.list("journal/")])
    assert bodies[0] == bodies[1]
    assert len(bodies[0]) == 2


def test_an_hour_is_closed_only_when_it_is_over(tmp_path: Path) -> None:
    with world(quiet_cluster(), tmp_path, START) as made:
        made.start_collector(flush_seconds=60)
        made.advance(600 + HOUR - 30)
        assert [line["hour"] for line in made.lines("hour_closed")] == ["2026-09-30T23:00:00Z"]
        made.advance(30)
        assert len(made.lines("hour_closed")) == 2


def test_the_first_hour_of_a_collector_shows_its_watched_part(tmp_path: Path) -> None:
    with world(quiet_cluster(), tmp_path, START) as made:
        made.start_collector()
        made.advance(600)
        (hour,) = made.pull().hours
        assert hour.outcome is Outcome.DEGRADED
        assert hour.reason == "600 of 3600 s were watched without a break"
        assert hour.facts[FIRST_UNWATCHED] == 0


# --- hours without a collector -------------------------------------------------------------------


def pulled_at(made: World, hour: int, asked: int) -> tuple[Outcome, str]:
    """The outcome of an hour after midnight, queried so many seconds after midnight."""
    from domain.interval import Interval

    window = Interval(epoch(MIDNIGHT + hour * HOUR), epoch(MIDNIGHT + (hour + 1) * HOUR))
    clock = StoppedClock(epoch(MIDNIGHT + asked))
    attempt = pull_hours(CLUSTER_ID, window, made.spool, made.landing, clock)
    return attempt.hours[0].outcome, attempt.hours[0].reason


def test_an_hour_without_a_collector_is_empty_and_final(
    tmp_path: Path,
) -> None:
    with world(quiet_cluster(), tmp_path, START) as made:
        assert pulled_at(made, 0, 7300) == (
            Outcome.EMPTY,
            "the journal has nothing of this hour",
        )
        made.start_collector()
        made.advance(60)
        made.stop_collector()
        made.advance(600 + 3 * HOUR)  # no collector watches; the server deletes its history
        made.start_collector()
        made.advance(HOUR)
        outcome, reason = pulled_at(made, 1, 5 * HOUR)
        assert (outcome, reason) == (
            Outcome.EMPTY,
            "no collector watched this hour, and nothing can bring it back",
        )


def test_an_hour_that_is_not_over_is_not_landed(tmp_path: Path) -> None:
    with world(quiet_cluster(), tmp_path, START) as made:
        assert pulled_at(made, 0, 3599)[0] is Outcome.FAILED


# --- stops, kills and others ---------------------------------------------------------------------


def test_after_a_short_stop_the_watch_continues_without_a_gap(tmp_path: Path) -> None:
    with world(quiet_cluster(), tmp_path, START) as made:
        made.start_collector()
        made.advance(600 + 1500)
        made.stop_collector()
        made.advance(120)  # `short` ends and is deleted meanwhile; the server still has its history
        made.start_collector()
        made.advance(HOUR - 1500 - 120)
        (hour,) = made.pull().hours
        assert hour.outcome is Outcome.OK
        assert made.lines("gap") == []
        assert ends(made)["short"] == ("00:15:05", "00:15:20", "00:25:20")


def test_after_a_long_stop_the_gap_has_both_ends_and_contains_the_end(
    tmp_path: Path,
) -> None:
    with world(quiet_cluster(), tmp_path, START) as made:
        made.start_collector()
        made.advance(600 + 1200)
        made.stop_collector()
        made.advance(900)
        made.start_collector()
        made.advance(HOUR - 1200 - 900)
        attempt = made.pull()
        assert attempt.hours[0].outcome is Outcome.DEGRADED
        assert attempt.hours[0].reason == "2700 of 3600 s were watched without a break"
        rows = made.rows(attempt)
        (gap,) = rows["journal_gaps"]
        assert gap["gap_started_at"] == epoch(MIDNIGHT + 1200)
        assert gap["gap_ended_at"] == epoch(MIDNIGHT + 2100)
        last = [r for r in rows["pod_observations"] if r["pod_name"] == "short"][-1]
        assert last["deleted"]
        assert last["via"] == "list"
        assert last["ended_at"] is None
        assert last["last_seen_at"] == epoch(MIDNIGHT + 1200)
        assert last["observed_at"] == epoch(MIDNIGHT + 2100)


@pytest.mark.parametrize("after", range(0, HOUR, 420))
def test_a_kill_at_any_moment_loses_and_duplicates_nothing(tmp_path: Path, after: int) -> None:
    """Only synced lines survive; the server sends the rest again."""
    with world(quiet_cluster(), tmp_path, START) as made:
        made.start_collector(flush_seconds=90)
        made.advance(600 + after, step=60)
        made.kill_collector()
        made.advance(60)
        made.start_collector(flush_seconds=90)
        made.advance(HOUR - after - 60, step=60)
        attempt = made.pull()
        assert attempt.hours[0].outcome is Outcome.OK
        assert ends(made)["short"] == ("00:15:05", "00:15:20", "00:25:20")
        told = [r for r in made.rows(attempt)["pod_observations"] if r["pod_name"] == "short"]
        assert len([r for r in told if r["deleted"]]) == 1
        assert made.rows(attempt)["journal_gaps"] == []


def test_a_killed_collector_remembers_the_earliest_start(tmp_path: Path) -> None:
    """The start is only in the journal, because the container has restarted since."""
    from fake_gpu.fleet.model import Run

    cluster = quiet_cluster()
    train = cluster.pods[0]
    runs = tuple(
        Run(MIDNIGHT + a, None if b is None else MIDNIGHT + b, 1, "Error")
        for a, b in ((-1770, 300), (330, 900), (960, None))
    )
    restarting = replace(train, containers=(replace(train.containers[0], runs=runs),))
    cluster = replace(cluster, pods=(restarting, *cluster.pods[1:]))
    with world(cluster, tmp_path, START) as made:
        made.start_collector(flush_seconds=60)
        made.advance(600 + 1500)
        made.kill_collector()
        made.start_collector(flush_seconds=60)
        made.advance(2 * HOUR - 1500)
        rows = made.rows(made.pull())["pod_observations"]
        assert [(r["via"], r["started_at"], r["restart_count"]) for r in rows[:1]] == [
            ("hourly_list", epoch(MIDNIGHT - 1770), 2)
        ]


def test_two_collectors_at_once_duplicate_nothing(tmp_path: Path) -> None:
    with world(quiet_cluster(), tmp_path, START) as made:
        first = made.start_collector(collector="one")
        first_thread, first_stop = made._thread, made._stop
        made.start_collector(collector="two")
        for _ in range(140):
            made.clock.advance(30)
            version = made.api.view.version(made.clock.now_seconds())
            assert first.wait_until_recorded(version, 20)
            made.catch_up()
        first_stop.set()
        assert first_thread is not None
        first_thread.join(20)
        attempt = made.pull()
        assert {a.query.rpartition("-")[2] for a in attempt.answers} >= {
            "000001.jsonl", "000002.jsonl",
        }  # fmt: skip
        told = [r for r in made.rows(attempt)["pod_observations"] if r["pod_name"] == "short"]
        assert len(told) == 7
        assert len(made.rows(attempt)["coverage"]) == 1


def test_a_collector_refuses_the_server_of_another_cluster(tmp_path: Path) -> None:
    with world(quiet_cluster(), tmp_path, START) as made:
        settings = CollectorSettings(cluster_id="22222222-aaaa-4bbb-8ccc-000000000002")
        client = KubernetesClient(ServerAccess(made.url))
        collector = Collector(client, made.spool, made.clock, settings)
        with pytest.raises(InvalidSetting):
            collector._begin()
        assert made.spool.list("journal/") == []


class Stumbling(KubernetesClient):
    """A collector whose watch of nodes raises an unexpected exception."""

    def watch(self, path: str, version: int) -> Iterator[WatchEvent]:
        if path == PATHS["nodes"]:
            raise ZeroDivisionError
        return super().watch(path, version)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_collector_ends_when_one_of_its_watches_ends(tmp_path: Path) -> None:
    """Without it, hours without the watch of nodes would look watched, and lose events."""
    with world(quiet_cluster(), tmp_path, START) as made:
        settings = CollectorSettings(CLUSTER_ID, retry=Retry(0.01, 0.01))
        collector = Collector(Stumbling(ServerAccess(made.url)), made.spool, made.clock, settings)
        stop = threading.Event()
        late = threading.Timer(10, stop.set)
        late.start()
        try:
            with pytest.raises(RuntimeError, match="the watch of nodes ended"):
                collector.run(stop)
        finally:
            late.cancel()
        assert made.lines("listed"), "what was heard until then is written"


def test_the_watch_reports_pods_between_two_samples(tmp_path: Path) -> None:
    """A pod of twenty seconds, which a query once a minute does not see."""
    on = node("node-b")
    brief: list[PodLifetime] = [
        pod(f"brief-{n}", created=600 + n, scheduled=601 + n, started=603 + n, ended=620 + n,
            gone=625 + n, on=on)
        for n in range(5)
    ]  # fmt: skip
    cluster = replace(quiet_cluster(), pods=tuple(brief))
    with world(cluster, tmp_path, START) as made:
        made.start_collector()
        made.advance(600 + HOUR, step=600)
        found = ends(made)
        assert found["brief-3"] == ("00:10:04", "00:10:06", "00:10:23")
        assert len(found) == 5


def test_every_hour_of_the_segments_is_complete(tmp_path: Path) -> None:
    with world(quiet_cluster(), tmp_path, START) as made:
        made.start_collector(flush_seconds=120)
        made.advance(600 + 2 * HOUR, step=120)
        attempt = made.pull(2)
        assert [h.outcome for h in attempt.hours] == [Outcome.OK, Outcome.OK]
        for answer in attempt.answers:
            assert answer.window is not None
            lines = made.landing.read_body(answer.sha256).decode().splitlines()
            hour = answer.window.started_at
            assert f'"hour":"{hour.strftime("%Y-%m-%dT%H:%M:%SZ")}"' in lines[0]
        second = [r for r in made.rows(attempt)["pod_observations"]
                  if r["observed_at"] >= parse_instant("2026-10-01T01:00:00Z")]  # fmt: skip
        assert {r["via"] for r in second} == {"hourly_list"}
        assert vias(made.lines("object", via="deleted")) == [(uid_of("short"), "deleted")]
