"""Traces of real pods: every row is simulated exactly, or refused."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.hardware import products, profiles
from fake_gpu.fleet.model import SimulatedCluster
from fake_gpu.scenario.errors import InvalidScenario
from fake_gpu.scenario.load import LoadedScenario, load_scenario, read_scenario
from fake_gpu.scenario.trace import COLUMNS, parse_trace
from fake_gpu.scenario.trace_scenario import scenario_of_trace
from tests.fleets import HEAD, T0, check_invariants

ROOT = Path(__file__).parents[2]
HEADER = ",".join(COLUMNS) + "\n"
TRACE = (
    HEADER
    + """\
east,a,p1,u1,n1,Tesla-T4,nvidia.com/gpu,1,2026-10-01T00:00:00Z,1790812802,1790812810,1790816400,Succeeded,Job,train
east,a,p2,u2,n1,Tesla-T4,nvidia.com/gpu,1,1790812800,1790812803,1790812811,,Running,,
east,b,p3,u3,,Tesla-T4,nvidia.com/gpu,2,1790812800,1790813000,,1790813600,Pending,,
east,b,p4,u4,,Tesla-T4,nvidia.com/gpu,2,1790812800,,,1790813600,Pending,,
"""
)


def test_a_trace_is_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    fleet = build_fleet(load_scenario(path))
    [cluster] = fleet.clusters
    check_invariants(cluster)
    lives = {p.name: p for p in cluster.pods}
    assert lives["p1"].uid == "u1"
    assert lives["p1"].node_name == "n1"
    assert (lives["p1"].started_at, lives["p1"].finished_at) == (T0 + 10, T0 + 3600)
    assert lives["p1"].owners[0].kind == "Job"
    assert lives["p2"].finished_at is None
    assert lives["p3"].started_at is None
    assert lives["p3"].scheduled_at == T0 + 200
    assert lives["p3"].finished_at == T0 + 800
    assert lives["p4"].scheduled_at is None
    assert lives["p4"].gone_at == T0 + 800


def test_a_scenario_may_name_a_trace(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    text = f"""{HEAD}clusters:
  - name: east
    nodes:
      - {{name: n1, product: Tesla-T4, cards: 2}}
      - {{name: n2, product: Tesla-T4, cards: 2}}
"""
    read = read_scenario(text + "workload_trace: t.csv\n", "test.yaml", tmp_path)
    [cluster] = build_fleet(read).clusters
    assert {p.node_name for p in cluster.pods} == {"n1", "n2", ""}


def test_every_card_known_by_a_label_can_be_in_a_trace() -> None:
    """Names of passed-through devices (`nvidia.com/…`) are resources, and not labels of a node."""
    shipped = ROOT / "dbt" / "seeds"
    with (shipped / "gpu_products.csv").open(encoding="utf-8") as file:
        known = [
            row
            for row in csv.DictReader(file)
            if row["vendor"] in ("nvidia", "amd") and "/" not in row["product"]
        ]
    with (shipped / "mig_profiles.csv").open(encoding="utf-8") as file:
        cut = {(row["mig_geometry"], row["profile"]) for row in csv.DictReader(file)}
    cluster = simulate_rows(
        *(
            f"east,a,p{number},u{number},n{number},{row['product']},{row['vendor']}.com/gpu,1,"
            "1790812800,1790812802,1790812810,1790816400,Succeeded,,"
            for number, row in enumerate(known)
        )
    )
    cards = [node.cards for node in cluster.nodes]
    assert sorted(card.product for [card] in cards) == sorted(row["product"] for row in known)
    for row in known:
        own = products()[row["product"]]
        assert abs(own.memory_mib - int(row["memory_mib"])) <= 16
        assert set(profiles(own.mig_family)) == {
            profile for geometry, profile in cut if geometry == row["mig_geometry"]
        }


@pytest.mark.parametrize(
    ("row", "seen"),
    [
        ("east,a,p,u,,,nvidia.com/gpu,x,1,2,3,4,Failed,,", "is not a number of devices"),
        ("east,a,p,u,,,nvidia.com/gpu,1,9,2,3,4,Failed,,", "its times go backwards"),
        ("east,a,p,u,,,nvidia.com/gpu,1,1,,3,4,Failed,,", "never was scheduled"),
        ("east,a,p,u,,,nvidia.com/gpu,1,,,,,Failed,,", "no created_at"),
        ("east,a,p,u,,Foo,nvidia.com/gpu,1,1,2,3,4,Failed,,", "unknown product 'Foo'"),
        ("east,,p,u,,,nvidia.com/gpu,1,1,2,3,4,Failed,,", "no namespace or no pod name"),
        ("east,a,p,u,,,nvidia.com/gpu,1,noon,2,3,4,Failed,,", "'noon' is not a time"),
    ],
)
def test_an_impossible_row_is_refused_with_its_line(row: str, seen: str) -> None:
    with pytest.raises(InvalidScenario, match=seen) as raised:
        parse_trace(HEADER + row + "\n", "t.csv")
    assert raised.value.where == "t.csv:2"


def test_a_missing_column_is_named() -> None:
    with pytest.raises(InvalidScenario, match="no column owner_name"):
        parse_trace(",".join(COLUMNS[:-1]) + "\n", "t.csv")


# --- pods and their rows --------------------------------------------------------------------------


def simulate_rows(*rows: str) -> SimulatedCluster:
    """The one cluster of a trace with these rows."""
    read = parse_trace(HEADER + "\n".join(rows) + "\n", "t.csv")
    [cluster] = build_fleet(LoadedScenario(scenario_of_trace(read, "t", "t.csv"), "t.csv")).clusters
    check_invariants(cluster)
    return cluster


def refused(*rows: str) -> tuple[str, str]:
    with pytest.raises(InvalidScenario) as raised:
        simulate_rows(*rows)
    return raised.value.where, raised.value.seen


def row(
    pod: str = "p",
    *,
    uid: str = "",
    node: str = "n",
    product: str = "Tesla-T4",
    resource: str = "nvidia.com/gpu",
    count: int = 1,
    created: int = 0,
    finished: int | None = 100,
    phase: str = "Succeeded",
    owner: str = ",",
    cluster: str = "c",
) -> str:
    """Bound ten seconds after creation, started ten seconds later; times count from midnight."""
    times = [T0 + created, T0 + created + 10, T0 + created + 20]
    end = "" if finished is None else T0 + finished
    fields = [cluster, "a", pod, uid, node, product, resource, count, *times, end, phase, owner]
    return ",".join(str(each) for each in fields)


def test_without_uids_two_lifetimes_of_one_name_are_two_pods() -> None:
    """The first one's object would stay ten minutes; its name is used again after five."""
    lives = [(0, 100), (400, 500), (5000, 5100)]
    cluster = simulate_rows(*(row(created=created, finished=end) for created, end in lives))
    assert [(p.created_at - T0, (p.gone_at or 0) - T0) for p in cluster.pods] == [
        (0, 400),
        (400, 1100),
        (5000, 5700),
    ]


def test_rows_of_one_pod_are_one_pod_with_or_without_a_uid() -> None:
    for uid in ("", "u"):
        cluster = simulate_rows(
            row(uid=uid, product="", resource="nvidia.com/mig-1g.5gb", count=2),
            row(uid=uid, product="", resource="nvidia.com/mig-3g.20gb"),
        )
        [pod] = cluster.pods
        assert pod.requests == {"nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-3g.20gb": 1}


@pytest.mark.parametrize(
    ("other", "seen"),
    [
        ({"node": "m"}, "has node 'm', and 'n' in line 2"),
        ({"created": 5}, "has created_at '2026-10-01T00:00:05Z', and '2026-10-01T00:00:00Z'"),
        ({"finished": 101}, "has finished_at '2026-10-01T00:01:41Z', and '2026-10-01T00:01:40Z'"),
        ({"finished": None}, "has finished_at '', and '2026-10-01T00:01:40Z' in line 2"),
        ({"phase": "Failed"}, "has phase 'Failed', and 'Succeeded' in line 2"),
        ({"owner": "Job,j"}, "has owner_kind 'Job', and '' in line 2"),
        ({"cluster": "d"}, "has cluster 'd', and 'c' in line 2"),
        ({"pod": "q"}, "has pod 'q', and 'p' in line 2"),
        ({"product": "NVIDIA-A30"}, "is on NVIDIA-A30 here, and on Tesla-T4 in another line"),
    ],
)
def test_rows_of_one_uid_that_disagree_are_refused(other: dict[str, Any], seen: str) -> None:
    where, told = refused(row(uid="u"), row(**{"uid": "u", "resource": "amd.com/gpu", **other}))
    assert where == "t.csv:3"
    assert seen in told


def test_a_resource_occurs_once_per_pod() -> None:
    assert refused(row(uid="u"), row(uid="u", count=3)) == (
        "t.csv:3",
        "a second line of nvidia.com/gpu for pod a/p (u)",
    )


@pytest.mark.parametrize(
    ("first", "lasts"),
    [
        ({"finished": None}, "does not end"),
        ({"finished": 401}, "ends at 2026-10-01T00:06:41Z"),
        ({"created": 400, "finished": 500}, "ends at 2026-10-01T00:08:20Z"),
    ],
)
def test_a_name_belongs_to_one_pod_at_a_time(first: dict[str, Any], lasts: str) -> None:
    where, seen = refused(
        row(**{"uid": "u", **first}), row(uid="v", node="m", created=400, finished=500)
    )
    assert where == "t.csv:3"
    assert seen == (
        "pod a/p (v) is made at 2026-10-01T00:06:40Z, and the one of that name in line 2 " + lasts
    )


def test_an_owner_of_pods_with_several_requests_is_one_object() -> None:
    cluster = simulate_rows(
        row("launcher", resource="", count=0, owner="MPIJob,train"),
        row("worker", count=2, owner="MPIJob,train"),
    )
    assert [(w.kind, w.name) for w in cluster.workloads] == [("MPIJob", "train")]
    assert {pod.owners[0].uid for pod in cluster.pods} == {cluster.workloads[0].uid}


@pytest.mark.parametrize(
    ("mine", "seen"),
    [
        ("{name: train, namespace: a, kind: Job, lifetime: 1h}", "Job a/train is a workload, too"),
        (
            "{name: w, namespace: b, kind: Pod, pods: [{created: +1h, uid: u1}]}",
            "the uid 'u1' is one of the scenario's own pods",
        ),
    ],
)
def test_parts_in_both_a_scenario_and_its_trace_are_refused(
    tmp_path: Path, mine: str, seen: str
) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    text = f"{HEAD}clusters:\n  - name: east\n    workloads: [{mine}]\nworkload_trace: t.csv\n"
    with pytest.raises(InvalidScenario, match=seen) as raised:
        read_scenario(text, "test.yaml", tmp_path)
    assert raised.value.where == f"{tmp_path / 't.csv'}:2"
    other = text.replace("name: east", "name: west")
    with pytest.raises(InvalidScenario, match="no cluster 'east'"):
        read_scenario(other, "test.yaml", tmp_path)


# --- times ----------------------------------------------------------------------------------------


def test_fractions_of_seconds_are_rounded_outwards_with_a_warning(tmp_path: Path) -> None:
    """Job logs have them: the pod exists in every second that it touches."""
    header = ",".join(COLUMNS)
    first = "c,a,p,u,,,nvidia.com/gpu,1,1790812800.9,1790812801.5,1790812802.25,1790812860.1"
    whole = "c,a,q,v,,,nvidia.com/gpu,1,1790812800.0,1790812801,2026-10-01T00:00:02.000Z,1790812860"
    path = tmp_path / "jobs.csv"
    path.write_text(f"{header}\n{whole},Succeeded,,\n{first},Succeeded,,\n")
    times = ("created_at", "scheduled_at", "started_at", "finished_at")
    rows = parse_trace(path.read_text(), "jobs.csv")
    assert [[getattr(row, name) - 1790812800 for name in times] for row in rows] == [
        [0, 1, 2, 60],
        [0, 1, 2, 61],
    ]
    [warning] = load_scenario(path).warnings
    assert "1 rows have fractions of a second, the first in line 3" in warning


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("1790812800000", "created_at: 1790812800000 are no seconds since 1970, but milliseconds"),
        ("-5", "created_at: -5 is before 1970"),
        ("--5", "created_at: '--5' is not a time"),
        ("1e9", "created_at: '1e9' is not a time"),
    ],
)
def test_ambiguous_times_are_refused(written: str, seen: str) -> None:
    line = f"c,a,p,u,,,nvidia.com/gpu,1,{written},,,,Pending,,"
    where, told = refused(line)
    assert where == "t.csv:2"
    assert told.startswith(seen)


def test_a_fraction_of_zero_is_a_whole_second() -> None:
    """Programs write whole numbers in this way if a column has missing values."""
    cluster = simulate_rows(f"c,a,p,u,,,nvidia.com/gpu,1,{T0}.0,,,,Pending,,")
    assert cluster.pods[0].created_at == T0


def test_a_trace_beyond_the_limits_is_refused_with_start_and_end() -> None:
    where, seen = refused(row(created=-T0, finished=-T0 + 50), row("q"))
    assert where == "t.csv:3"
    assert seen == "it lasts 20727 days: it begins with line 2"


def test_the_window_of_a_trace_contains_all_its_times() -> None:
    late = f"c,a,p,u,n,Tesla-T4,nvidia.com/gpu,1,{T0},{T0 + 7000},{T0 + 7200},,Running,,"
    cluster = simulate_rows(late)
    assert cluster.pods[0].started_at == T0 + 7200


def test_a_line_has_the_number_of_an_editor() -> None:
    quoted = row().replace(",a,", ',"a\nb",')
    with pytest.raises(InvalidScenario) as raised:
        parse_trace(HEADER + quoted + "\n" + row(count=-1) + "\n", "t.csv")
    assert raised.value.where == "t.csv:4"


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("c,a,p,u,n,,nvidia.com/gpu,1,1,,,,Pending,,", "it is on node 'n' and never was scheduled"),
        (row(owner="CronJob,nightly"), "a CronJob without arrivals"),
        (row(count=1025), "node n would need more than it can have: 1025 cards"),
        (row(node="", count=1025), "node traced-0-0 would need more than it can have: 1025 cards"),
    ],
)
def test_an_impossible_value_is_refused_with_its_line(line: str, seen: str) -> None:
    assert refused(line) == ("t.csv:2", seen)


# --- nodes that a trace needs ---------------------------------------------------------------------


def offers(cluster: SimulatedCluster) -> dict[str, dict[str, int]]:
    return {n.name: {k: v for k, v in n.states[0].capacity.items() if v} for n in cluster.nodes}


def test_the_layout_of_a_node_follows_from_all_its_rows() -> None:
    """At once: nine of 1g.5gb, two of 3g.20gb and a whole card. 3g+3g, 7 x 1g, 2 x 1g, whole."""
    small = {"product": "", "resource": "nvidia.com/mig-1g.5gb"}
    half = {"product": "", "resource": "nvidia.com/mig-3g.20gb"}
    cluster = simulate_rows(
        row("p1", **small, count=7),
        row("p2", **small, count=2, created=50),
        row("p3", **small, count=7, created=100, finished=200),
        row("p4", **half, count=2),
        row("p5", product="", created=60),
    )
    [node] = cluster.nodes
    assert node.cards[0].product == "NVIDIA-A100-SXM4-40GB"
    assert len(node.cards) == 4
    assert offers(cluster) == {
        "n": {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb": 9, "nvidia.com/mig-3g.20gb": 2}
    }


def test_the_card_is_of_the_vendor_of_the_resource() -> None:
    cluster = simulate_rows(
        row("p1", node="", product="", resource="amd.com/gpu", count=2),
        row("p2", node="x", product="", resource="amd.com/gpu", count=3),
        row("p3", node="y", product="", resource="nvidia.com/mig-3g.40gb"),
        row("p4", node="z", product="", resource="", count=0),
    )
    products = {n.name: [c.product for c in n.cards] for n in cluster.nodes}
    assert set(products["traced-0-0"]) == {"AMD_Instinct_MI300X_OAM"}
    assert products["x"] == ["AMD_Instinct_MI300X_OAM"] * 3
    assert products["y"] == ["NVIDIA-A100-SXM4-80GB"]
    assert products["z"] == []


@pytest.mark.parametrize(
    ("rows", "line", "seen"),
    [
        (
            [row(), row("q", resource="nvidia.com/gpu.shared")],
            3,
            "no node can be made up that gives nvidia.com/gpu.shared of Tesla-T4",
        ),
        (
            [row(product="", resource="amd.com/cpx_nps4")],
            2,
            "no node can be made up that gives amd.com/cpx_nps4 of AMD_Instinct_MI300X_OAM",
        ),
        (
            [row(resource="nvidia.com/mig-1g.5gb")],
            2,
            "no node can be made up that gives nvidia.com/mig-1g.5gb of Tesla-T4",
        ),
        (
            [row(), row("q", product="NVIDIA-A30")],
            3,
            "node n has NVIDIA-A30 here, and Tesla-T4 in another line",
        ),
    ],
)
def test_a_node_without_a_possible_layout_is_refused(rows: list[str], line: int, seen: str) -> None:
    assert refused(*rows) == (f"t.csv:{line}", seen)


def test_pods_of_several_resources_get_a_node_with_all_of_them() -> None:
    parts = [
        row(f"p{n}", node="", product="", resource=f"nvidia.com/mig-{profile}", uid=f"u{n}")
        for n in range(3)
        for profile in ("1g.5gb", "2g.10gb")
    ]
    assert [len(pod.holds) for pod in simulate_rows(*parts).pods] == [2, 2, 2]
