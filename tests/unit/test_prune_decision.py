"""The decision about idleness: the rules one by one, and random workloads with every fault."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx
import pytest

from clients.credentials import ServerAccess
from clients.prometheus import PrometheusClient, PrometheusFailed, Series
from idle_pruner.decision import Decision, Thresholds, Verdict, WorkloadPod, decide
from idle_pruner.evidence import Evidence, collect_evidence
from tests.idle_decisions_page import NONE, PAGE, WORDS, Case, known_tool_stops, page
from tests.idle_workloads import (
    FAULTS,
    NOW,
    Samples,
    TrueDevice,
    lose_the_busy_samples,
    random_devices,
    samples_of,
    scrape_times,
)
from tests.written_pages import DOCS

THRESHOLDS = Thresholds()
LONG_AGO = NOW - timedelta(hours=5)


def evidence_of(samples: Samples) -> Evidence:
    transport = httpx.MockTransport(samples.answer)
    client = PrometheusClient(ServerAccess("http://prometheus.example"), transport=transport)
    return collect_evidence(client, NOW, THRESHOLDS.duration)


class WithoutHttp:
    """The same series without a server, fast enough for a million decisions."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def raw_samples(self, range_selector: str, at: object) -> list[Series]:
        name = range_selector.partition("[")[0].partition("{")[0]
        return [
            Series(dict(found["metric"]), [(at, text) for at, text in found["values"]])
            for found in self._samples.series.get(name, [])
            if found["values"]
        ]


def replica(name: str, count: int, **changes: object) -> WorkloadPod:
    fields: dict[str, object] = {
        "namespace": "team-a",
        "name": name,
        "uid": f"uid-{name}",
        "phase": "Running",
        "is_terminating": False,
        "device_count": count,
        "has_claims": False,
        "changed_at": LONG_AGO,
    }
    return WorkloadPod(**{**fields, **changes})  # type: ignore[arg-type]


def device(number: int, activity: float = 0.0, instance: str = "") -> TrueDevice:
    count = len(scrape_times())
    return TrueDevice(f"GPU-{number}", instance, "pod-0", "team-a", [activity] * count)


def decided(*devices: TrueDevice, samples: Samples | None = None, **changes: object) -> Decision:
    evidence = evidence_of(samples or samples_of(devices))
    return decide([replica("pod-0", len(devices), **changes)], LONG_AGO, evidence, THRESHOLDS)


@pytest.mark.parametrize("is_new_dcgm", [False, True])
def test_devices_without_activity_are_idle(is_new_dcgm: bool) -> None:
    devices = [device(0), device(1)]
    samples = samples_of(devices, is_new_dcgm=is_new_dcgm)
    assert decided(*devices, samples=samples).verdict is Verdict.IDLE


@pytest.mark.parametrize("activity", ["0", "3"])
def test_an_amd_partition_is_a_device(activity: str) -> None:
    samples = samples_of([])
    target = {"job": "amd", "instance": "node-1:9400"}
    samples.add("up", target, [(at, "1") for at in scrape_times()])
    for partition in ("0", "1"):
        labels = target | {"uuid": "0x1", "partition": partition}
        labels |= {"pod": "pod-0", "namespace": "team-a"}
        for name in ("amd_gpu_utilization_percent", "amd_gpu_memory_activity_percent"):
            value = activity if partition == "1" else "0"
            samples.add(name, labels, [(at, value) for at in scrape_times()])
    decision = decide([replica("pod-0", 2)], LONG_AGO, evidence_of(samples), THRESHOLDS)
    assert decision.verdict is (Verdict.IDLE if activity == "0" else Verdict.BUSY)


def test_one_busy_device_of_many_keeps_the_pod() -> None:
    decision = decided(device(0), device(1, 0.2))
    assert decision.verdict is Verdict.BUSY
    assert "Device GPU-1 of pod pod-0" in decision.reasons[0]
    assert "reached 0.2" in decision.reasons[0]


def test_one_busy_replica_of_two_keeps_the_workload() -> None:
    devices = [device(0), device(1, 0.2)]
    devices[1].pod = "pod-1"
    evidence = evidence_of(samples_of(devices))
    replicas = [replica("pod-0", 1), replica("pod-1", 1)]
    assert decide(replicas, LONG_AGO, evidence, THRESHOLDS).verdict is Verdict.BUSY


def test_a_pod_with_an_idle_and_a_busy_mig_instance_is_kept() -> None:
    idle, busy = device(0, instance="7"), device(0, 0.5, instance="8")
    assert decided(idle, busy).verdict is Verdict.BUSY
    assert decided(idle, device(0, instance="8")).verdict is Verdict.IDLE


def test_utilisation_of_a_mig_instance_is_no_evidence() -> None:
    """Old exporters report 0 for it while the instance is busy."""
    only = device(0, instance="7")
    samples = samples_of([only])
    engine = samples.series.pop("DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    samples.add("DCGM_FI_DEV_GPU_UTIL", engine[0]["metric"], [(at, "0") for at in scrape_times()])
    assert decided(only, samples=samples).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"changed_at": NOW - timedelta(minutes=34)}, Verdict.TOO_YOUNG),
        ({"changed_at": NOW - timedelta(minutes=35)}, Verdict.IDLE),
        ({"phase": "Pending"}, Verdict.UNKNOWN),
        ({"is_terminating": True}, Verdict.UNKNOWN),
        ({"has_claims": True}, Verdict.UNKNOWN),
        ({"count": 2}, Verdict.UNKNOWN),
    ],
)
def test_the_state_of_every_replica_is_checked(changes: dict[str, Any], verdict: Verdict) -> None:
    evidence = evidence_of(samples_of([device(0)]))
    replicas = [replica("pod-0", **({"count": 1} | changes))]
    assert decide(replicas, LONG_AGO, evidence, THRESHOLDS).verdict is verdict


def test_a_changed_specification_is_too_young() -> None:
    evidence = evidence_of(samples_of([device(0)]))
    changed_at = NOW - timedelta(minutes=10)
    found = decide([replica("pod-0", 1)], changed_at, evidence, THRESHOLDS)
    assert found.verdict is Verdict.TOO_YOUNG
    assert found.reasons == ("The workload changed 600 s ago.",)


def test_activity_needs_a_second_signal() -> None:
    samples = samples_of([device(0)])
    for name in ("DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_DEV_POWER_USAGE"):
        del samples.series[name]
    decision = decided(device(0), samples=samples)
    assert decision.verdict is Verdict.UNKNOWN
    assert "memory traffic or power" in decision.reasons[0]


def test_power_confirms_only_with_a_threshold() -> None:
    samples = samples_of([device(0)])
    del samples.series["DCGM_FI_PROF_DRAM_ACTIVE"]
    evidence = evidence_of(samples)
    replicas = [replica("pod-0", 1)]
    verdicts = [
        decide(replicas, LONG_AGO, evidence, Thresholds(power_watts=watts)).verdict
        for watts in (None, 60.0, 59.0)
    ]
    assert verdicts == [Verdict.UNKNOWN, Verdict.IDLE, Verdict.BUSY]


@pytest.mark.parametrize("lost", [1, 2])
def test_one_lost_scrape_is_tolerated_and_two_in_a_row_are_a_gap(lost: int) -> None:
    samples = samples_of([device(0)])
    away = set(scrape_times()[20 : 20 + lost])
    for found in samples.series.values():
        for series in found:
            series["values"] = [v for v in series["values"] if v[0] not in away]
    expected = Verdict.IDLE if lost == 1 else Verdict.UNKNOWN
    assert decided(device(0), samples=samples).verdict is expected


def test_a_response_with_a_warning_is_no_evidence() -> None:
    samples = samples_of([device(0)])
    samples.warnings.append("store 10.0.0.1 did not answer")
    with pytest.raises(PrometheusFailed, match="did not answer"):
        evidence_of(samples)


def check_random_workloads(count: int, seed: str, first: int = 0) -> Iterator[Case]:
    """Check that no busy workload is idle, and that every idle one with complete evidence
    is found.
    """
    for number in range(first, first + count):
        chance = random.Random(f"{seed}/{number}")
        devices = random_devices(chance)
        samples = samples_of(devices, is_new_dcgm=chance.random() < 0.5)
        faults = chance.sample(FAULTS, min(chance.choice([0, 0, 1, 2]), len(FAULTS)))
        for fault in faults:
            fault(chance, samples)
        evidence = collect_evidence(WithoutHttp(samples), NOW, THRESHOLDS.duration)
        counts = Counter(one.pod for one in devices)
        replicas = [replica(pod, n) for pod, n in sorted(counts.items())]
        verdict = decide(replicas, LONG_AGO, evidence, THRESHOLDS).verdict
        is_busy = any(one.is_busy for one in devices)
        names = "+".join(sorted(fault.__name__ for fault in faults))
        if is_busy:
            assert verdict is not Verdict.IDLE, f"seed {seed}/{number}: {names}"
        elif not faults:
            assert verdict is Verdict.IDLE, f"seed {seed}/{number}"
        yield Case(
            tuple(fault.__name__ for fault in faults),
            is_busy,
            verdict is Verdict.IDLE,
            known_tool_stops(samples),
        )


def test_no_busy_workload_is_ever_idle_with_missing_samples() -> None:
    found = list(check_random_workloads(400, "always"))
    assert {fault for case in found for fault in case.faults} == {f.__name__ for f in FAULTS}
    assert set(WORDS) == {NONE, *(fault.__name__ for fault in FAULTS)}
    assert sum(case.is_busy and case.known_tool_stops for case in found) > 30
    text = page(found, 400, "always", date(2026, 11, 19))
    assert "busy and stopped by prune" in text


@pytest.mark.explore
def test_a_million_random_workloads() -> None:
    """With GPU_LEDGER_WRITE_SIMULATION it also writes their page."""
    count = int(os.environ.get("N", "1000")) * 1000
    seed = os.environ.get("SEED", "explore")
    parts = [(part, seed, first) for first, part in _parts(count)]
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        found = [case for cases in processes.map(_cases, parts) for case in cases]
    assert len(found) == count
    if os.environ.get("GPU_LEDGER_WRITE_SIMULATION"):
        text = page(found, count, seed, datetime.now(UTC).date())
        (DOCS / PAGE).write_text(text, encoding="utf-8")


def _parts(count: int, size: int = 5000) -> Iterator[tuple[int, int]]:
    for first in range(0, count, size):
        yield first, min(size, count - first)


def _cases(part: tuple[int, str, int]) -> list[Case]:
    return list(check_random_workloads(*part))


def test_the_random_test_notices_a_missing_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rule about gaps, a busy workload is decided to be idle."""
    monkeypatch.setattr("idle_pruner.decision._defect", lambda reading, evidence: "")
    monkeypatch.setattr("tests.unit.test_prune_decision.FAULTS", (lose_the_busy_samples,))
    with pytest.raises(AssertionError, match="lose_the_busy_samples"):
        list(check_random_workloads(200, "broken"))
