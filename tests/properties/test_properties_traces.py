"""Every possible pod of a trace is simulated: on its node, to the second."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import example, given
from hypothesis import strategies as st

from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import LoadedScenario
from fake_gpu.scenario.trace import COLUMNS, parse_trace
from fake_gpu.scenario.trace_scenario import scenario_of_trace
from tests.fleets import T0, check_invariants

# Node, product, and the resources that one pod may request of it.
NODES = (
    ("a", "", ("nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb", "nvidia.com/mig-7g.40gb")),
    ("b", "NVIDIA-H100-80GB-HBM3", ("nvidia.com/gpu", "nvidia.com/mig-2g.20gb")),
    ("c", "", ("amd.com/gpu",)),
    ("d", "NVIDIA-A30", ("nvidia.com/mig-1g.6gb.me", "nvidia.com/mig-2g.12gb", "nvidia.com/gpu")),
    ("", "", ("nvidia.com/gpu",)),
    ("", "", ("nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.10gb")),
)
COUNTS = st.integers(1, 4)


@st.composite
def traces(draw: st.DrawFn) -> list[dict[str, str]]:
    rows = []
    for number in range(draw(st.integers(1, 12))):
        node, product, offers = draw(st.sampled_from(NODES))
        asked = draw(st.lists(st.sampled_from(offers), min_size=1, max_size=2, unique=True))
        created = T0 + draw(st.integers(0, 600))
        scheduled = created + draw(st.integers(0, 60))
        started = scheduled + draw(st.integers(0, 60))
        finished = draw(st.one_of(st.none(), st.integers(0, 900)))
        pod = {
            "cluster": "c", "namespace": "x", "pod": f"p{number}", "uid": "", "node": node,
            "gpu_product": product, "created_at": str(created), "scheduled_at": str(scheduled),
            "started_at": str(started),
            "finished_at": "" if finished is None else str(started + finished),
            "phase": draw(st.sampled_from(["Succeeded", "Failed", "Running"])),
            "owner_kind": "", "owner_name": "",
        }  # fmt: skip
        rows += [{**pod, "resource": each, "count": str(draw(COUNTS))} for each in asked]
    return rows


def a_row(pod: str, node: str, resource: str) -> dict[str, str]:
    times = dict.fromkeys(("created_at", "scheduled_at", "started_at"), str(T0))
    named = {"cluster": "c", "namespace": "x", "pod": pod, "node": node, "resource": resource}
    return dict.fromkeys(COLUMNS, "") | named | times | {"count": "1", "phase": "Running"}


# Two pods that can run on any node must not take the nodes of a third that needs two resources.
PODS_THAT_COMPETE = [
    a_row("p1", "a", "nvidia.com/mig-1g.5gb"),
    a_row("p2", "a", "nvidia.com/mig-1g.5gb"),
    a_row("p3", "", "nvidia.com/mig-1g.5gb"),
    a_row("p4", "", "nvidia.com/mig-1g.5gb"),
    a_row("p5", "", "nvidia.com/mig-1g.5gb"),
    a_row("p5", "", "nvidia.com/mig-2g.10gb"),
]


@given(traces())
@example(PODS_THAT_COMPETE)
def test_a_possible_trace_is_simulated_as_written(rows: list[dict[str, str]]) -> None:
    lines = [",".join(row[name] for name in COLUMNS) for row in rows]
    read = parse_trace("\n".join([",".join(COLUMNS), *lines]) + "\n", "t.csv")
    [cluster] = build_fleet(LoadedScenario(scenario_of_trace(read, "t"), "t.csv")).clusters
    check_invariants(cluster)
    wanted: dict[str, dict[str, int]] = defaultdict(dict)
    for row in rows:
        wanted[row["pod"]][row["resource"]] = int(row["count"])
    by_name = {pod.name: pod for pod in cluster.pods}
    assert {name: dict(pod.requests) for name, pod in by_name.items()} == wanted
    for row in rows:
        pod = by_name[row["pod"]]
        said = [row[f"{when}_at"] for when in ("created", "scheduled", "started", "finished")]
        times = (pod.created_at, pod.scheduled_at, pod.started_at, pod.finished_at)
        assert ["" if t is None else str(t) for t in times] == said
        assert row["node"] in ("", pod.node_name)
