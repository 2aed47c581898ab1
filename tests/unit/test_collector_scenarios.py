"""The journal of whole scenarios equals the pod lifetimes of the simulated fleet to the second.

Expected values come from the fleet itself and not from the API's objects: bound, first main
container started, last container ended, object deleted, and the devices held.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from domain.gpu import may_be_a_device
from domain.interval import Interval, hour_of
from fake_gpu.clock import epoch
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Fleet, PodLifetime, SimulatedCluster
from fake_gpu.kubernetes.pace import HOUR_SECONDS, stops
from fake_gpu.scenario.load import load_scenario, read_scenario
from ingestion.kubernetes.pull import pull_hours
from tests.collected import World, world

QUIET = [
    "unhealthy_cards",
    "mig_layout_changed",
    "evicted_without_an_end",
    "every_way_to_share",
    "init_and_sidecars",
    "namespace_recreated",
    "node_drained_mid_hour",
    "node_without_heartbeat",
    "odd_names_and_labels",
    "quota_and_queue",
    "relabelled_node",
    "restarts_and_crash_loops",
    "pod_name_reused",
    "shorter_than_a_scrape",
    "thin_line",
]

Row = dict[str, Any]


def run_fleet(made: World, fleet: Fleet) -> None:
    """Drive the clock through the whole scenario; the collector catches up at every step."""
    made.start_collector()
    # Events of the last moments may arrive in the hour after the scenario.
    end = fleet.ended_at + HOUR_SECONDS
    for at in stops(made.api.history, fleet.started_at, end, fleet.faults):
        made.clock.advance_to(epoch(at))
        made.catch_up()


def landed_rows(made: World, fleet: Fleet) -> dict[str, list[Row]]:
    """The tables of every whole hour of the scenario."""
    tables: dict[str, list[Row]] = {}
    start, end = epoch(fleet.started_at), hour_of(epoch(fleet.ended_at + HOUR_SECONDS))
    while start < end:
        until = min(end, start + timedelta(hours=24))
        window = Interval(start, until)
        cluster_id = made.cluster.cluster_id
        attempt = pull_hours(cluster_id, window, made.spool, made.landing, made.clock)
        for table, rows in made.rows(attempt).items():
            tables.setdefault(table, []).extend(rows)
        start = until
    return tables


def holders(cluster: SimulatedCluster, fleet: Fleet) -> list[PodLifetime]:
    """The pods that requested a device and existed during the scenario."""
    return [
        pod
        for pod in cluster.pods
        if (any(may_be_a_device(r) and n for r, n in pod.requests.items()) or pod.claims)
        and pod.created_at < fleet.ended_at
        and (pod.gone_at is None or pod.gone_at > fleet.started_at)
    ]


def recorded_times(rows: list[Row]) -> dict[str, Row]:
    """For each pod the earliest bound and start, the end, and the time when it was gone."""
    found: dict[str, Row] = {}
    for row in rows:
        known = found.setdefault(row["pod_uid"], {"rows": 0})
        known["rows"] += 1
        for name in ("bound_at", "started_at"):
            times = [t for t in (known.get(name), row[name]) if t is not None]
            known[name] = min(times, default=None)
        known["ended_at"] = known.get("ended_at") or row["ended_at"]
        if row["deleted"]:
            known["gone_at"] = row["observed_at"]
    return found


def at_or_none(second: int | None, before: int) -> datetime | None:
    return epoch(second) if second is not None and second < before else None


@pytest.mark.parametrize("name", QUIET)
def test_the_journal_equals_the_simulated_fleet(tmp_path: Path, name: str) -> None:
    check_journal(tmp_path, build_fleet(load_scenario(name)))


RECUT = """
name: recut
story: A node's cards are cut anew in the middle of an hour, and its pods go.
seed: 5
from: 2026-10-05T00:00:00Z
until: 2026-10-05T03:00:00Z
clusters:
  - name: lab
    nodes:
      - {name: a100, product: NVIDIA-A100-SXM4-40GB, cards: 2, mig: {layout: {all: {1g.5gb: 7}}}}
    workloads:
      - {name: small, namespace: speech, kind: Deployment, replicas: 5,
         requests: {nvidia.com/mig-1g.5gb: 1}}
faults:
  - {fault: mig_repartition, from: +50m, node: a100, layout: all-2g.10gb, takes: 6m}
"""


def test_a_repartitioned_card_ends_its_pods_to_the_second(tmp_path: Path) -> None:
    fleet = build_fleet(read_scenario(RECUT, "recut.yaml", None))
    (node,) = fleet.clusters[0].nodes
    assert len(node.states) > 1
    check_journal(tmp_path, fleet)


OWNED = """
name: owned
story: Operators own the owners of pods.
seed: 5
from: 2026-10-05T00:00:00Z
until: 2026-10-05T01:00:00Z
clusters:
  - name: lab
    nodes:
      - {name: a100, product: NVIDIA-A100-SXM4-40GB, cards: 8}
    workloads:
      - {name: chat-predictor, namespace: speech, kind: Deployment, requests: 1,
         owners: [{kind: InferenceService, api: serving.kserve.io/v1beta1, name: chat}]}
      - {name: lab-book, namespace: speech, kind: StatefulSet, requests: 1,
         owners: [{kind: Notebook, api: kubeflow.org/v1, name: lab-book}]}
      - {name: ray-raycluster, namespace: speech, kind: RayCluster, api: ray.io/v1, requests: 1,
         owners: [{kind: RayJob, api: ray.io/v1, name: ray}]}
      - {name: revision, namespace: speech, kind: Deployment, requests: 1,
         owners: [{kind: Revision, api: serving.knative.dev/v1, name: llm-1},
                  {kind: Configuration, api: serving.knative.dev/v1, name: llm},
                  {kind: Service, api: serving.knative.dev/v1, name: llm},
                  {kind: InferenceService, api: serving.kserve.io/v1beta1, name: llm}]}
      - {name: own, namespace: speech, kind: Deployment, requests: 1,
         owners: [{kind: Unheard, api: example.com/v1, name: of}]}
"""


def test_a_pod_belongs_to_its_topmost_owner(tmp_path: Path) -> None:
    """The workload of the scenario, and every owner between it and the pod, are in the journal."""
    fleet = build_fleet(read_scenario(OWNED, "owned.yaml", None))
    (cluster,) = fleet.clusters
    with world(cluster, tmp_path, fleet.started_at) as made:
        run_fleet(made, fleet)
        rows = landed_rows(made, fleet)["pod_observations"]
        links = {line["uid"]: line["object"] for line in made.lines("owner")}
    workloads = {(row["workload_kind"], row["workload_name"]) for row in rows}
    assert workloads == {
        ("InferenceService", "chat"),
        ("Notebook", "lab-book"),
        ("RayJob", "ray"),
        ("InferenceService", "llm"),
        ("Unheard", "of"),
    }
    for pod in cluster.pods:
        for owner, above in zip(pod.owners, pod.owners[1:], strict=False):
            assert links[owner.uid]["metadata"]["owner"]["uid"] == above.uid
    assert len(links) == sum(len(pod.owners) for pod in cluster.pods)


def check_journal(tmp_path: Path, fleet: Fleet) -> None:
    for cluster in fleet.clusters:
        folder = tmp_path / cluster.name
        with world(cluster, folder, fleet.started_at, faults=fleet.faults) as made:
            run_fleet(made, fleet)
            rows = landed_rows(made, fleet)
            assert rows["journal_gaps"] == []
            known = recorded_times(rows["pod_observations"])
            expected = holders(cluster, fleet)
            assert {pod.uid for pod in expected} <= known.keys()
            later = {p.uid for p in cluster.pods if p.created_at >= fleet.ended_at}
            assert known.keys() - {pod.uid for pod in expected} <= later
            for pod in expected:
                check_life(pod, known[pod.uid], fleet)
            check_requests(expected, rows["pod_requests"], later)
            check_nodes(cluster, rows["node_resources"], fleet)
            check_claims(cluster, rows["claim_observations"], fleet)
            check_namespaces(cluster, rows["namespace_observations"], fleet)
            check_quotas(cluster, rows["quota_observations"], fleet)


def check_life(pod: PodLifetime, known: Row, fleet: Fleet) -> None:
    until = fleet.ended_at
    known = {n: t if not isinstance(t, datetime) or t < epoch(until) else None
             for n, t in known.items()}  # fmt: skip
    assert known["bound_at"] == at_or_none(pod.scheduled_at, until), pod.name
    if pod.started_at is not None and pod.started_at < fleet.started_at:
        # A container that restarted before the watch began shows only its later start.
        began_at = epoch(pod.started_at)
        assert began_at <= known["started_at"] <= epoch(fleet.started_at), pod.name
    else:
        assert known["started_at"] == at_or_none(pod.started_at, until), pod.name
    if pod.end_reported:
        ran = any(c.runs for c in pod.containers)
        finished_at = pod.finished_at if ran else None
        assert known["ended_at"] == at_or_none(finished_at, until), pod.name
    else:
        assert known["ended_at"] is None, pod.name
    gone_at = at_or_none(pod.gone_at, until)
    if pod.end_reported and pod.finished_at is not None:
        # Its status contains its end, so the clock need not stop when it was deleted.
        assert known.get("gone_at") is None or known["gone_at"] >= gone_at, pod.name
    else:
        assert known.get("gone_at") == gone_at, pod.name


def check_requests(pods: list[PodLifetime], rows: list[Row], later: set[str]) -> None:
    landed = {
        (r["pod_uid"], r["resource"], r["device_count"]) for r in rows if r["pod_uid"] not in later
    }
    asked = {
        (pod.uid, resource, count)
        for pod in pods
        for resource, count in pod.requests.items()
        if may_be_a_device(resource) and count
    }
    assert landed == asked


def check_nodes(cluster: SimulatedCluster, rows: list[Row], fleet: Fleet) -> None:
    """Check every capacity and allocatable, from the second of its change."""
    landed = {
        (r["node_name"], r["observed_at"], r["resource"]): (r["capacity"], r["allocatable"])
        for r in rows
    }
    for node in cluster.nodes:
        for state in node.states:
            if not fleet.started_at < state.from_at < fleet.ended_at:
                continue
            for resource, count in state.capacity.items():
                if not may_be_a_device(resource):
                    continue
                seen = landed.get((node.name, epoch(state.from_at), resource))
                # A state without a change in the kept fields adds no row.
                assert seen in (None, (count, state.allocatable.get(resource, 0)))


def check_claims(cluster: SimulatedCluster, rows: list[Row], fleet: Fleet) -> None:
    """Check which pod held which device through a claim, and since when."""
    landed: dict[tuple[str, str], list[tuple[datetime, tuple[str, ...]]]] = {}
    for row in rows:
        key = (row["claim_uid"], row["device"])
        landed.setdefault(key, []).append((row["observed_at"], tuple(row["pod_uids"])))
    for claim in cluster.claims:
        for uid, _, from_at, until_at in claim.reserved:
            if not fleet.started_at < from_at < fleet.ended_at:
                continue
            for result in claim.results:
                seen = landed[claim.uid, result.device]
                assert any(at == epoch(from_at) and uid in users for at, users in seen)
                if until_at is not None and until_at < fleet.ended_at:
                    after = [users for at, users in seen if at >= epoch(until_at)]
                    assert all(uid not in users for users in after)


def check_namespaces(cluster: SimulatedCluster, rows: list[Row], fleet: Fleet) -> None:
    """Check every lifetime of every namespace, by its UID."""
    landed = {(r["namespace"], r["namespace_uid"]) for r in rows}
    gone = {r["namespace_uid"]: r["observed_at"] for r in rows if r["deleted"]}
    for life in cluster.namespaces:
        if life.created_at >= fleet.ended_at or (life.gone_at or 1 << 40) <= fleet.started_at:
            continue
        assert (life.name, life.uid) in landed
        if life.gone_at is not None and life.gone_at < fleet.ended_at:
            assert gone[life.uid] == epoch(life.gone_at)


def check_quotas(cluster: SimulatedCluster, rows: list[Row], fleet: Fleet) -> None:
    """Check hard and used values of quotas, from the second of their change."""
    landed = {
        (r["namespace"], r["quota_name"], r["observed_at"], r["resource"]): (r["hard"], r["used"])
        for r in rows
    }
    for quota in cluster.quotas:
        for at, counts in quota.used:
            if not fleet.started_at < at < fleet.ended_at:
                continue
            for name, used in counts.items():
                key = (quota.namespace, quota.name, epoch(at), name.removeprefix("requests."))
                # A change that is reverted within the same second leaves no row.
                assert landed.get(key, (0, used))[1] == used


def test_a_recreated_namespace_has_two_uids_and_an_end_between(tmp_path: Path) -> None:
    fleet = build_fleet(load_scenario("namespace_recreated"))
    (cluster,) = fleet.clusters
    twice = [n.name for n in cluster.namespaces if _lives(cluster, n.name) > 1]
    assert twice
    with world(cluster, tmp_path, fleet.started_at) as made:
        run_fleet(made, fleet)
        rows = landed_rows(made, fleet)["namespace_observations"]
    uids = {r["namespace_uid"] for r in rows if r["namespace"] == twice[0]}
    assert len(uids) == 2
    assert [r["namespace_uid"] for r in rows if r["namespace"] == twice[0] and r["deleted"]]


def _lives(cluster: SimulatedCluster, name: str) -> int:
    return sum(1 for life in cluster.namespaces if life.name == name)


def test_devices_of_claims_have_their_product(tmp_path: Path) -> None:
    fleet = build_fleet(load_scenario("every_way_to_share"))
    (cluster,) = fleet.clusters
    with world(cluster, tmp_path, fleet.started_at) as made:
        run_fleet(made, fleet)
        rows = landed_rows(made, fleet)
    offered = {(r["pool"], r["device"]): r for r in rows["slice_devices"]}
    held = {(r["pool"], r["device"]) for r in rows["claim_observations"]}
    assert held
    assert held <= offered.keys()
    real = {d.device_id for n in cluster.nodes for d in n.devices}
    assert {offered[key]["device_uuid"] for key in held} <= real
    assert all(offered[key]["product"] for key in held)


def test_a_gap_hides_only_events_inside_it(tmp_path: Path) -> None:
    """watch_gap: lifetimes outside the gap are exact; values that the gap hides lie within its
    edges.
    """
    fleet = build_fleet(load_scenario("watch_gap"))
    (cluster,) = fleet.clusters
    with world(cluster, tmp_path, fleet.started_at, faults=fleet.faults) as made:
        run_fleet(made, fleet)
        assert all(made.ledger.count(fault.fault_id) for fault in fleet.faults)
        rows = landed_rows(made, fleet)
        gaps = [
            (int(g["gap_started_at"].timestamp()), int(g["gap_ended_at"].timestamp()))
            for g in rows["journal_gaps"]
        ]
        assert gaps
        known = recorded_times(rows["pod_observations"])
        exact = 0
        for pod in holders(cluster, fleet):
            end = pod.gone_at if pod.gone_at is not None else fleet.ended_at
            if not any(a < end and pod.created_at <= b for a, b in gaps):
                check_life(pod, known[pod.uid], fleet)
                exact += 1
            elif pod.uid in known:
                check_within(pod, known[pod.uid])
            else:
                assert any(a <= pod.created_at and end <= b for a, b in gaps), pod.name
        assert exact > 50


def check_within(pod: PodLifetime, known: Row) -> None:
    """Check that the known times of a pod with a gap are true."""
    for name, second in (
        ("bound_at", pod.scheduled_at),
        ("started_at", pod.started_at),
        ("ended_at", pod.finished_at),
    ):
        assert known[name] in (None, at_or_none(second, 1 << 40)), f"{pod.name} {name}"
    if "gone_at" in known:
        assert pod.gone_at is not None
        assert known["gone_at"] >= epoch(pod.gone_at)
