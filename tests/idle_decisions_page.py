"""The page of random decisions about idleness: the result of each fault of samples under two rules.

Put here: the rule of the known tool, counting decisions, and the page.
Not here: random workloads and their faults (`tests.idle_workloads`), or our rule (`idle_pruner`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from tests.idle_workloads import Samples

PAGE = "explanation/idle-decisions.md"
NONE = "none"

WORDS = {
    NONE: "the samples are complete",
    "lose_a_series": "a series of a device is missing",
    "lose_the_busy_samples": "exactly the samples that show use are missing",
    "cut_the_window": "the exporter did not run for a part of the window",
    "fail_scrapes": "scrapes failed for a part of the window",
    "merge_instances": "the label of MIG instances is dropped",
    "lose_pod_labels": "a device has no pod label",
    "repeat_a_series": "a second series of a device has the value 0",
    "say_nothing_at_all": "there are no samples",
    "stop_early": "the last minutes are missing",
    "change_the_unit": "a value has another unit, or is impossible",
    "give_to_another_pod": "the samples of a device name another pod",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One random workload: its faults, whether it was used, and the two decisions."""

    faults: tuple[str, ...]
    is_busy: bool
    is_stopped: bool
    known_tool_stops: bool


def known_tool_stops(samples: Samples) -> bool:
    """gpu-pruner 0.5: a workload is stopped if the maximum of one GPU of one pod is 0.

    Its query takes the maximum over the window of the engine activity, or else of the utilisation,
    sums it by pod, GPU and model (without the MIG instance), and keeps sums of 0.
    """
    sums: dict[tuple[str, str], float] = {}
    seen: set[tuple[str, str, str]] = set()
    for name in ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"):
        for series in samples.series.get(name, []):
            labels = series["metric"]
            pod = labels.get("exported_pod", "")
            if not pod or not series["values"]:
                continue
            full = (pod, labels["UUID"], labels.get("GPU_I_ID", ""))
            if full in seen and name == "DCGM_FI_DEV_GPU_UTIL":
                continue  # `or`: the second metric counts if the first has no samples
            seen.add(full)
            key = (pod, labels["UUID"])
            highest = max(float(value[1]) for value in series["values"])
            sums[key] = sums.get(key, 0.0) + highest
    return any(total == 0 for total in sums.values())


TEXT = """# Idle or not: {total} random decisions

Written by `make simulate` on {day} (seed {seed}). Each decision is about a random workload with up
to three replicas and up to three GPUs or MIG instances per replica. The use of each device is known, and
its samples have up to two faults. Two rules decide on the same samples:

- **prune** (`gpu-ledger prune`): every device of every replica, two signals, complete samples;
- **gpu-pruner 0.5**: the maximum of any one GPU of any one pod is 0.

A row counts the decisions with that fault, alone or with another one. *Busy* workloads used at least one
device for two scrape intervals or more.

| fault | decisions | busy | busy and stopped by prune | busy and stopped by gpu-pruner | idle | idle and stopped by prune |
|---|---|---|---|---|---|---|
{rows}

No busy workload was stopped by `prune`: a test fails otherwise. With complete samples each idle
workload is stopped. With a fault an idle workload may be *unknown*; it is then not stopped. gpu-pruner
does not know the names of DCGM 4.7: where the samples have them, its rule stops nothing.
"""  # noqa: E501


def page(cases: Iterable[Case], total: int, seed: str, day: date) -> str:
    counts: Counter[tuple[str, str]] = Counter()
    for case in cases:
        for fault in case.faults or (NONE,):
            counts[fault, "decisions"] += 1
            counts[fault, "busy"] += case.is_busy
            counts[fault, "busy stopped"] += case.is_busy and case.is_stopped
            counts[fault, "busy known"] += case.is_busy and case.known_tool_stops
            counts[fault, "idle"] += not case.is_busy
            counts[fault, "idle found"] += not case.is_busy and case.is_stopped
    columns = ("decisions", "busy", "busy stopped", "busy known", "idle", "idle found")
    rows = [
        f"| {words} | " + " | ".join(f"{counts[fault, column]:,}" for column in columns) + " |"
        for fault, words in WORDS.items()
    ]
    return TEXT.format(total=f"{total:,}", seed=seed, day=day, rows="\n".join(rows))
