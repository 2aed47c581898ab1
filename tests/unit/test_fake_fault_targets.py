"""A fault has an existing target and a time within the scenario; otherwise the scenario
is refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.summary import silent_faults
from fake_gpu.scenario.errors import BadScenario
from fake_gpu.scenario.load import library, load_scenario, read_scenario
from fake_gpu.scenario.trace import COLUMNS
from tests.fleets import HEAD, loaded

# Fourteen lines: the first fault is in line 15.
TEXT = f"""{HEAD}clusters:
  - name: east
    nodes: [{{name: a, count: 2, product: Tesla-T4, cards: 4}}, {{name: cpu}}]
    namespaces: [{{name: quiet}}]
    quotas: [{{namespace: limited, hard: {{}}}}]
    workloads: [{{name: w, namespace: busy, requests: 1}}]
  - name: west
    openshift: 4.20.1
    monitoring: {{prometheus_replicas: 1}}
    nodes: [{{name: b, product: Tesla-T4, cards: 2}}]
faults:
"""


def problems(*faults: str) -> list[tuple[int, str, str, str]]:
    with pytest.raises(BadScenario) as raised:
        loaded(TEXT + "".join(f"  - {{fault: {fault}}}\n" for fault in faults))
    return [(p.line, p.path, p.seen, p.remedy) for p in raised.value.problems]


def test_all_unknown_targets_are_listed_with_the_existing_ones() -> None:
    assert problems(
        "node_not_ready, node: nope",
        "node_removed, cluster: east, node: b",
        "card_unhealthy, node: b, card: 2",
    ) == [
        (15, "faults[0].node", "no node 'nope'", "one of: a-0, a-1, cpu, b"),
        (16, "faults[1].node", "no node 'b' in cluster east", "one of: a-0, a-1, cpu"),
        (17, "faults[2].card", "no card 2 of node b", "cards: 0 to 1"),
    ]


@pytest.mark.parametrize(
    ("fault", "key", "seen"),
    [
        ("html_login, cluster: d", "cluster", "no cluster 'd'"),
        ("exporter_down, job: dcgm", "job", "no job 'dcgm'"),
        ("dropped_scrapes, cluster: east, job: nojob", "job", "no job 'nojob' in cluster east"),
        ("label_edited, namespace: nobody", "namespace", "no namespace 'nobody'"),
        (
            "crash_loop, cluster: west, namespace: busy",
            "namespace",
            "no namespace 'busy' in cluster west",
        ),
        (
            "rbac_lost, cluster: east, namespace: openshift-nfd",
            "namespace",
            "no namespace 'openshift-nfd' in cluster east",
        ),
        ("rbac_lost, resource: podz", "resource", "no resource 'podz'"),
        ("card_unhealthy, card: 4", "card", "no card 4 of any node"),
        ("card_unhealthy, card: -1", "card", "no card -1 of any node"),
        ("unaccounted_process, node: cpu", "card", "no card 0 of node cpu"),
        (
            "unaccounted_process, cluster: west, card: 2",
            "card",
            "no card 2 of any node in cluster west",
        ),
        ("replica_scrape_lost, replica: 2", "replica", "no Prometheus replica 2"),
        (
            "store_vanishes, cluster: west, replica: 1",
            "replica",
            "no Prometheus replica 1 in cluster west",
        ),
        ("shared_external_labels, as_cluster: north", "as_cluster", "no cluster 'north'"),
        (
            "html_login, from: +24h",
            "from",
            "html_login would last from 2026-10-02T00:00:00Z to 2026-10-02T00:00:00Z",
        ),
        (
            "html_login, until: 2026-09-30T00:00:00Z",
            "from",
            "html_login would last from 2026-10-01T00:00:00Z to 2026-09-30T00:00:00Z",
        ),
    ],
)
def test_a_fault_without_a_target_is_refused(fault: str, key: str, seen: str) -> None:
    [(line, path, told, _)] = problems(fault)
    assert (line, path, told) == (15, f"faults[0].{key}", seen)


@pytest.mark.parametrize(
    "fault",
    [
        "label_edited, cluster: east, namespace: quiet",
        "label_edited, cluster: east, namespace: limited",
        "label_edited, namespace: openshift-nfd",
        "crash_loop, namespace: kube-system",
        "card_unhealthy, card: 3",
        "store_vanishes, cluster: west, replica: -1",
        "shared_external_labels, cluster: west, as_cluster: east",
        # A tenant that forges series invents names, and both faults bring their own jobs.
        "forged_series, attacker: busy, victim: nobody}\n  - {fault: sample_limit, "
        "job: busy-exporter",
        "second_kube_state_metrics}\n  - {fault: exporter_down, job: opencost",
    ],
)
def test_a_fault_with_a_target_is_read(fault: str) -> None:
    assert loaded(f"{TEXT}  - {{fault: {fault}}}\n").warnings == ()


def test_namespaces_and_nodes_of_a_trace_are_targets(tmp_path: Path) -> None:
    row = "east,traced,p,,a-0,,nvidia.com/gpu,1,1790812800,1790812801,1790812802,,Running,,"
    (tmp_path / "t.csv").write_text(",".join(COLUMNS) + f"\n{row}\n")
    fault = "  - {fault: evicted_without_end, namespace: traced}\nworkload_trace: t.csv\n"
    assert read_scenario(TEXT + fault, "test.yaml", tmp_path).warnings == ()


def test_of_a_thousand_nodes_twenty_are_named() -> None:
    text = TEXT.replace("count: 2", "count: 1000") + "  - {fault: node_removed, node: n}\n"
    with pytest.raises(BadScenario) as raised:
        loaded(text)
    [problem] = raised.value.problems
    assert problem.remedy.endswith("a-18, a-19 and 982 more")


@pytest.mark.parametrize("kind", ["dropped_scrapes", "node_removed", "watch_dropped"])
def test_a_time_outside_the_scenarios_raises_a_warning(kind: str) -> None:
    for times in ("from: +24h, until: +25h", "from: 2026-09-01, until: 2026-09-02"):
        [warning] = loaded(f"{TEXT}  - {{fault: {kind}, {times}}}\n").warnings
        assert warning.startswith(f"line 15: {kind} is in force from 2026-")
        assert warning.endswith(
            "and the scenario is about 2026-10-01T00:00:00Z to 2026-10-02T00:00:00Z"
        )
    assert loaded(f"{TEXT}  - {{fault: {kind}, from: +23h, until: +25h}}\n").warnings == ()


def test_a_fault_of_the_history_without_an_effect_raises_a_warning() -> None:
    faults = [
        "evicted_without_end, namespace: quiet",
        "evicted_without_end, namespace: busy",
        "mig_repartition",
        "html_login",
    ]
    fleet = build_fleet(loaded(TEXT + "".join(f"  - {{fault: {f}}}\n" for f in faults)))
    assert [warning.split(":")[0] for warning in silent_faults(fleet)] == [
        "evicted_without_end#0 has no effect",
        "mig_repartition#0 has no effect",
    ]


@pytest.mark.parametrize("name", [name for name in library() if name != "openb"])
def test_no_scenario_of_the_library_raises_a_warning(name: str) -> None:
    read = load_scenario(name)
    assert read.warnings == ()
    assert silent_faults(build_fleet(read)) == []


def test_an_unknown_job_of_the_monitoring_is_refused() -> None:
    text = TEXT.replace("prometheus_replicas: 1", "jobs: {dcgm: {interval: 15s}}")
    with pytest.raises(BadScenario, match=r"line 12.*no job 'dcgm'"):
        loaded(text.removesuffix("faults:\n"))
