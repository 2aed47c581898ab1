"""Every fault of an API server occurs, and ends as evidence or as a gap with a reason."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from clients.kubernetes import KubernetesClient
from fake_gpu.clock import epoch
from fake_gpu.fleet.model import Fault, SimulatedCluster
from ingestion.evidence.hour_ledger import FIRST_UNWATCHED
from tests.collected import World, world
from tests.small_fleets import HOUR, MIDNIGHT, node, pod, quiet_cluster
from warehouse.manifest import Outcome

START = MIDNIGHT - 600


def fault(kind: str, from_at: int, until_at: int, **parameters: object) -> Fault:
    """A fault, in seconds after midnight."""
    return Fault(f"{kind}#1", kind, "", MIDNIGHT + from_at, MIDNIGHT + until_at, 11, parameters)


def crowded() -> SimulatedCluster:
    """Ten pods that run all day, and three that start, end and are deleted in the first hour."""
    on = node("node-b", cards=16)
    lasting = [
        pod(
            f"lasting-{n}", created=-1800 + n, scheduled=-1790, started=-1700 + n, on=on, cards=(n,)
        )
        for n in range(10)
    ]
    passing = [
        pod(f"passing-{n}", created=300 + 600 * n, scheduled=310 + 600 * n, started=320 + 600 * n,
            ended=800 + 600 * n, gone=860 + 600 * n, on=on, cards=(12 + n,))
        for n in range(3)
    ]  # fmt: skip
    return replace(quiet_cluster(), nodes=(on,), pods=(*lasting, *passing))


# The truth about these pods: created, bound, started, ended, in seconds after midnight.
TRUTH: Mapping[str, tuple[int, int, int | None]] = {
    **{f"lasting-{n}": (-1790, -1700 + n, None) for n in range(10)},
    **{f"passing-{n}": (310 + 600 * n, 320 + 600 * n, 800 + 600 * n) for n in range(3)},
}


def run(tmp_path: Path, wanted: Fault, **options: Any) -> World:
    """Run an hour with a fault; the world is closed and can still be read."""
    with world(crowded(), tmp_path, START, faults=(wanted,), **options) as made:
        made.start_collector()
        made.advance(600 + 2 * HOUR, step=60)
        assert made.ledger.count(wanted.fault_id) > 0, f"{wanted.kind} never fired"
        return made


def known(made: World) -> dict[str, tuple[int | None, int | None, int | None]]:
    """Bound, started, ended of every pod, according to two landed hours."""
    found: dict[str, tuple[int | None, int | None, int | None]] = {}
    for row in made.rows(made.pull(2))["pod_observations"]:
        times = (row["bound_at"], row["started_at"], row["ended_at"])
        seconds = [None if t is None else int(t.timestamp()) - MIDNIGHT for t in times]
        found[row["pod_name"]] = (seconds[0], seconds[1], seconds[2])
    return found


def what(made: World) -> list[str]:
    return sorted({line["what"] for line in made.lines("contradiction")})


def test_without_faults_every_pod_is_known_to_the_second(tmp_path: Path) -> None:
    with world(crowded(), tmp_path, START) as made:
        made.start_collector()
        made.advance(600 + 2 * HOUR, step=60)
        assert known(made) == TRUTH
        assert [h.outcome for h in made.pull(2).hours] == [Outcome.OK, Outcome.OK]
        assert what(made) == []


@pytest.mark.parametrize(
    "wanted",
    [
        fault("watch_replays", 600, 3000),
        fault("watch_replays", 600, 3000, share=Fraction(1, 2)),
        fault("events_twice", 0, 3600),
        fault("api_throttled", 0, 600, requests=3),
        fault("api_unavailable", 0, 600, requests=2),
        fault("api_truncated", 0, 600, requests=1),
    ],
    ids=lambda f: f.kind,
)
def test_a_recoverable_fault_leaves_every_second_right(tmp_path: Path, wanted: Fault) -> None:
    made = run(tmp_path, wanted)
    assert known(made) == TRUTH
    assert made.lines("gap") == []


def test_a_replayed_stream_is_counted_and_adds_nothing(tmp_path: Path) -> None:
    with world(crowded(), tmp_path, START, faults=(fault("watch_replays", 600, 3000),)) as made:
        collector = made.start_collector()
        made.advance(600 + HOUR, step=60)
        assert collector.health.replayed > 100
        deleted = [line for line in made.lines("object") if line["via"] == "deleted"]
        assert len(deleted) == 3


def test_a_410_leads_to_a_compared_list_and_a_gap_with_both_ends(tmp_path: Path) -> None:
    made = run(tmp_path, fault("watch_expired", 900, 901, resource="pods"))
    assert known(made) == TRUTH
    (gap,) = made.lines("gap")
    assert gap["resource"] == "pods"
    assert (gap["from"], gap["until"]) == ("2026-10-01T00:14:00Z", "2026-10-01T00:15:00Z")
    first, second = made.pull(2).hours
    assert (first.outcome, second.outcome) == (Outcome.DEGRADED, Outcome.OK)
    assert first.reason == "3540 of 3600 s were watched without a break"
    assert first.facts[FIRST_UNWATCHED] == 14 * 60
    assert FIRST_UNWATCHED not in second.facts


def test_an_end_behind_a_dropped_watch_is_in_a_recorded_gap(
    tmp_path: Path,
) -> None:
    """passing-0 ends at 800 and is deleted at 860, without an event."""
    made = run(tmp_path, fault("watch_dropped", 780, 900))
    found = known(made)
    assert found.pop("passing-0") == (310, 320, None)
    assert found == {k: v for k, v in TRUTH.items() if k != "passing-0"}
    attempt = made.pull(2)
    rows = made.rows(attempt)
    (gap,) = rows["journal_gaps"]
    assert gap["gap_started_at"] == epoch(MIDNIGHT + 720)
    assert gap["gap_ended_at"] == epoch(MIDNIGHT + 900)
    last = [r for r in rows["pod_observations"] if r["pod_name"] == "passing-0"][-1]
    assert (last["deleted"], last["via"]) == (True, "list")
    # The true end, 800, is between the last time it was seen and the first time it was missing.
    assert last["last_seen_at"] == epoch(MIDNIGHT + 720)
    assert last["observed_at"] == epoch(MIDNIGHT + 900)


def test_an_expired_page_token_ends_no_pod_and_the_next_list_is_whole(tmp_path: Path) -> None:
    made = run_paged(tmp_path, fault("page_token_expired", 0, 60, requests=2))
    assert known(made) == TRUTH
    assert all(line["complete"] for line in made.lines("listed"))


def test_an_incomplete_list_ends_no_pod_and_marks_the_hour(tmp_path: Path) -> None:
    made = run_paged(tmp_path, fault("page_token_expired", 0, 3600))
    assert known(made) == TRUTH
    cut = [line for line in made.lines("listed", resource="pods") if not line["complete"]]
    assert [line["reason"] for line in cut] == ["the list's token expired before its last page"]
    first, second = made.pull(2).hours
    assert first.reason == "no complete list of the pods was made in this hour"
    assert (first.outcome, second.outcome) == (Outcome.DEGRADED, Outcome.OK)
    assert not any(line["via"] == "gone" for line in made.lines("object"))


def run_paged(tmp_path: Path, wanted: Fault) -> World:
    """The same with lists of four pods per page."""
    before = KubernetesClient.pages.__defaults__
    KubernetesClient.pages.__defaults__ = (4,)
    try:
        return run(tmp_path, wanted)
    finally:
        KubernetesClient.pages.__defaults__ = before


def test_lost_rights_end_no_pod_and_are_recorded(tmp_path: Path) -> None:
    """403 from 00:15 until 01:15, so the hourly list fails."""
    made = run(tmp_path, fault("rbac_lost", 900, 4500, resource="pods"))
    refused = [line for line in made.lines("access", resource="pods") if not line["allowed"]]
    assert [line["at"] for line in refused] == ["2026-10-01T01:02:00Z"]
    cut = [line for line in made.lines("listed", resource="pods") if not line["complete"]]
    assert cut
    assert cut[0]["reason"].startswith("SERVER-002 HTTP 403 Forbidden")
    first, second = made.pull(2).hours
    assert first.outcome is Outcome.DEGRADED
    assert second.outcome is Outcome.DEGRADED
    still = {f"lasting-{n}" for n in range(10)}
    gone = {line["object"]["metadata"]["name"] for line in made.lines("object", via="gone")}
    assert not gone & still
    (gap,) = made.lines("gap", resource="pods")
    assert (gap["from"], gap["until"]) == ("2026-10-01T00:14:00Z", "2026-10-01T01:15:00Z")


def test_a_role_without_the_right_to_budgets_loses_nothing_else(tmp_path: Path) -> None:
    """The ClusterRole of a collector that was installed before there were GpuBudgets.

    The close of an hour waits two minutes for a watch without events.
    """
    lost = fault("rbac_lost", -3600, 9000, resource="gpubudgets")
    with world(crowded(), tmp_path, START, faults=(lost,)) as made:
        made.start_collector()
        made.advance(600 + 2 * HOUR + 180, step=60)
    assert made.ledger.count(lost.fault_id) > 0
    assert known(made) == TRUTH
    assert [hour.outcome for hour in made.pull(2).hours] == [Outcome.OK, Outcome.OK]
    listed = {(line["resource"], line["complete"]) for line in made.lines("listed")}
    assert ("gpubudgets", True) not in listed
    assert ("pods", False) not in listed


def test_a_first_list_that_failed_is_followed_by_one_complete_list(tmp_path: Path) -> None:
    """A second list, a moment later, would begin with a gap."""
    lost = fault("rbac_lost", -3600, 300, resource="gpubudgets")
    with world(crowded(), tmp_path, START, faults=(lost,)) as made:
        made.start_collector()
        made.advance(900, step=60)
    first = made.lines("listed", resource="gpubudgets", why="start")
    assert [line["complete"] for line in first if line["complete"]] == [True]
    assert made.lines("gap", resource="gpubudgets") == []


def test_a_list_with_fewer_namespaces_ends_no_pod_during_a_watch(
    tmp_path: Path,
) -> None:
    """Two hourly lists lack a namespace, while the live watch reported no deletion."""
    wanted = fault("rbac_lost", 3500, 3650, resource="pods", mode="fewer", namespace="team-a")
    made = run(tmp_path, wanted)
    assert known(made) == TRUTH
    after = {line["object"]["metadata"]["name"] for line in made.lines("object", via="gone")}
    assert after == set()


@pytest.mark.parametrize("requests", [1, 2])
def test_a_mass_absence_in_the_hourly_list_is_listed_again(tmp_path: Path, requests: int) -> None:
    wanted = fault("mass_absence", 3600, 3700, share=Fraction(4, 5), requests=requests)
    made = run(tmp_path, wanted)
    found = known(made)
    assert {k: v[1] for k, v in found.items()} == {k: v[1] for k, v in TRUTH.items()}
    looks = made.lines("listed", why="second_look", resource="pods")
    assert len(looks) == 1
    gone = {line["object"]["metadata"]["name"] for line in made.lines("object", via="gone")}
    if requests == 1:
        assert gone == set()
    else:
        # Two lists lacked them and the live watch reported nothing: gone, with a contradiction.
        assert gone
        assert "delete_not_told" in what(made)


def test_a_mass_absence_after_a_gap_is_listed_again_at_once(tmp_path: Path) -> None:
    faults = (
        fault("watch_expired", 900, 901, resource="pods"),
        fault("mass_absence", 900, 901, share=Fraction(4, 5), requests=1),
    )
    with world(crowded(), tmp_path, START, faults=faults) as made:
        made.start_collector()
        made.advance(600 + 2 * HOUR, step=60)
        assert all(made.ledger.count(f.fault_id) for f in faults)
        assert known(made) == TRUTH
        assert len(made.lines("listed", why="second_look")) == 1
        # Only the pod that really ended and was deleted in the gap.
        gone = [line["object"]["metadata"]["name"] for line in made.lines("object", via="gone")]
        assert gone == ["passing-0"]


def test_a_restored_store_is_noticed_and_revives_no_pod(tmp_path: Path) -> None:
    """Restored at 1200 to the state of 600: passing-0, ended at 800, appears again for a while."""
    made = run(tmp_path, fault("etcd_restored", 1200, 1201, back=600))
    assert "resource_version_went_back" in what(made)
    assert "alive_after_end" in what(made)
    assert known(made)["passing-0"] == TRUTH["passing-0"]
    assert {k: v for k, v in known(made).items() if k.startswith("lasting")} == {
        k: v for k, v in TRUTH.items() if k.startswith("lasting")
    }
    assert [g["resource"] for g in made.lines("gap")].count("pods") == 1


def test_a_rewritten_start_is_only_a_contradiction(tmp_path: Path) -> None:
    made = run(tmp_path, fault("start_rewritten", 0, 3600, pod="passing-1"))
    assert known(made) == TRUTH
    moved = made.lines("contradiction", what="start_moved")
    assert [(m["before"], m["after"]) for m in moved] == [
        ("main 2026-10-01T00:15:20Z", "main 2026-10-01T00:23:20Z")
    ]


def test_an_end_before_its_start_is_kept_unchanged(tmp_path: Path) -> None:
    made = run(tmp_path, fault("finished_before_started", 0, 3600, seconds=60))
    assert known(made)["passing-0"] == (310, 320, 260)
    notes = made.lines("contradiction", what="ended_before_start")
    assert (notes[0]["before"], notes[0]["after"]) == (
        "2026-10-01T00:05:20Z",
        "2026-10-01T00:04:20Z",
    )


def test_missing_bookmarks_reduce_coverage_and_change_no_pod(tmp_path: Path) -> None:
    wanted = fault("bookmarks_missing", 1000, 2000)
    with world(crowded(), tmp_path, START, faults=(wanted,)) as made:
        collector = made.start_collector(lockstep=False)
        made.advance(600 + 900, step=60)
        for _ in range(20):
            made.clock.advance(60)
            version = made.api.view.version(made.clock.now_seconds())
            collector.wait_until_recorded(version, 0.1)
        made.catch_up()
        made.advance(2 * HOUR - 2100, step=60)
        assert made.ledger.count(wanted.fault_id) > 0
        assert known(made) == TRUTH
        assert made.lines("gap") == []


def test_a_collector_without_a_watch_ignores_stops_for_other_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hourly list is made at a stop of its own cluster, and ends before the clock advances.

    Otherwise a retry by a fast thread would make the list at another time, and show a later state
    as that of an earlier time.
    """
    wanted = fault("watch_dropped", 600, 3 * HOUR)
    with world(crowded(), tmp_path, START, faults=(wanted,)) as made:
        collector = made.start_collector()
        made.advance(600 + 900, step=300)
        asked = collector.client.pages

        def slowly(*wanted: Any) -> Any:
            time.sleep(0.1)
            return asked(*wanted)

        monkeypatch.setattr(collector.client, "pages", slowly)

        def go_to(second: int, *, told: bool) -> None:
            made.api.is_silent = not told
            if told:
                collector.stop_at(epoch(MIDNIGHT + second))
            made.clock.advance_to(epoch(MIDNIGHT + second))
            time.sleep(0.15)  # a thread that does not wait is in the middle of it now
            if told:
                made.catch_up()

        go_to(HOUR, told=True)  # the last event of a watch is received first
        go_to(HOUR + 200, told=False)
        go_to(HOUR + 900, told=True)
        go_to(HOUR + 1000, told=False)
        go_to(2 * HOUR, told=True)
        made.stop_collector()
        hourly = [
            line for line in made.lines("listed", why="hourly") if line["at"] > "2026-10-01T01"
        ]
        assert {(line["began_at"], line["at"]) for line in hourly} == {
            ("2026-10-01T01:15:00Z", "2026-10-01T01:15:00Z")
        }
        assert {line["resource"] for line in hourly} == set(collector.settings.resources)
