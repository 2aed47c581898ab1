"""Devices and nodes of a simulated scenario: assignment of devices, and the effect of changes."""

from __future__ import annotations

import pytest

from fake_gpu.fleet.build import cluster_ids, stages
from fake_gpu.fleet.fault_specs import as_faults
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.scenario.load import load_scenario
from tests.fleets import T0, check_invariants, cluster_of, fleet, pods
from tests.random_fleets import scenario


def test_main_containers_reuse_the_devices_of_init_containers() -> None:
    cluster = cluster_of(
        """\
    nodes:
      - {name: n, product: NVIDIA-A100-SXM4-40GB, cards: 4}
    workloads:
      - name: p
        namespace: x
        kind: Job
        lifetime: 1h
        containers:
          - {name: prep, kind: init, requests: 2}
          - {name: side, kind: sidecar, requests: 1}
          - {name: main, requests: 1}
"""
    )
    check_invariants(cluster)
    [p] = pods(cluster, "p")
    assert dict(p.requests) == {"nvidia.com/gpu": 2}
    ids = {c.name: c.device_ids for c in p.containers}
    assert len(set(ids["prep"])) == 2
    assert set(ids["main"]) | set(ids["side"]) == set(ids["prep"])
    assert set(ids["main"]).isdisjoint(ids["side"])
    prep, side, main = p.containers
    assert prep.runs[0].ended_at is not None
    assert prep.runs[0].ended_at <= main.runs[0].started_at
    assert side.runs[0].ended_at == p.finished_at
    assert p.started_at == main.runs[0].started_at


def test_an_edited_label_has_its_new_value_only_until_the_end() -> None:
    cluster = cluster_of(
        """\
    nodes: [{name: n, product: Tesla-T4, cards: 1}]
    namespaces: [{name: chat, labels: {cost-centre: "17"}}]
    workloads: [{name: w, namespace: chat, requests: 1}]
""",
        "faults: [{fault: label_edited, namespace: chat, to: '18', from: +1h, until: +2h}]\n",
    )
    history = ObjectHistory(cluster)

    def cost_centre_at(second: int) -> str:
        chat = [
            n
            for n in history.objects_at("Namespace", T0 + second)
            if n["metadata"]["name"] == "chat"
        ]
        return str(chat[0]["metadata"]["labels"]["cost-centre"])

    assert [cost_centre_at(s) for s in (3599, 3600, 7199, 7200)] == ["17", "18", "18", "17"]


def test_the_effective_request_counts_earlier_sidecars() -> None:
    cluster = cluster_of(
        """\
    nodes:
      - {name: n, product: NVIDIA-A100-SXM4-40GB, cards: 8}
    workloads:
      - name: p
        namespace: x
        kind: Job
        lifetime: 1h
        containers:
          - {name: side, kind: sidecar, requests: 1}
          - {name: prep, kind: init, requests: 3}
          - {name: main, requests: 2}
"""
    )
    [p] = pods(cluster, "p")
    assert dict(p.requests) == {"nvidia.com/gpu": 4}
    assert len(p.holds) == 4
    assert {h.container for h in p.holds} == {"side", "prep", "main"}


def test_repartitioned_cards_have_new_devices_and_lose_their_pods() -> None:
    cluster = cluster_of(
        """\
    nodes:
      - name: n
        product: NVIDIA-A100-SXM4-40GB
        cards: 2
        mig: {layout: {"0": {1g.5gb: 7}, "1": {3g.20gb: 2}}}
        changes:
          - {at: +6h, takes: 10m, layout: {"0": {1g.5gb: 7}, "1": {7g.40gb: 1}}}
    workloads:
      - {name: small, namespace: x, replicas: 7, requests: {nvidia.com/mig-1g.5gb: 1}}
      - {name: half, namespace: x, replicas: 2, requests: {nvidia.com/mig-3g.20gb: 1}}
      - {name: big, namespace: x, kind: Job, requests: {nvidia.com/mig-7g.40gb: 1}, lifetime: 1h}
"""
    )
    check_invariants(cluster)
    node = cluster.node("n")
    before, during, after = node.states
    assert dict(before.capacity) == {
        "nvidia.com/gpu": 0,
        "nvidia.com/mig-1g.5gb": 7,
        "nvidia.com/mig-3g.20gb": 2,
    }
    assert dict(during.capacity)["nvidia.com/mig-1g.5gb"] == 7
    assert set(during.allocatable.values()) == {0}
    assert during.exporters_paused
    assert during.labels["nvidia.com/mig.config.state"] == "pending"
    assert dict(after.capacity)["nvidia.com/mig-3g.20gb"] == 0
    assert dict(after.capacity)["nvidia.com/mig-7g.40gb"] == 1
    # The other card keeps its instances and its pods.
    assert all(p.finished_at is None for p in pods(cluster, "small"))
    gone = [p for p in pods(cluster, "half") if p.scheduled_at is not None]
    assert [p.finished_at for p in gone] == [T0 + 6 * 3600] * 2
    [big] = pods(cluster, "big")
    assert big.scheduled_at == T0 + 6 * 3600 + 600


def test_an_unhealthy_card_leaves_allocatable_and_keeps_its_pod() -> None:
    cluster = cluster_of(
        """\
    nodes:
      - name: n
        product: Tesla-T4
        cards: 2
        incidents: [{card: 0, from: +2h, until: +5h, xid: 79}]
    workloads:
      - {name: old, namespace: x, kind: Deployment, requests: 1}
      - {name: new, namespace: x, kind: Job, replicas: 2, requests: 1, from: +3h, lifetime: 30m,
         scheduling: 0s, starting: 10s}
"""
    )
    check_invariants(cluster)
    healthy, ill, well = cluster.node("n").states
    assert (healthy.allocatable["nvidia.com/gpu"], ill.allocatable["nvidia.com/gpu"]) == (2, 1)
    assert ill.capacity["nvidia.com/gpu"] == 2
    assert well.allocatable["nvidia.com/gpu"] == 2
    first, second = sorted(pods(cluster, "new"), key=lambda p: p.scheduled_at or 0)
    assert (first.scheduled_at, second.scheduled_at) == (T0 + 3 * 3600, first.finished_at)
    [old] = pods(cluster, "old")
    assert old.finished_at is None


def test_an_unreachable_node_keeps_its_pods_until_it_is_back() -> None:
    cluster = cluster_of(
        """\
    nodes:
      - name: lost
        product: Tesla-T4
        cards: 1
        changes: [{at: +2h, ready: Unknown}, {at: +3h, ready: "True"}]
      - {name: spare, product: Tesla-T4, cards: 1, joins: +1h}
    workloads:
      - {name: d, namespace: x, kind: Deployment, requests: 1, scheduling: 0s, stopping: 4s}
"""
    )
    check_invariants(cluster)
    first, second = pods(cluster, "d")
    assert first.node_name == "lost"
    assert first.deletion_requested_at == T0 + 2 * 3600 + 300
    assert first.finished_at == T0 + 3 * 3600 + 4
    assert second.created_at == T0 + 2 * 3600 + 300
    assert second.node_name == "spare"


def test_a_deleted_node_removes_its_pods_without_an_end() -> None:
    cluster = cluster_of(
        """\
    nodes:
      - {name: n, product: Tesla-T4, cards: 1, leaves: +4h}
    workloads:
      - {name: p, namespace: x, kind: Pod, requests: 1}
"""
    )
    check_invariants(cluster)
    [p] = pods(cluster, "p")
    assert p.finished_at == p.gone_at == T0 + 4 * 3600
    assert not p.end_reported


def test_a_cordoned_node_keeps_its_pods_and_takes_no_new_ones() -> None:
    cluster = cluster_of(
        """\
    nodes:
      - name: n
        product: Tesla-T4
        cards: 2
        changes: [{at: +1h, cordon: true}, {at: +5h, cordon: false}]
    workloads:
      - {name: old, namespace: x, kind: Deployment, requests: 1}
      - {name: new, namespace: x, kind: Job, requests: 1, from: +2h, lifetime: 1h}
"""
    )
    [new] = pods(cluster, "new")
    assert new.scheduled_at == T0 + 5 * 3600
    [old] = pods(cluster, "old")
    assert old.finished_at is None
    assert cluster.node("n").states[1].taints == (
        ("node.kubernetes.io/unschedulable", "", "NoSchedule"),
    )


def test_pods_that_share_a_claim_are_on_one_node_with_one_device() -> None:
    cluster = cluster_of(
        """\
    nodes: [{name: n, count: 2, product: NVIDIA-H100-80GB-HBM3, cards: 2, dra: true}]
    workloads:
      - {name: s, namespace: x, kind: Deployment, replicas: 3,
         claims: [{device_class: gpu.nvidia.com, shared: one}]}
      - {name: own, namespace: x, kind: Deployment, replicas: 2,
         claims: [{device_class: gpu.nvidia.com}]}
"""
    )
    check_invariants(cluster)
    sharers = pods(cluster, "s")
    assert len({h.device_id for p in sharers for h in p.holds}) == 1
    assert len({p.node_name for p in sharers}) == 1
    shared = [c for c in cluster.claims if c.name == "one"]
    assert len(shared) == 1
    assert len(shared[0].reserved) == 3
    assert len({h.device_id for p in pods(cluster, "own") for h in p.holds}) == 2
    assert cluster.nodes[0].states[0].capacity == {}


def test_a_claim_has_one_share_if_free_memory_is_fragmented() -> None:
    """In this random fleet 10Gi are free in two parts when a pod claims them."""
    [cluster] = fleet(scenario(1814444113)).clusters
    claiming = [each for each in cluster.pods if each.node_name]
    assert len(claiming) > 10
    assert [each.name for each in claiming if len(each.holds) != 1] == []


def test_a_request_on_a_dra_node_becomes_a_claim_of_the_scheduler() -> None:
    cluster = cluster_of(
        """\
    nodes: [{name: n, product: NVIDIA-H100-80GB-HBM3, cards: 2, dra: true,
             dra_extended_resource: true}]
    workloads: [{name: p, namespace: x, kind: Pod, requests: 2}]
"""
    )
    check_invariants(cluster)
    [claim] = cluster.claims
    assert claim.extended_resource
    assert [r.device for r in claim.results] == ["gpu-0", "gpu-1"]
    assert pods(cluster, "p")[0].claims[0].claim_uid == claim.uid


def test_replicas_of_one_card_are_disjoint_ranges() -> None:
    cluster = cluster_of(
        """\
    nodes: [{name: n, product: Tesla-T4, cards: 2, sharing: {replicas: 10}}]
    workloads:
      - {name: p, namespace: x, kind: Pod, replicas: 4, requests: 4}
"""
    )
    check_invariants(cluster)
    assert dict(cluster.nodes[0].states[0].capacity) == {"nvidia.com/gpu": 20}
    per_card = {}
    for p in pods(cluster, "p"):
        [hold] = p.holds
        per_card.setdefault(hold.device_id, []).append((hold.replica_start, hold.replica_count))
    assert sorted(sorted(v) for v in per_card.values()) == [[(0, 4), (4, 4)], [(0, 4), (4, 4)]]


def test_partitions_of_amd_cards_are_separate_devices() -> None:
    cluster = cluster_of(
        """\
    nodes: [{name: n, product: AMD_Instinct_MI300X_OAM, cards: 8, partition: cpx_nps4}]
    workloads: [{name: p, namespace: x, kind: Pod, replicas: 9, requests: {amd.com/gpu: 1}}]
"""
    )
    check_invariants(cluster)
    assert dict(cluster.nodes[0].states[0].capacity) == {"amd.com/gpu": 64}
    node = cluster.nodes[0]
    cards = {node.device(h.device_id).card_id for p in cluster.pods for h in p.holds}
    assert len(cards) == 2


def test_passthrough_cards_have_their_own_resource() -> None:
    cluster = cluster_of(
        """\
    nodes: [{name: n, product: NVIDIA-H100-80GB-HBM3, cards: 2,
             passthrough: nvidia.com/GH100_H100_SXM5_80GB}]
    workloads: [{name: vm, namespace: x, kind: VirtualMachineInstance, api: kubevirt.io/v1,
                 requests: {nvidia.com/GH100_H100_SXM5_80GB: 1}}]
"""
    )
    assert dict(cluster.nodes[0].states[0].capacity) == {"nvidia.com/GH100_H100_SXM5_80GB": 2}
    assert "nvidia.com/gpu.product" not in cluster.nodes[0].states[0].labels
    assert len(pods(cluster, "vm")[0].holds) == 1


@pytest.mark.parametrize(
    "name", ["mig_layout_changed", "unhealthy_cards", "node_without_heartbeat", "demo"]
)
def test_the_free_devices_are_known_at_every_event(name: str) -> None:
    read = load_scenario(name)
    faults = as_faults(read.scenario, cluster_ids(read.scenario))
    for stage in stages(read, faults, {}):
        for _ in stage.simulation.run():
            assert stage.simulation.cluster_nodes.counts_agree(stage.simulation.now)
