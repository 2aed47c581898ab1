"""Every code of the catalogue of faults is covered by a fault of the simulator or by a scenario."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest

from domain.tenant import BelongsTo, Ownership
from fake_gpu.clock import epoch
from fake_gpu.faults.fault_catalogue import CATALOGUE
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Fleet, PodLifetime, SimulatedCluster
from fake_gpu.scenario.load import library, load_scenario
from tests.fault_codes import FAKE, KUBERNETES, SAMPLES

ROOT = Path(__file__).parents[2]
CODES = (*SAMPLES, *KUBERNETES)
SCRAPE_SECONDS = 30


def test_the_codes_are_complete() -> None:
    wanted = [f"A{n:02}" for n in range(1, 31)] + [f"B{n:02}" for n in range(1, 29)]
    assert [code.code for code in CODES] == wanted
    assert {code for kind in CATALOGUE.values() for code in kind.codes} <= set(wanted)
    for code in CODES:
        assert code.faults or code.stories or code.otherwise, code.code
    assert [code for code, _, _ in FAKE] == [f"I{n:02}" for n in range(1, 9)]


def test_every_grave_fault_can_be_switched_on() -> None:
    grave = {code.code: code for code in CODES if code.is_grave}
    assert sorted(grave) == [
        "A01", "A02", "A04", "A05", "A06", "A08", "A10", "B02", "B04", "B05", "B15", "B17",
    ]  # fmt: skip
    # Claims and cards of another vendor are requested by a workload and not by a fault.
    assert {code for code, entry in grave.items() if not entry.faults} == {"B15"}


@pytest.mark.parametrize(("code", "what", "test"), FAKE, ids=[code for code, _, _ in FAKE])
def test_every_invariant_of_the_simulator_has_its_test(code: str, what: str, test: str) -> None:
    """The reference names one test for each; that file has a test of that name."""
    path, name = test.split("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = [f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name == name]
    assert len(found) == 1, (code, what)


@cache
def _build(story: str) -> Fleet:
    return build_fleet(load_scenario(story))


def _pods(fleet: Fleet) -> Iterable[PodLifetime]:
    return (pod for cluster in fleet.clusters for pod in cluster.pods)


def _kinds(*wanted: str) -> Callable[[Fleet], bool]:
    return lambda fleet: any(fault.kind in wanted for fault in fleet.faults)


def _some_pod(holds: Callable[[PodLifetime], bool]) -> Callable[[Fleet], bool]:
    return lambda fleet: any(holds(pod) for pod in _pods(fleet))


def _ran_seconds(pod: PodLifetime) -> int:
    if pod.started_at is None or pod.finished_at is None:
        return SCRAPE_SECONDS
    return pod.finished_at - pod.started_at


def _same_second(fleet: Fleet) -> bool:
    starts = Counter(pod.created_at for pod in _pods(fleet))
    ends = Counter(pod.gone_at for pod in _pods(fleet))
    return bool(starts.keys() & ends.keys()) or max(starts.values()) > 1


def _of_the_provider(fleet: Fleet) -> bool:
    rule, at = Ownership(()), epoch(fleet.started_at)
    return any(
        pod.holds and rule.belongs_to(pod.namespace, at) is not BelongsTo.TENANT
        for pod in _pods(fleet)
    )


def _has_recreated_namespace(fleet: Fleet) -> bool:
    lives = Counter((life.cluster_id, life.name) for c in fleet.clusters for life in c.namespaces)
    return max(lives.values()) > 1


def _recut(cluster: SimulatedCluster) -> bool:
    mid = [d.exists_from for n in cluster.nodes for d in n.devices if d.exists_from % 3600]
    return bool(mid)


def _claimed_or_of_another_vendor(fleet: Fleet) -> bool:
    return any(pod.claims or "amd.com/gpu" in pod.requests for pod in _pods(fleet))


def _shared(fleet: Fleet) -> bool:
    return any(d.replica_count for c in fleet.clusters for n in c.nodes for d in n.devices)


def _names_twice(fleet: Fleet) -> bool:
    uids: dict[tuple[str, str, str], set[str]] = {}
    for pod in _pods(fleet):
        uids.setdefault((pod.cluster_id, pod.namespace, pod.name), set()).add(pod.uid)
    return any(len(each) > 1 for each in uids.values())


def _oddly_written(fleet: Fleet) -> bool:
    """A formula, characters that reverse the text direction, and a very long text."""
    texts = [
        text for pod in _pods(fleet) for text in (*pod.labels.values(), *pod.annotations.values())
    ]
    texts += [text for c in fleet.clusters for n in c.namespaces for text in n.labels.values()]
    return (
        any(text.startswith("=") for text in texts)
        and any("\u202e" in text for text in texts)
        and max(map(len, texts)) > 50_000
    )


HAPPENS: dict[str, Callable[[Fleet], bool]] = {
    "A01": _kinds("store_vanishes", "store_hangs"),
    "A07": _some_pod(lambda pod: _ran_seconds(pod) < SCRAPE_SECONDS),
    "A10": _kinds("exporter_down"),
    "A22": _kinds("forged_series"),
    "A23": lambda e: any(
        len({s.labels.get("nvidia.com/gpu.product") for s in n.states}) > 1
        for c in e.clusters
        for n in c.nodes
    ),
    "B01": _kinds("watch_dropped", "watch_expired"),
    "B02": _kinds("watch_dropped", "watch_expired"),
    "B04": _names_twice,
    "B05": _kinds("evicted_without_end"),
    "B06": _some_pod(
        lambda pod: (
            pod.scheduled_at is None or (pod.started_at or pod.scheduled_at) - pod.scheduled_at > 10
        )
    ),
    "B07": _some_pod(lambda pod: any(len(c.runs) > 1 for c in pod.containers)),
    "B08": lambda e: any(
        s.ready == "Unknown" for c in e.clusters for n in c.nodes for s in n.states
    ),
    "B11": _same_second,
    "B12": _of_the_provider,
    "B13": _some_pod(
        lambda pod: (
            pod.deletion_requested_at is not None
            and pod.finished_at is not None
            and pod.finished_at > pod.deletion_requested_at
        )
    ),
    "B14": _some_pod(lambda pod: any(c.kind != "main" for c in pod.containers)),
    "B15": _claimed_or_of_another_vendor,
    "B16": _shared,
    "B17": lambda e: any(_recut(cluster) for cluster in e.clusters),
    "B18": lambda e: any(n.incidents for c in e.clusters for n in c.nodes),
    "B20": _has_recreated_namespace,
    "B28": _oddly_written,
}


@pytest.mark.parametrize(
    ("code", "story"), [(code.code, story) for code in CODES for story in code.stories]
)
def test_a_scenario_has_the_situation_of_its_name(code: str, story: str) -> None:
    assert story in library()
    assert HAPPENS[code](_build(story)), (code, story)
