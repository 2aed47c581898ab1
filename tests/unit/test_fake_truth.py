"""The truth ledger, compared with hand calculations and published figures; its imports."""

from __future__ import annotations

import ast
import os
from fractions import Fraction
from pathlib import Path

import pytest

from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.export import plain_rows
from fake_gpu.scenario.load import load_scenario
from fake_gpu.truth.fewest_cards import ProfilePlacement, fewest_mig_cards, fits_one_card
from fake_gpu.truth.ledger import GRAINS, ledger
from tests.fleets import fleet

ROOT = Path(__file__).parents[2]
A100_40 = (
    ProfilePlacement("1g.5gb", 7, 1, (0, 1, 2, 3, 4, 5, 6), 1),
    ProfilePlacement("2g.10gb", 3, 2, (0, 2, 4), 2),
    ProfilePlacement("3g.20gb", 2, 4, (0, 4), 3),
    ProfilePlacement("4g.20gb", 1, 4, (0,), 4),
    ProfilePlacement("7g.40gb", 1, 8, (0,), 7),
)


def test_the_truth_imports_no_other_package_of_the_project() -> None:
    ours = {"domain", "clients", "warehouse", "ingestion", "quality", "billing", "orchestration"}
    for path in sorted((ROOT / "fake_gpu" / "truth").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                assert name.split(".")[0] not in ours, f"{path.name} imports {name}"
                assert not name.startswith("fake_gpu") or name.startswith("fake_gpu.truth")


def test_the_thin_line_equals_a_hand_calculation() -> None:
    rows = plain_rows(build_fleet(load_scenario("thin_line")))
    held = {
        (row["pod_name"].rsplit("-", 1)[0] if row["workload_kind"] == "Job" else row["pod_name"]): (
            row["held_seconds"],
            row["running_seconds"],
            row["device_count"],
        )
        for row in ledger(rows, "allocations")
        if row["workload_name"] in ("train", "blink", "notebook")
    }
    assert held == {
        "train": (18, 6580, 2),  # 01:10:02, 01:10:20, 03:00:00; two cards
        "blink": (2, 11, 1),  # 03:20:01, :03, :14
        "notebook-0": (15, 13_530, 1),  # 00:30:00, :15, 04:15:45; one restart
    }
    nodes = {
        (row["node_name"], row["hour_started_at"][11:13]): (
            row["gpu_count_max"],
            row["gpu_seconds"],
        )
        for row in ledger(rows, "node-hours")
    }
    # Serve has a card all the time, train two until 03:00:00, sweep a fourth for 1193 and then 1521
    # seconds: never five.
    assert nodes["gpu-a", "00"] == (1, 3600)
    assert nodes["gpu-a", "01"] == (3, 3600 + 2 * 2980)
    assert nodes["gpu-a", "02"] == (4, 3600 + 2 * 3600 + 1193 + 1521)
    assert nodes["gpu-a", "03"] == (1, 3600)
    # The probe's card from 00:00:05 on; the notebook's from 00:30:15 until 04:15:45.
    assert nodes["gpu-b", "00"] == (2, 3595 + 1785)
    assert nodes["gpu-b", "04"] == (2, 3600 + 945)
    assert nodes["gpu-b", "05"] == (1, 3600)
    [hour] = [
        row
        for row in ledger(rows, "cluster-hours")
        if row["hour_started_at"] == "2026-10-01T02:00:00Z" and row["cluster_id"]
    ]
    assert (hour["sum_of_node_max"], hour["simultaneous_max"], hour["active_worker_nodes"]) == (
        6,
        6,
        2,
    )
    [vision] = [row for row in ledger(rows, "tenant-periods") if row["namespace"] == "vision"]
    assert vision["running_device_seconds_numerator"] == 6 * 3600 + 2 * 6580


def test_pods_that_follow_each_other_at_one_second_do_not_overlap() -> None:
    body = """\
name: t
from: 2026-10-01T00:00:00Z
until: 2026-10-01T01:00:00Z
clusters:
  - name: c
    nodes: [{name: a, product: Tesla-T4, cards: 2}, {name: b, product: Tesla-T4, cards: 1}]
    workloads:
      - name: p
        namespace: x
        kind: Pod
        requests: 1
        pods:
          - {created: +0s, started: +5m, ended: +20m, node: a, cards: [0]}
          - {created: +20m, started: +20m, ended: +30m, node: a, cards: [1]}
          - {created: +30m, started: +30m, ended: +40m, node: b}
"""
    rows = plain_rows(fleet(body))
    counts = {r["node_name"]: r["gpu_count_max"] for r in ledger(rows, "node-hours")}
    assert counts == {"a": 1, "b": 1}
    [cluster, whole] = ledger(rows, "cluster-hours")
    assert (cluster["sum_of_node_max"], cluster["simultaneous_max"]) == (2, 1)
    assert (whole["cluster_id"], whole["sum_of_node_max"]) == ("", 2)
    seconds = {r["node_name"]: r["gpu_seconds"] for r in ledger(rows, "node-hours")}
    assert seconds == {"a": 15 * 60 + 10 * 60, "b": 600}


def test_time_outside_the_window_is_not_counted() -> None:
    body = """\
name: t
from: 2026-10-01T01:00:00Z
until: 2026-10-01T02:00:00Z
clusters:
  - name: c
    nodes: [{name: a, product: Tesla-T4, cards: 2}]
    workloads:
      - name: p
        namespace: x
        kind: Pod
        requests: 1
        pods:
          - {created: 2026-10-01T00:10:00Z, started: 2026-10-01T00:20:00Z,
             ended: 2026-10-01T01:00:00Z, node: a}
          - {created: 2026-10-01T00:50:00Z, started: 2026-10-01T01:50:00Z,
             ended: 2026-10-01T03:00:00Z, node: a}
"""
    rows = plain_rows(fleet(body))
    seconds = [(r["held_seconds"], r["running_seconds"]) for r in ledger(rows, "allocations")]
    assert seconds == [(0, 0), (3000, 600)]
    [hour] = ledger(rows, "node-hours")
    assert (hour["gpu_count_max"], hour["gpu_seconds"]) == (1, 600)


def test_pods_that_share_one_claim_hold_equal_parts_at_a_time() -> None:
    body = """\
name: t
from: 2026-10-01T00:00:00Z
until: 2026-10-01T01:00:00Z
clusters:
  - name: c
    nodes: [{name: a, product: NVIDIA-H100-80GB-HBM3, cards: 2, dra: true}]
    workloads:
      - name: p
        namespace: x
        kind: Pod
        claims: [{device_class: gpu.nvidia.com, shared: both}]
        pods:
          - {created: +0s, started: +0s, ended: +30m, node: a}
          - {created: +20m, started: +20m, ended: +50m}
"""
    rows = plain_rows(fleet(body))
    [tenant] = ledger(rows, "tenant-periods")
    running = Fraction(
        tenant["running_device_seconds_numerator"], tenant["running_device_seconds_denominator"]
    )
    # 20 minutes alone, 10 together (a half each), 20 alone: the card was held for 50 minutes.
    assert running == 50 * 60
    [hour] = ledger(rows, "node-hours")
    assert (hour["gpu_count_max"], hour["gpu_seconds"], hour["gpu_count_max_bound"]) == (1, 3000, 1)


def test_weights_of_slices_are_exact() -> None:
    body = """\
name: t
from: 2026-10-01T00:00:00Z
until: 2026-10-01T01:00:00Z
clusters:
  - name: c
    nodes: [{name: a, product: NVIDIA-A100-SXM4-40GB, cards: 1,
             mig: {layout: {all: {3g.20gb: 1, 4g.20gb: 1}}}}]
    workloads:
      - {name: p, namespace: x, kind: Pod, requests: {nvidia.com/mig-3g.20gb: 1},
         pods: [{created: +0s, started: +0s, ended: +7m, node: a}]}
      - {name: q, namespace: x, kind: Pod, requests: {nvidia.com/mig-4g.20gb: 1},
         pods: [{created: +0s, started: +0s, ended: +7m, node: a}]}
"""
    rows = ledger(plain_rows(fleet(body)), "tenant-periods")
    weighed = {
        row["mig_profile"]: Fraction(
            row["running_weighted_seconds_numerator"], row["running_weighted_seconds_denominator"]
        )
        for row in rows
    }
    # 3g: max(3/7, 4/8); 4g: max(4/7, 4/8); together 15/14 of a card.
    assert weighed == {"3g.20gb": 420 * Fraction(1, 2), "4g.20gb": 420 * Fraction(4, 7)}
    assert sum(weighed.values()) == 420 * Fraction(15, 14)


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        ({}, 0),
        ({"1g.5gb": 1}, 1),
        ({"1g.5gb": 7}, 1),
        ({"1g.5gb": 8}, 2),
        ({"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 2}, 1),
        ({"3g.20gb": 1, "1g.5gb": 4}, 1),  # the other card could have {2g, 1g x 5}
        ({"3g.20gb": 1, "1g.5gb": 5}, 2),
    ],
)
def test_the_fewest_cards_for_a_capacity(running: dict[str, int], expected: int) -> None:
    capacity = (("1g.5gb", 9), ("2g.10gb", 1), ("3g.20gb", 1))
    found = fewest_mig_cards(A100_40, capacity, tuple(sorted(running.items())), 2, 7)
    assert found == expected


def test_two_3g_and_a_1g_do_not_fit_one_card() -> None:
    """The one multiset for which counting slices is wrong."""
    assert not fits_one_card(A100_40, (("1g.5gb", 1), ("3g.20gb", 2)), 7)
    assert fits_one_card(A100_40, (("3g.20gb", 2),), 7)


def test_exactly_the_published_number_of_layouts_fits_a_card() -> None:
    """37 multisets of {1g, 2g, 3g, 4g, 7g} can be placed on an A100."""
    placeable = 0
    for a in range(8):
        for b in range(4):
            for c in range(3):
                for d in range(2):
                    for e in range(2):
                        counts = zip(
                            ("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),
                            (a, b, c, d, e),
                            strict=True,
                        )
                        wanted = tuple((p, n) for p, n in counts if n)
                        placeable += bool(wanted) and fits_one_card(A100_40, wanted, 7)
    assert placeable == 37


def test_active_worker_nodes_are_ready_with_the_role_cordoned_or_not() -> None:
    body = """\
name: t
from: 2026-10-01T00:00:00Z
until: 2026-10-01T03:00:00Z
clusters:
  - name: c
    nodes:
      - {name: head, roles: [control-plane]}
      - {name: both, roles: [control-plane, worker]}
      - {name: cordoned, changes: [{at: +10m, cordon: true}]}
      - {name: lost, changes: [{at: +30m, ready: Unknown}, {at: +90m, ready: "True"}]}
      - {name: late, joins: +2h}
"""
    rows = ledger(plain_rows(fleet(body)), "cluster-hours")[:3]
    assert [(r["active_worker_nodes"], r["active_worker_nodes_max"]) for r in rows] == [
        (3, 3),
        (2, 3),
        (4, 4),
    ]


def test_coverage_lists_the_hours_with_faults() -> None:
    body = """\
name: t
from: 2026-10-01T00:00:00Z
until: 2026-10-01T03:00:00Z
clusters: [{name: c}, {name: d}]
faults:
  - {fault: empty_success, cluster: c, from: +50m, until: +70m}
  - {fault: timeout, from: +55m, until: +65m}
"""
    rows = ledger(plain_rows(fleet(body)), "coverage")
    assert [r["disturbed_seconds"] for r in rows] == [600, 600, 0, 300, 300, 0]
    assert rows[0]["faults"] == "empty_success#0 timeout#0"
    assert rows[3]["faults"] == "timeout#0"


def test_only_known_grains_are_accepted() -> None:
    rows = plain_rows(build_fleet(load_scenario("thin_line")))
    for grain in GRAINS:
        assert isinstance(ledger(rows, grain), list)
    with pytest.raises(ValueError, match="no grain 'weeks'"):
        ledger(rows, "weeks")


def openb() -> Path:
    """The trace's files: from a setting, or next to the repository."""
    folder = Path(os.environ.get("GPU_LEDGER_OPENB") or ROOT.parent / "shared" / "data" / "openb")
    if not folder.is_dir() and not os.environ.get("CI"):
        pytest.skip(f"{folder} is missing: the trace is not part of the repository")
    return folder


def test_the_openb_trace_has_its_published_hours() -> None:
    fleet_ = build_fleet(load_scenario("openb", data=openb()))
    rows = ledger(plain_rows(fleet_), "allocations")
    seconds = sum(
        Fraction(row["compute_share_numerator"], row["compute_share_denominator"])
        * row["running_seconds"]
        for row in rows
    )
    assert len({row["pod_uid"] for row in rows}) == 6203
    assert round(float(seconds / 3600), 3) == 51_470.674
    assert sum(1 for row in rows if row["running_seconds"] < 300) == 2257
