"""In every random scenario no card is held twice, and the truth agrees with its seconds."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fake_gpu.fleet.build import build_fleet, cluster_ids, stages
from fake_gpu.fleet.export import plain_rows
from fake_gpu.fleet.fault_specs import as_faults
from fake_gpu.fleet.hardware import place, products, profiles
from fake_gpu.fleet.model import Fleet
from fake_gpu.scenario.seeds import RandomStream, stream
from fake_gpu.truth.ledger import ledger
from tests.fleets import check_invariants, loaded

NODES = (
    "{name: whole, product: NVIDIA-A100-SXM4-80GB, cards: 4}",
    "{name: shared, product: Tesla-T4, cards: 2, sharing: {replicas: 5}}",
    "{name: mig, product: NVIDIA-A100-SXM4-40GB, cards: 2, mig: {layout: {all: {1g.5gb: 3,"
    " 4g.20gb: 1}}}, changes: [{at: +50m, takes: 4m, layout: {'0': {7g.40gb: 1},"
    " '1': {1g.5gb: 3, 4g.20gb: 1}}}]}",
    "{name: amd, product: AMD_Instinct_MI300X_OAM, cards: 2, partition: qpx_nps1}",
    "{name: dra, product: NVIDIA-H100-80GB-HBM3, cards: 2, dra: true}",
    "{name: goes, product: Tesla-T4, cards: 2, leaves: +80m}",
    "{name: lost, product: Tesla-T4, cards: 2, changes: [{at: +30m, ready: Unknown},"
    " {at: +70m, ready: 'True'}]}",
)
ASKS = (
    "requests: 1",
    "requests: 3",
    "requests: {nvidia.com/mig-1g.5gb: 2}",
    "requests: {nvidia.com/mig-4g.20gb: 1}",
    "requests: {amd.com/gpu: 3}",
    "claims: [{device_class: gpu.nvidia.com}]",
    "claims: [{device_class: gpu.nvidia.com, shared: all}]",
    "containers: [{name: i, kind: init, requests: 2}, {name: s, kind: sidecar, requests: 1},"
    " {name: m, requests: 1}]",
)
KINDS = ("Deployment", "StatefulSet", "Job", "Pod", "CronJob")
FAULTS = ("evicted_without_end", "pods_replaced", "preemption", "crash_loop")


@st.composite
def scenarios(draw: st.DrawFn) -> str:
    lines = ["name: drawn", f"seed: {draw(st.integers(0, 10**6))}", "from: 2026-10-01T00:00:00Z"]
    lines += ["until: 2026-10-01T02:00:00Z", "clusters:", "  - name: c", "    nodes:"]
    lines += [f"      - {node}" for node in draw(st.sets(st.sampled_from(NODES), min_size=1))]
    lines.append("    workloads:")
    for n in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(KINDS))
        parts = [f"name: w{n}", f"namespace: {draw(st.sampled_from('xy'))}", f"kind: {kind}"]
        parts.append(draw(st.sampled_from(ASKS)))
        parts.append(f"lifetime: {draw(st.sampled_from(['~10m', '3s..40m', '20m~1.1']))}")
        if kind in ("Job", "Pod", "CronJob"):
            parts.append(f"arrivals: {{every: {draw(st.sampled_from(['~3m', '7m', '1s..9m']))}}}")
        parts.append(f"replicas: {draw(st.integers(1, 3))}")
        if draw(st.booleans()):
            parts.append("restarts: {every: ~4m, pause: 1s..20s}")
        lines.append("      - {" + ", ".join(parts) + "}")
    faults = sorted(draw(st.sets(st.sampled_from(FAULTS))))
    lines += ["faults:", *(f"  - {{fault: {f}, from: +40m, until: +1h}}" for f in faults)]
    return "\n".join(lines) + "\n"


@given(scenarios())
def test_no_scenario_breaks_an_invariant(text: str) -> None:
    check_invariants(build_fleet(loaded(text)).clusters[0])


@given(scenarios())
def test_free_units_are_counted_right_at_every_event(text: str) -> None:
    """The scheduler's incremental counts equal a count of all devices after every event."""
    read = loaded(text)
    faults = as_faults(read.scenario, cluster_ids(read.scenario))
    [stage] = stages(read, faults, {})
    for _ in stage.simulation.run():
        assert stage.simulation.cluster_nodes.counts_agree(stage.simulation.now)
    assert stage.simulation.cluster_nodes.counts_agree(stage.simulation.now)


@given(scenarios())
def test_the_same_text_gives_the_same_fleet(text: str) -> None:
    assert build_fleet(loaded(text)) == build_fleet(loaded(text))


@given(scenarios())
def test_the_truth_agrees_with_counting_every_second(text: str) -> None:
    """The ledgers walk over edges; the reference walks over seconds of the model itself."""
    fleet = build_fleet(loaded(text))
    rows = plain_rows(fleet)
    busy = busy_by_second(fleet)
    for row in ledger(rows, "node-hours", instants=False):
        seconds = range(row["hour_started_at"], row["hour_started_at"] + 3600)
        counts = [len(busy[row["node_name"]].get(s, ())) for s in seconds]
        assert row["gpu_count_max"] == max(counts)
        assert row["gpu_seconds"] == sum(counts)
        assert row["gpu_count_max_bound"] <= row["gpu_count_max"] <= row["gpu_capacity"]
    for row in ledger(rows, "cluster-hours", instants=False):
        seconds = range(row["hour_started_at"], row["hour_started_at"] + 3600)
        at_once = [sum(len(cards.get(s, ())) for cards in busy.values()) for s in seconds]
        assert row["simultaneous_max"] == max(at_once)
        assert row["gpu_seconds"] == sum(at_once)
        assert row["simultaneous_max"] <= row["sum_of_node_max"]


def busy_by_second(fleet: Fleet) -> dict[str, dict[int, set[str]]]:
    """By node and second, the cards that a running pod holds."""
    busy: dict[str, dict[int, set[str]]] = {n.name: {} for n in fleet.clusters[0].nodes}
    for pod in fleet.clusters[0].pods:
        started = pod.started_at
        if started is None:
            continue
        node = fleet.clusters[0].node(pod.node_name)
        end = fleet.ended_at if pod.finished_at is None else pod.finished_at
        for hold in pod.holds:
            card = node.device(hold.device_id).card_id
            for second in range(max(started, fleet.started_at), min(end, fleet.ended_at)):
                busy[node.name].setdefault(second, set()).add(card)
    return busy


@given(scenarios())
def test_tenants_add_up_to_allocations(text: str) -> None:
    """Shared claims are split and not counted twice: a card held by k pods is one card."""
    fleet = build_fleet(loaded(text))
    rows = plain_rows(fleet)
    tenants: dict[str, Fraction] = defaultdict(Fraction)
    for row in ledger(rows, "tenant-periods"):
        tenants[row["namespace"]] += Fraction(
            row["running_device_seconds_numerator"] + 0, row["running_device_seconds_denominator"]
        )
    allocated: dict[str, int] = defaultdict(int)
    shared: dict[str, bool] = defaultdict(bool)
    for row in ledger(rows, "allocations"):
        allocated[row["namespace"]] += row["device_seconds"]
        shared[row["namespace"]] |= bool(row["claim_uid"])
    for namespace, seconds in tenants.items():
        if shared[namespace]:
            assert seconds <= allocated[namespace]
        else:
            assert seconds == allocated[namespace]


LAYOUT_PROFILES = sorted(profiles("a100-40"))


@given(st.dictionaries(st.sampled_from(LAYOUT_PROFILES), st.integers(1, 4), max_size=4))
def test_placed_instances_never_overlap_and_unplaceable_layouts_are_none(
    layout: dict[str, int],
) -> None:
    product = products()["NVIDIA-A100-SXM4-40GB"]
    placed = place(product, layout)
    if placed is None:
        return
    slots = [s for p in placed for s in range(p.start, p.start + p.profile.placement_size)]
    assert len(slots) == len(set(slots))
    assert sum(p.profile.compute_slots for p in placed) <= 7
    assert all(p.start in p.profile.placement_starts for p in placed)


@given(st.integers(), st.text(), st.integers(1, 10**6))
def test_draws_stay_in_their_range(seed: int, name: str, limit: int) -> None:
    def draws(source: RandomStream) -> list[Any]:
        return [source.below(limit), source.between(-5, limit), source.uuid(), source.letters(5)]

    one, again = draws(stream(seed, name)), draws(stream(seed, name))
    assert one == again
    assert 0 <= one[0] < limit
    assert -5 <= one[1] <= limit
    assert stream(seed, name).exponential(limit) >= 0
    assert stream(seed, name).lognormal(limit, 1000) >= 0
