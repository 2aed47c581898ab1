"""Fleets simulated from scenario text, and checks that many tests share.

Put here: building a fleet in one line, and brute-force checks of any fleet.
Not here: fleets written out value by value (`small_fleets`).
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Fleet, PodLifetime, SimulatedCluster
from fake_gpu.scenario.load import LoadedScenario, read_scenario

FOR_EVER = 1 << 60
T0 = 1_790_812_800  # 2026-10-01T00:00:00Z

HEAD = "name: test\nfrom: 2026-10-01T00:00:00Z\nuntil: 2026-10-02T00:00:00Z\n"


def loaded(text: str) -> LoadedScenario:
    return read_scenario(text, "test.yaml", None)


def fleet(text: str) -> Fleet:
    return build_fleet(loaded(text))


def cluster_of(body: str, extra: str = "", seed: int = 1) -> SimulatedCluster:
    """The one cluster of a scenario whose cluster entry is `body`, indented by four spaces."""
    text = f"{HEAD}seed: {seed}\nclusters:\n  - name: c\n{body}\n{extra}"
    return fleet(text).clusters[0]


def pod(cluster: SimulatedCluster, name: str) -> PodLifetime:
    found = [p for p in cluster.pods if p.name == name]
    assert len(found) == 1, f"{len(found)} pods are called {name}"
    return found[0]


def pods(cluster: SimulatedCluster, workload: str) -> list[PodLifetime]:
    return [p for p in cluster.pods if p.workload == workload]


def _end(end: int | None) -> int:
    return FOR_EVER if end is None else end


def check_invariants(cluster: SimulatedCluster) -> None:
    """Check the properties of every simulated cluster by brute force."""
    check_names(cluster)
    check_nobody_shares_a_device(cluster)
    check_shares_fit_cards(cluster)
    for each in cluster.pods:
        check_life(cluster, each)
    for node in cluster.nodes:
        for before, after in zip(node.states, node.states[1:], strict=False):
            assert before.until_at == after.from_at
        assert node.states[0].from_at == node.created_at
        assert node.states[-1].until_at == node.gone_at
        for state in node.states:
            assert set(state.allocatable) == set(state.capacity)
            assert all(state.allocatable[r] <= state.capacity[r] for r in state.capacity)


def check_names(cluster: SimulatedCluster) -> None:
    """A UID belongs to one pod, and a name to one pod at a time."""
    assert len({p.uid for p in cluster.pods}) == len(cluster.pods)
    by_name = defaultdict(list)
    for each in cluster.pods:
        by_name[(each.namespace, each.name)].append((each.created_at, _end(each.gone_at)))
    for name, spans in by_name.items():
        for before, after in pairwise(sorted(spans)):
            assert before[1] <= after[0], f"two pods called {name} at {after[0]}"


def check_nobody_shares_a_device(cluster: SimulatedCluster) -> None:
    taken = defaultdict(list)
    for each in cluster.pods:
        for hold in each.holds:
            taken[hold.device_id].append((hold, each.uid))
    for holds in taken.values():
        for n, (one, one_uid) in enumerate(holds):
            for other, other_uid in holds[n + 1 :]:
                apart_in_time = (
                    _end(one.held_until) <= other.held_from
                    or _end(other.held_until) <= one.held_from
                )
                apart_in_replicas = (
                    one.replica_start + one.replica_count <= other.replica_start
                    or other.replica_start + other.replica_count <= one.replica_start
                )
                one_claim = one.claim_uid != "" and one.claim_uid == other.claim_uid
                assert apart_in_time or apart_in_replicas or (one_claim and one_uid != other_uid)


def check_shares_fit_cards(cluster: SimulatedCluster) -> None:
    """At every instant, the held devices of a card are at most the card, in both dimensions."""
    for node in cluster.nodes:
        for card in node.cards:
            devices = {d.device_id: d for d in node.devices if d.card_id == card.card_id}
            seen: dict[tuple[str, int, int, int], None] = {}
            for each in cluster.pods:
                for hold in each.holds:
                    if hold.device_id in devices:
                        key = hold.claim_uid or f"{each.uid}/{hold.replica_start}"
                        seen[
                            (
                                f"{hold.device_id}|{key}",
                                hold.held_from,
                                _end(hold.held_until),
                                hold.replica_count,
                            )
                        ] = None
            for _, at, _, _ in seen:
                now = {}
                for name, begin, end, count in seen:
                    if begin <= at < end:
                        now[name] = (devices[name.split("|")[0]], count)
                for dimension in ("compute_share", "memory_share"):
                    total = sum(
                        (getattr(d, dimension) * count for d, count in now.values()), Fraction(0)
                    )
                    assert total <= 1, f"{card.card_id} at {at}: {total}"


def check_life(cluster: SimulatedCluster, each: PodLifetime) -> None:
    times = [each.created_at, each.scheduled_at, each.started_at, each.finished_at]
    known = [t for t in times if t is not None]
    assert known == sorted(known), f"{each.name}: {times}"
    if each.gone_at is not None:
        assert each.gone_at >= max(known)
    assert [c.at for c in each.phases] == sorted(c.at for c in each.phases)
    requested = sum(each.requests.values())
    if each.scheduled_at is None:
        assert not each.holds
        assert not each.node_name
        return
    plain = [h for h in each.holds if not h.claim_uid]
    extended = {c.claim_uid for c in each.claims if c.extended_resource}
    by_claim = [h for h in each.holds if h.claim_uid in extended]
    assert sum(h.replica_count for h in (*plain, *by_claim)) == requested
    node = cluster.node(each.node_name)
    for hold in each.holds:
        device = node.device(hold.device_id)
        assert device.exists_from <= hold.held_from
        assert hold.held_from == each.scheduled_at
        assert hold.held_until == each.finished_at
        if device.exists_until is not None:
            assert hold.held_until is not None
            assert hold.held_until <= device.exists_until
    for container in each.containers:
        for before, after in zip(container.runs, container.runs[1:], strict=False):
            assert before.ended_at is not None
            assert before.ended_at <= after.started_at
        for run in container.runs:
            assert run.started_at >= each.scheduled_at
            assert run.ended_at is None or run.ended_at <= _end(each.finished_at)
            assert run.ended_at is not None or each.finished_at is None
