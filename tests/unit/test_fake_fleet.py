"""Simulated scenarios: which pod runs where and when, in situations that are easy to check."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import subprocess
import sys

import pytest

from fake_gpu.fleet.build import build_fleet, iter_pods
from fake_gpu.scenario.errors import InvalidScenario
from fake_gpu.scenario.load import load_scenario
from tests.fleets import T0, check_invariants, cluster_of, fleet, loaded, pod, pods

ONE_NODE = """\
    nodes:
      - {name: n, product: NVIDIA-A100-SXM4-40GB, cards: 2}
    workloads:
"""


def test_the_thin_line_matches_its_description() -> None:
    cluster = build_fleet(load_scenario("thin_line")).clusters[0]
    check_invariants(cluster)
    first, second = pods(cluster, "sweep")
    assert first.finished_at == second.scheduled_at
    assert first.holds[0].device_id == second.holds[0].device_id
    blink = pod(cluster, "blink")
    assert (blink.finished_at or 0) - (blink.started_at or 0) == 11
    notebook = pod(cluster, "notebook-0")
    assert len(notebook.containers[0].runs) == 2
    assert len(notebook.holds) == 1


def test_a_pod_that_requests_too_much_waits_for_free_devices() -> None:
    cluster = cluster_of(
        ONE_NODE
        + """\
      - {name: a, namespace: x, kind: Job, requests: 2, lifetime: 1h, scheduling: 0s, starting: 5s}
      - {name: b, namespace: x, kind: Job, requests: 1, from: +1m, lifetime: 1h, scheduling: 0s,
         starting: 5s}
"""
    )
    check_invariants(cluster)
    [a], [b] = pods(cluster, "a"), pods(cluster, "b")
    assert a.scheduled_at == T0
    assert b.created_at == T0 + 60
    assert b.scheduled_at == a.finished_at == T0 + 5 + 3600
    assert b.phase_at(T0 + 600).phase == "Pending"  # type: ignore[union-attr]


def test_a_pod_that_can_never_be_placed_stays_pending() -> None:
    cluster = cluster_of(ONE_NODE + "      - {name: a, namespace: x, kind: Job, requests: 3}\n")
    [a] = pods(cluster, "a")
    assert a.scheduled_at is None
    assert a.node_name == ""
    assert [p.phase for p in a.phases] == ["Pending"]


def test_a_recreated_statefulset_pod_has_its_name_and_another_uid() -> None:
    cluster = cluster_of(
        ONE_NODE + "      - {name: s, namespace: x, kind: StatefulSet, requests: 1, lifetime: 6h}\n"
    )
    check_invariants(cluster)
    lives = pods(cluster, "s")
    assert len(lives) >= 4
    assert {p.name for p in lives} == {"s-0"}
    assert len({p.uid for p in lives}) == len(lives)
    for before, after in itertools.pairwise(lives):
        assert before.gone_at == after.created_at


def test_a_deployment_replaces_a_pod_when_it_is_deleted() -> None:
    cluster = cluster_of(
        ONE_NODE + "      - {name: d, namespace: x, kind: Deployment, requests: 1, lifetime: 6h}\n"
    )
    check_invariants(cluster)
    lives = pods(cluster, "d")
    for before, after in itertools.pairwise(lives):
        assert before.deletion_requested_at == after.created_at
        assert before.name != after.name
    chain = [owner.kind for owner in lives[0].owners]
    assert chain == ["ReplicaSet", "Deployment"]
    assert {w.kind for w in cluster.workloads} == {"ReplicaSet", "Deployment"}


def test_a_failed_job_is_retried_twice() -> None:
    cluster = cluster_of(
        ONE_NODE
        + "      - {name: j, namespace: x, kind: Job, requests: 1, lifetime: 10m, failures: 100%}\n"
    )
    lives = pods(cluster, "j")
    assert len(lives) == 3
    assert all(p.phases[-1].phase == "Failed" for p in lives)
    assert len({p.owners[0].uid for p in lives}) == 1


def test_a_cron_job_creates_jobs_that_create_pods() -> None:
    cluster = cluster_of(
        ONE_NODE
        + "      - {name: c, namespace: x, kind: CronJob, requests: 1, arrivals: {every: 6h},"
        " lifetime: 5m}\n"
    )
    lives = pods(cluster, "c")
    starts = [p.created_at for p in lives if p.created_at < T0 + 86_400]
    assert starts == [T0 + 6 * 3600, T0 + 12 * 3600, T0 + 18 * 3600]
    assert [o.kind for o in lives[0].owners] == ["Job", "CronJob"]
    assert lives[0].owners[0].name == f"c-{lives[0].created_at // 60}"


def test_a_custom_kind_owns_all_pods_of_one_arrival() -> None:
    cluster = cluster_of(
        ONE_NODE
        + "      - {name: t, namespace: x, kind: PyTorchJob, api: kubeflow.org/v1, replicas: 2,"
        " requests: 1, lifetime: 1h}\n"
    )
    lives = pods(cluster, "t")
    assert sorted(p.name for p in lives) == ["t-worker-0", "t-worker-1"]
    assert {(o.api_version, o.kind) for p in lives for o in p.owners} == {
        ("kubeflow.org/v1", "PyTorchJob")
    }


def test_a_daemon_set_has_a_pod_on_every_node_with_its_resource() -> None:
    cluster = cluster_of(
        """\
    nodes:
      - {name: g, count: 3, product: Tesla-T4, cards: 1}
      - {name: plain}
    workloads:
      - {name: d, namespace: kube-probe, kind: DaemonSet, requests: 1}
"""
    )
    assert sorted(p.node_name for p in pods(cluster, "d")) == ["g-0", "g-1", "g-2"]


def test_arrivals_happen_in_their_hours_and_weekdays() -> None:
    text = """\
name: week
from: 2026-10-01T00:00:00Z
until: 2026-10-15T00:00:00Z
clusters:
  - name: c
    nodes: [{name: n, product: Tesla-T4, cards: 4}]
    workloads:
      - {name: p, namespace: x, kind: Pod, requests: 1, lifetime: 5m,
         arrivals: {every: ~20m, hours: 8-18, weekdays: true}}
"""
    from datetime import UTC, datetime

    born = [datetime.fromtimestamp(p.created_at, UTC) for p in fleet(text).clusters[0].pods]
    assert len(born) > 100
    assert all(8 <= when.hour < 18 and when.weekday() < 5 for when in born)


def test_restarts_end_runs_and_not_the_pod() -> None:
    cluster = cluster_of(
        ONE_NODE
        + "      - {name: r, namespace: x, kind: Job, requests: 1, lifetime: 4h, starting: 10s,"
        " restarts: {every: 1h, pause: 30s}}\n"
    )
    check_invariants(cluster)
    [r] = pods(cluster, "r")
    runs = r.containers[0].runs
    assert [run.ended_at - run.started_at for run in runs if run.ended_at] == [3600] * 3 + [3510]
    assert (r.finished_at or 0) - (r.started_at or 0) == 4 * 3600
    assert len(r.holds) == 1


def test_a_recreated_namespace_has_another_uid_and_no_old_pods() -> None:
    cluster = cluster_of(
        ONE_NODE.replace(
            "    workloads:\n",
            """\
    namespaces:
      - {name: x, deleted: +3h}
      - {name: x, created: +5h}
    workloads:
""",
        )
        + """\
      - {name: a, namespace: x, kind: Deployment, requests: 1}
      - {name: b, namespace: x, kind: Deployment, requests: 1, from: +6h}
"""
    )
    lives = [n for n in cluster.namespaces if n.name == "x"]
    assert len({n.uid for n in lives}) == 2
    assert all((p.gone_at or 0) <= T0 + 3 * 3600 + 60 for p in pods(cluster, "a"))
    assert [p.created_at for p in pods(cluster, "b")] == [T0 + 6 * 3600]


def test_a_quota_delays_pods_until_others_have_ended() -> None:
    cluster = cluster_of(
        """\
    nodes: [{name: n, product: Tesla-T4, cards: 4}]
    quotas: [{namespace: x, hard: {requests.nvidia.com/gpu: 2}}]
    workloads:
      - {name: j, namespace: x, kind: Job, replicas: 3, requests: 1, lifetime: 1h}
"""
    )
    lives = sorted(pods(cluster, "j"), key=lambda p: p.created_at)
    assert [p.created_at for p in lives[:2]] == [T0, T0]
    assert lives[2].created_at == min(p.finished_at or 0 for p in lives[:2])
    used = [u["requests.nvidia.com/gpu"] for _, u in cluster.quotas[0].used]
    assert max(used) == 2
    assert used[-1] == 0


def test_generated_pods_never_take_the_cards_of_exact_pods() -> None:
    cluster = cluster_of(
        ONE_NODE
        + """\
      - {name: long, namespace: x, kind: Deployment, replicas: 2, requests: 1}
      - name: exact
        namespace: x
        kind: Pod
        requests: 1
        pods: [{created: +10h, started: +10h30s, ended: +11h, node: n, cards: [0]}]
"""
    )
    check_invariants(cluster)
    exact = pod(cluster, "exact")
    assert exact.scheduled_at == T0 + 10 * 3600
    first, second = sorted(pods(cluster, "long"), key=lambda p: p.scheduled_at or 0)
    assert first.scheduled_at is not None
    assert first.scheduled_at < T0
    # Card 0 is free before, and is not assigned to a pod that would still have it then.
    assert second.scheduled_at == T0 + 11 * 3600


def test_an_exact_pod_may_start_in_the_second_of_another_pods_end() -> None:
    cluster = cluster_of(
        """\
    nodes: [{name: n, product: Tesla-T4, cards: 1}]
    workloads:
      - {name: before, namespace: x, kind: Job, requests: 1, lifetime: 1h, scheduling: 0s,
         starting: 0s}
      - name: exact
        namespace: x
        kind: Pod
        requests: 1
        pods: [{created: +1h, started: +1h10s, ended: +2h}]
"""
    )
    [before] = pods(cluster, "before")
    assert before.finished_at == pod(cluster, "exact").scheduled_at == T0 + 3600


def test_two_exact_pods_on_one_card_at_one_time_are_refused() -> None:
    body = (
        ONE_NODE
        + """\
      - name: e
        namespace: x
        kind: Pod
        requests: 1
        pods:
          - {created: +1h, started: +1h, ended: +3h, node: n, cards: [0]}
          - {created: +2h, started: +2h, ended: +4h, node: n, cards: [0]}
"""
    )
    with pytest.raises(InvalidScenario, match="2026-10-01T02:00:00Z"):
        cluster_of(body)


def test_a_pod_that_fits_nowhere_names_its_request_and_the_capacity() -> None:
    with pytest.raises(InvalidScenario) as raised:
        cluster_of(
            """\
    nodes:
      - {product: Tesla-T4, name: small, cards: 2}
      - {product: Tesla-T4, name: large, cards: 4}
    workloads:
      - {name: p, namespace: x, kind: Pod, requests: 5,
         pods: [{created: +1h, started: +1h, ended: +3h}]}
"""
        )
    assert raised.value.seen.startswith(
        "it requests 5 of nvidia.com/gpu from 2026-10-01T01:00:00Z, and no node has them free"
    )
    assert raised.value.seen.endswith("free at its start: small (2), large (4)")


def test_a_node_has_the_configured_number_of_cards() -> None:
    cluster = cluster_of("    nodes: [{product: Tesla-T4, name: n, cards: 100}]")
    [node] = cluster.nodes
    buses = {card.pci_bus_id for card in node.cards}
    assert len(buses) == 100
    assert all(re.fullmatch("[0-9A-F]{8}:[0-9A-F]{2}:00.0", bus) for bus in buses)


@pytest.mark.parametrize(
    ("where", "seen", "why"),
    [
        ("n, cards: 1, leaves: +2h", "n does not exist during", "only while the node exists"),
        ("n, cards: 1, joins: +90m", "n does not exist during", "only while the node exists"),
        ("m, cards: 1", "there is no node 'n'", "on a node of its cluster"),
        ("n, cards: 3", "it requests card 3 of n, which has 3", "counted from 0"),
    ],
)
def test_an_exact_pod_needs_its_node_during_its_lifetime(where: str, seen: str, why: str) -> None:
    with pytest.raises(InvalidScenario, match=seen) as raised:
        cluster_of(
            f"""\
    nodes: [{{product: Tesla-T4, name: {where}}}]
    workloads:
      - {{name: p, namespace: x, kind: Pod, requests: 1,
         pods: [{{created: +1h, started: +1h, ended: +3h, node: n, cards: [3]}}]}}
"""
        )
    assert why in raised.value.why


def test_an_exact_pod_needs_its_namespace_during_its_lifetime() -> None:
    with pytest.raises(InvalidScenario, match="namespace x does not exist during") as raised:
        cluster_of(
            """\
    nodes: [{name: n, product: Tesla-T4, cards: 1}]
    namespaces: [{name: x, deleted: +2h}]
    workloads:
      - {name: p, namespace: x, kind: Pod, requests: 1,
         pods: [{created: +1h, started: +1h, ended: +3h, node: n}]}
"""
        )
    assert raised.value.why == "a pod can be in a namespace only while the namespace exists"


def test_an_evicted_pod_without_an_end_has_one_only_in_the_truth() -> None:
    cluster = cluster_of(
        ONE_NODE + "      - {name: e, namespace: x, kind: Job, requests: 1, lifetime: 20h}\n",
        "faults: [{fault: evicted_without_end, from: +5h, until: +6h}]\n",
    )
    check_invariants(cluster)
    first = pods(cluster, "e")[0]
    assert not first.end_reported
    assert T0 + 5 * 3600 < (first.finished_at or 0) <= T0 + 5 * 3600 + 10
    assert first.phases[-1].reason == "Evicted"


def test_adding_a_workload_changes_no_other_workload() -> None:
    base = """\
    nodes: [{name: n, product: Tesla-T4, cards: 16}]
    workloads:
      - {name: a, namespace: x, kind: Job, requests: 1, arrivals: {every: ~1h}, lifetime: ~30m}
      - {name: b, namespace: y, kind: Deployment, replicas: 2, requests: 1, lifetime: ~5h}
"""
    more = base + (
        "      - {name: c, namespace: x, kind: Job, requests: 1, arrivals: {every: ~2h},"
        " lifetime: 10m}\n"
    )

    def lives(text: str) -> list[object]:
        return [
            (p.uid, p.name, p.created_at, p.scheduled_at, p.started_at, p.finished_at)
            for p in cluster_of(text).pods
            if p.workload in ("a", "b")
        ]

    assert lives(base) == lives(more)


def test_the_same_seed_gives_the_same_bytes_in_another_process() -> None:
    code = (
        "import hashlib; from fake_gpu.fleet.build import build_fleet;"
        "from fake_gpu.scenario.load import load_scenario;"
        "print(hashlib.sha256(repr(build_fleet(load_scenario('demo'))).encode()).hexdigest())"
    )
    here = hashlib.sha256(repr(build_fleet(load_scenario("demo"))).encode()).hexdigest()
    there = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "12345", "TZ": "Asia/Kolkata", "LC_ALL": "C"},
    )
    assert there.stdout.strip() == here


def test_another_seed_gives_another_month() -> None:
    text = "    nodes: [{name: n, product: Tesla-T4, cards: 2}]\n    workloads:\n" + (
        "      - {name: a, namespace: x, kind: Job, requests: 1, arrivals: {every: ~1h},"
        " lifetime: ~30m}\n"
    )
    one, other = cluster_of(text, seed=1), cluster_of(text, seed=2)
    assert [p.created_at for p in one.pods] != [p.created_at for p in other.pods]


def test_pods_can_be_iterated_one_by_one() -> None:
    whole = build_fleet(load_scenario("demo"))
    one_by_one = list(iter_pods(load_scenario("demo")))
    key = lambda p: (p.cluster_id, p.uid)  # noqa: E731 (used twice, here only)
    assert sorted(one_by_one, key=key) == sorted(whole.pods, key=key)


def test_the_demo_matches_its_description() -> None:
    demo = build_fleet(load_scenario("demo"))
    for cluster in demo.clusters:
        check_invariants(cluster)
    using = {p.namespace for p in demo.pods if p.holds} - {"openshift-gpu-diagnostics"}
    assert using == {"chat", "physics", "students", "biology", "film"}
    plain = {p.namespace for p in demo.pods if not (p.requests or p.claims)}
    assert plain == {"openshift-ingress", "kube-system", "chat", "film", "helpdesk"}
    assert {p.labels.get("team") for p in demo.pods if p.namespace == "physics"} == {
        "theory",
        "experiment",
    }
    assert {c.name for c in demo.clusters if any(p.namespace == "chat" for p in c.pods)} == {
        "alpha",
        "beta",
    }
    vendors = {c.name: {card.vendor for n in c.nodes for card in n.cards} for c in demo.clusters}
    assert vendors == {"alpha": {"nvidia"}, "beta": {"nvidia"}, "gamma": {"amd"}}
    short = [p for p in demo.pods if p.started_at and p.finished_at]
    assert any((p.finished_at or 0) - (p.started_at or 0) < 30 for p in short)
    assert any(len(c.runs) > 1 for p in demo.pods for c in p.containers)
    labels = [
        s.labels.get("nvidia.com/gpu.product") for s in demo.clusters[1].node("beta-h100").states
    ]
    assert {"NVIDIA-H100-PCIe", "NVIDIA-H100-80GB-HBM3"} <= set(labels)
    assert demo.fired["evicted_without_end#0"] >= 1


def test_the_minimal_scenario_is_one_cluster() -> None:
    text = "name: t\nfrom: 2026-10-01\nuntil: 2026-10-02\nclusters: [{name: only}]\n"
    assert loaded(text).scenario.clusters[0].name == "only"
    assert fleet(text).clusters[0].pods == ()
