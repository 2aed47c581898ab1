"""Names and IDs of a fleet are unique; a duplicate is reported when it is read or simulated."""

from __future__ import annotations

import pytest

from fake_gpu.scenario.errors import BadScenario, InvalidScenario
from tests.fleets import HEAD, check_invariants, cluster_of, fleet, loaded

NODE = "    nodes: [{name: n, product: Tesla-T4, cards: 4}]\n"


def refused(body: str) -> list[tuple[int, str, str]]:
    """Line, place and text of the problems of the clusters in `body`, which starts in line 5."""
    with pytest.raises(BadScenario) as raised:
        loaded(f"{HEAD}clusters:\n{body}\n")
    return [(p.line, p.path, p.seen) for p in raised.value.problems]


def test_two_clusters_of_one_name_or_id_are_refused() -> None:
    body = "  - {name: a, id: x}\n  - {name: a, id: y}\n  - {name: b, id: x}"
    assert refused(body) == [
        (6, "clusters[1]", "a second cluster 'a'; the other is clusters[0]"),
        (7, "clusters[2]", "a second cluster with the id 'x'; the other is clusters[0]"),
    ]


def test_two_nodes_of_one_name_are_refused_also_if_numbered() -> None:
    body = """\
  - name: c
    nodes:
      - {name: n, count: 3, product: Tesla-T4, cards: 1}
      - {name: n-2, product: Tesla-T4, cards: 4}
  - name: d
    nodes: [{name: n-2}]"""
    assert refused(body) == [
        (8, "clusters[0].nodes[1]", "a second node 'n-2'; the other is clusters[0].nodes[0]")
    ]


def test_a_card_is_in_one_node_of_one_cluster() -> None:
    body = """\
  - name: c
    nodes: [{name: n, product: Tesla-T4, cards: 2, card_ids: [GPU-1, GPU-2]}]
  - name: d
    nodes:
      - {name: n, product: Tesla-T4, cards: 1, card_ids: [GPU-2]}"""
    seen = "a second card 'GPU-2'; the other is clusters[0].nodes[0]"
    assert refused(body) == [(9, "clusters[1].nodes[0]", seen)]


@pytest.mark.parametrize("kind", ["Job", "StatefulSet", "Deployment", "Pod", "DaemonSet"])
def test_two_workloads_of_one_kind_and_name_are_refused(kind: str) -> None:
    body = f"""\
  - name: c
    workloads:
      - {{name: w, namespace: x, kind: {kind}}}
      - {{name: w, namespace: y, kind: {kind}}}
      - {{name: w, namespace: x, kind: {kind}}}"""
    seen = f"a second {kind} x/w; the other is clusters[0].workloads[0]"
    assert refused(body) == [(9, "clusters[0].workloads[2]", seen)]


def test_a_deleted_workload_may_be_created_again() -> None:
    cluster = cluster_of(
        NODE + "    workloads:\n"
        "      - {name: w, namespace: x, requests: 1, until: +2h}\n"
        "      - {name: w, namespace: x, requests: 2, from: +3h}"
    )
    check_invariants(cluster)
    assert [len(pod.holds) for pod in cluster.pods] == [1, 2]
    assert len({w.uid for w in cluster.workloads if w.kind == "Deployment"}) == 2


def test_lifetimes_of_one_namespace_do_not_overlap() -> None:
    twice = "  - name: c\n    namespaces: [{name: x}, {name: x, created: +2h}]"
    seen = "a second namespace 'x'; the other is clusters[0].namespaces[0]"
    assert refused(twice) == [(6, "clusters[0].namespaces[1]", seen)]
    loaded(f"{HEAD}clusters:\n" + twice.replace("{name: x}", "{name: x, deleted: +1h}") + "\n")


def test_two_quotas_of_one_name_are_refused() -> None:
    quota = "{namespace: x, hard: {requests.nvidia.com/gpu: 4}}"
    seen = "a second quota x/gpu-quota; the other is clusters[0].quotas[0]"
    assert refused(f"  - name: c\n    quotas: [{quota}, {quota}]") == [
        (6, "clusters[0].quotas[1]", seen)
    ]


def test_a_uid_belongs_to_one_pod_in_all_clusters() -> None:
    body = """\
  - name: c
    workloads:
      - {name: a, namespace: x, kind: Pod, pods: [{created: +1h, uid: u}]}
  - name: d
    workloads:
      - name: b
        namespace: y
        kind: Pod
        pods:
          - {created: +1h, uid: v}
          - {created: +2h, uid: u}"""
    seen = "a second pod with the uid 'u'; the other is clusters[0].workloads[0].pods[0]"
    assert refused(body) == [(15, "clusters[1].workloads[0].pods[1]", seen)]


# --- names that come of playing -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("created: +1h, started: +1h, ended: +2h", "created: +1h, started: +1h, ended: +2h"),
        ("created: +1h, started: +1h, ended: +2h", "created: +90m, started: +90m"),
        # The object of the first pod stays for ten minutes after its end.
        ("created: +1h, started: +1h, ended: +2h", "created: +2h9m59s"),
        ("created: +1h, deleted: +1h, gone: +1h", "created: +1h"),
        ("created: +2h", "created: +1h"),
    ],
)
def test_exact_pods_of_one_name_and_time_are_refused(one: str, other: str) -> None:
    pods = f"[{{name: a, {one}}}, {{name: a, {other}}}]"
    workload = f"{{name: w, namespace: x, kind: Pod, requests: 1, pods: {pods}}}"
    with pytest.raises(InvalidScenario, match="workload w makes it at") as raised:
        cluster_of(f"{NODE}    workloads: [{workload}]")
    assert raised.value.where == "pod x/a"


def test_an_exact_pod_may_have_the_name_of_a_deleted_one() -> None:
    cluster = cluster_of(
        NODE + "    workloads:\n"
        "      - name: w\n        namespace: x\n        kind: Pod\n        requests: 1\n"
        "        pods:\n"
        "          - {name: a, created: +1h, started: +1h, ended: +2h}\n"
        "          - {name: a, created: +2h10m, started: +2h10m, ended: +3h}"
    )
    check_invariants(cluster)
    assert len(cluster.pods) == 2


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        ("{name: db, kind: StatefulSet}", "{name: db-0, kind: Pod}", "pod x/db-0"),
        ("{name: p, kind: Pod, replicas: 2}", "{name: p-1, kind: Pod}", "pod x/p-1"),
        (
            "{name: m, kind: MPIJob, api: kubeflow.org/v1}",
            "{name: m, kind: PyTorchJob, api: kubeflow.org/v1}",
            "pod x/m-worker-0",
        ),
        (
            "{name: p, kind: Pod}",
            "{name: q, kind: Pod, pods: [{name: p, created: +5h}]}",
            "pod x/p",
        ),
        (
            "{name: j, kind: Job, arrivals: {at: [+1h]}}",
            "{name: j-0, kind: Job, lifetime: 2h}",
            "Job x/j-0",
        ),
        (
            "{name: j, kind: Job, arrivals: {at: [+0s]}}",
            "{name: j-0, kind: Job, lifetime: 2h}",
            "Job x/j-0",
        ),
    ],
)
def test_workloads_that_generate_one_name_are_refused(one: str, other: str, where: str) -> None:
    written = ", ".join(w.replace("{", "{namespace: x, ", 1) for w in (one, other))
    with pytest.raises(InvalidScenario) as raised:
        cluster_of(f"{NODE}    workloads: [{written}]")
    assert raised.value.where == where


def test_a_random_name_in_use_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred names of two letters some are duplicates; of five letters too, but fewer."""
    from fake_gpu.scenario.seeds import RandomStream

    letters = RandomStream.letters
    monkeypatch.setattr(RandomStream, "letters", lambda self, _: letters(self, 2))
    text = (
        f"{HEAD}clusters:\n  - name: c\n    workloads:\n"
        "      - {name: w, namespace: x, replicas: 100}\n"
    )
    cluster = fleet(text).clusters[0]
    check_invariants(cluster)
    assert len({pod.name for pod in cluster.pods}) == 100
