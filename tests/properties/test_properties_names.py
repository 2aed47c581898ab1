"""Names that collide: the scenario is refused with a message, or all objects have unique names."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Fleet
from fake_gpu.scenario.errors import InvalidScenario
from tests.fleets import FOR_EVER, check_invariants, loaded

# The name that one workload derives is the name of another one.
NAMES = ("w", "w-0", "w-1", "w-0-0", "w-worker-0")
NODES = ("n", "n-0", "n-1")
KINDS = {
    "Pod": "",
    "Job": "lifetime: 5m..1h",
    "StatefulSet": "",
    "Deployment": "",
    "MPIJob": "api: kubeflow.org/v1",
    "PyTorchJob": "api: kubeflow.org/v1",
}


@st.composite
def workloads(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(sorted(KINDS)))
    parts = [f"name: {draw(st.sampled_from(NAMES))}", "namespace: x", f"kind: {kind}"]
    parts.append(f"replicas: {draw(st.integers(1, 2))}")
    if KINDS[kind]:
        parts.append(KINDS[kind])
    if kind in ("Pod", "Job", "MPIJob") and draw(st.booleans()):
        times = draw(st.lists(st.sampled_from(["+0s", "+10m", "+40m"]), min_size=1, max_size=2))
        parts.append(f"arrivals: {{at: [{', '.join(times)}]}}")
    elif draw(st.booleans()):
        parts.append(f"from: {draw(st.sampled_from(['+0s', '+30m']))}")
    if draw(st.integers(0, 3)) == 0:
        parts.append("until: +30m")
    if draw(st.integers(0, 2)) == 0:
        exact = []
        for _ in range(draw(st.integers(1, 3))):
            pod = [f"created: {draw(st.sampled_from(['+0s', '+10m', '+50m']))}"]
            if draw(st.booleans()):
                pod.append(f"name: {draw(st.sampled_from(NAMES))}")
            if draw(st.integers(0, 3)) == 0:
                pod.append(f"uid: {draw(st.sampled_from('uv'))}")
            if draw(st.booleans()):
                pod.append("deleted: +50m, gone: +50m")
            exact.append("{" + ", ".join(pod) + "}")
        parts.append(f"pods: [{', '.join(exact)}]")
    return "{" + ", ".join(parts) + "}"


@st.composite
def scenarios(draw: st.DrawFn) -> str:
    lines = [
        "name: drawn",
        "from: 2026-10-01T00:00:00Z",
        "until: 2026-10-01T01:00:00Z",
        "clusters:",
    ]
    for number in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from("cd")) if draw(st.integers(0, 4)) == 0 else f"c{number}"
        lines += [f"  - name: {name}", "    nodes:"]
        for _ in range(draw(st.integers(1, 2))):
            node = draw(st.sampled_from(NODES))
            count = draw(st.integers(1, 2))
            lines.append(f"      - {{name: {node}, count: {count}, product: Tesla-T4, cards: 1}}")
        lines.append("    workloads:")
        lines += [f"      - {draw(workloads())}" for _ in range(draw(st.integers(1, 3)))]
    return "\n".join(lines) + "\n"


@given(scenarios())
def test_equal_names_are_refused_or_kept_apart(text: str) -> None:
    try:
        fleet = build_fleet(loaded(text))
    except InvalidScenario:
        return
    for cluster in fleet.clusters:
        check_invariants(cluster)
    check_everything_is_there_once(fleet)


def check_everything_is_there_once(fleet: Fleet) -> None:
    pods = Counter(pod.uid for cluster in fleet.clusters for pod in cluster.pods)
    clusters = Counter(cluster.name for cluster in fleet.clusters)
    nodes = Counter((n.cluster_id, n.name) for c in fleet.clusters for n in c.nodes)
    assert {*pods.values(), *clusters.values(), *nodes.values()} <= {1}
    for cluster in fleet.clusters:
        spans = defaultdict(list)
        for life in cluster.workloads:
            end = FOR_EVER if life.gone_at is None else life.gone_at
            spans[(life.namespace, life.kind, life.name)].append((life.created_at, end))
        for each in spans.values():
            assert all(before[1] <= after[0] for before, after in pairwise(sorted(each)))
