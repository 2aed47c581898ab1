"""The provider's statement and the programme's report: all capacity is assigned, no hour
is zero.
"""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from billing.ccsp import HOUR_COLUMNS, ReportedClusterHour, hours_csv, sealed_runs
from billing.close import close_period
from billing.statement import TERMS
from domain.clock import StoppedClock
from quality.run import check_period
from tests.marts_by_hand import CARDS, SHARE_UNITS, Pod, World, at


def close(world: World) -> Path:
    world.write()
    clock = StoppedClock(datetime(2026, 11, 4, tzinfo=UTC))
    close_period(
        world.home,
        world.period,
        world.decisions,
        lambda: check_period(world.home, world.period, world.decisions, clock),
        clock,
        dry_run=False,
    )
    return world.path / "documents" / "2026-10" / "provider"


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "home")
    world.pods = [
        Pod("team-a", "train", at("09 10:00"), at("09 11:30"), device_count=2),
        Pod("kube-system", "probe", at("09 10:00"), at("09 10:30"), belongs_to="provider",
            weight=Fraction(3, 7)),
    ]  # fmt: skip
    return world


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_every_share_second_of_capacity_has_its_place(world: World) -> None:
    statement = json.loads((close(world) / "statement.json").read_bytes())
    assert [entry["dimension"] for entry in statement["capacity"]] == ["compute", "memory"]
    for entry in statement["capacity"]:
        assert entry["installed"] == sum(entry[name] for name in TERMS)
        # Two hours in which pods ran; two cards for 5400 s, and 3/7 of one for 1800 s.
        assert entry["installed"] == 2 * 3600 * CARDS * SHARE_UNITS
        assert entry["running"] == 2 * 5400 * SHARE_UNITS + 1800 * SHARE_UNITS * 3 // 7
        assert entry["running_of_provider"] == str(1800 * SHARE_UNITS * 3 // 7)


def test_the_providers_own_use_is_stated_and_not_billed(world: World) -> None:
    folder = close(world)
    statement = json.loads((folder / "statement.json").read_bytes())
    # 2 × 1.5 h × 3.60; and 0.5 h × 3/7 × 3.60, the cost of the use that is not billed.
    assert statement["documents"] == [
        {"number": "INV-000001", "tenant": "team-a", "billed_cost": "10.80"}
    ]
    [own] = rows(folder / "own-use.csv")
    assert (own["namespace"], own["device_seconds"], own["cost"]) == (
        "kube-system",
        "1800",
        "0.771428571",
    )


def test_unmeasured_hours_are_marked_and_never_zero(world: World) -> None:
    world.lose("thanos", "09 10:00")
    world.lose("kubernetes", "09 10:00")
    world.lose("thanos", "09 11:00", seen=60)
    world.lose("kubernetes", "09 11:00", seen=1800)
    world.accepted_gaps = [
        "c1,thanos,2026-10-09T10:00:00Z,2026-10-09T12:00:00Z,bill_nothing,why,bob,2026-11-02,"
    ]
    folder = close(world)
    by_hour = {
        row["hour_started_at"]: row
        for row in rows(folder / "ccsp-hours.csv")
        if row["cluster_id"] == "c1"
    }
    assert len(by_hour) == 744
    lost, partly, whole = (by_hour[f"2026-10-09T{hour}:00:00Z"] for hour in (10, 11, 12))
    assert lost["measured"] == "not measured"
    assert [lost[name] for name in HOUR_COLUMNS[3:]] == [""] * 6
    assert (partly["measured"], partly["sum_of_node_max"]) == ("partly measured", "2")
    assert (whole["measured"], whole["sum_of_node_max"]) == ("measured", "0")
    nodes = rows(folder / "ccsp-nodes.csv")
    assert len(nodes) == 743
    assert not [row for row in nodes if row["hour_started_at"] == "2026-10-09T10:00:00Z"]


def test_the_fleet_sums_its_clusters_and_names_a_missing_one(world: World) -> None:
    world.clusters["c2"] = "both"
    world.pods.append(Pod("team-b", "serve", at("09 10:00"), at("09 11:00"), cluster_id="c2"))
    world.lose("thanos", "09 11:00", cluster_id="c2")
    world.lose("kubernetes", "09 11:00", cluster_id="c2")
    world.accepted_gaps = [
        "c2,thanos,2026-10-09T11:00:00Z,2026-10-09T12:00:00Z,bill_nothing,why,bob,2026-11-02,"
    ]
    fleet = {
        row["hour_started_at"]: row
        for row in rows(close(world) / "ccsp-hours.csv")
        if row["cluster_id"] == "(fleet)"
    }
    both, one = fleet["2026-10-09T10:00:00Z"], fleet["2026-10-09T11:00:00Z"]
    assert (both["measured"], both["active_worker_nodes"], both["sum_of_node_max"]) == (
        "measured",
        "2",
        "4",
    )
    assert (one["measured"], one["active_worker_nodes"]) == ("partly measured", "1")
    # Maxima of two clusters may be at different instants.
    assert both["simultaneous_max"] == ""
    assert (both["sum_of_node_max_bound"], both["how_known"]) == ("4", "by_devices")


def test_equal_hours_are_sealed_once() -> None:
    hours = [
        ReportedClusterHour(
            "c1", at(f"09 {hour:02}:00"), "measured", 1, 1, count, count, count, "by_devices"
        )
        for hour, count in ((0, 2), (1, 2), (2, 3), (3, 3), (5, 3))
    ]
    runs = sealed_runs(hours)
    assert [(run["first_hour"][11:13], run["hours"]) for run in runs] == [
        ("00", 2),
        ("02", 2),
        ("05", 1),
    ]
    text = hours_csv({"ccsp_hours": runs}).decode()
    assert [line.split(",")[1][11:13] for line in text.splitlines()[1:] if "c1" in line] == [
        "00",
        "01",
        "02",
        "03",
        "05",
    ]
