"""The fake estate: playing a large one through, in time and memory, against its own floor.

Put here: 10,000 GPUs and their pods, one by one as they end.
Not here: what is shown of them (`bench_decode` reads such an hour).

    python bench/bench_fake_estate.py [--clusters 1] [--days 7]     (the whole: 10 and 31)

The floor is what cannot be left out: the hashes and draws that make every pod the same on every
machine. Seconds are of the processor.
Goals: at most 12 times the floor, at most 15 minutes for 1.15 million pods, at most 300 MB.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from datetime import date, timedelta
from pathlib import Path

WORKLOADS = 20
STREAMS_PER_POD = 7
WORDS_PER_POD = 30
WHOLE_PODS = 1_150_000
GOAL_RATIO, GOAL_MINUTES, GOAL_MIB = 12.0, 15.0, 300.0


def scenario(clusters: int, days: int) -> str:
    """125 nodes of 8 cards a cluster, an eighth of them cut by MIG; jobs that come and go."""
    until = date(2026, 10, 1) + timedelta(days=days)
    lines = ["name: large", "from: 2026-10-01", f"until: {until}", "clusters:"]
    for cluster in range(clusters):
        lines += [
            f"  - name: c{cluster}",
            "    nodes:",
            "      - {name: whole, count: 108, product: NVIDIA-A100-SXM4-80GB, cards: 8}",
            "      - {name: mig, count: 17, product: NVIDIA-A100-SXM4-40GB, cards: 8,"
            " mig: {layout: all-1g.5gb}}",
            "    workloads:",
        ]
        for workload in range(WORKLOADS):
            asks = "1" if workload % 4 else "{nvidia.com/mig-1g.5gb: 1}"
            lines.append(
                f"      - {{name: w{workload}, namespace: t{workload}, kind: Job, requests: {asks},"
                " arrivals: {every: ~466s}, lifetime: 2h~1.2, keep: 5m}"
            )
    return "\n".join(lines) + "\n"


def floor_seconds(pods: int) -> float:
    """Hashing and drawing alone, for as many pods."""
    from fake_gpu.scenario.seeds import Family

    family = Family(1, "cluster", "namespace", "workload", "Job")
    began = time.process_time()
    for pod in range(pods):
        for number in range(STREAMS_PER_POD):
            draw = family.stream(number, pod)
            for _ in range(WORDS_PER_POD // STREAMS_PER_POD):
                draw.word()
    return time.process_time() - began


def main() -> int:
    from fake_gpu.estate.build import iter_pods
    from fake_gpu.scenario.load import read_scenario

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clusters", type=int, default=1)
    parser.add_argument("--days", type=int, default=7)
    asked = parser.parse_args()
    read = read_scenario(scenario(asked.clusters, asked.days), "large", None)
    began = time.process_time()
    pods = sum(1 for _ in iter_pods(read))
    taken = time.process_time() - began
    floor = floor_seconds(pods)
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    minutes = taken / pods * WHOLE_PODS / 60
    print(f"{pods} pods in {taken:.1f} s: {taken / pods * 1e6:.0f} us each; floor {floor:.1f} s")
    reached = True
    for name, value, goal in (
        ("against its hashes alone, times", taken / floor, GOAL_RATIO),
        ("1.15 M pods, minutes", minutes, GOAL_MINUTES),
        ("memory, MiB", mib, GOAL_MIB),
    ):
        reached &= value <= goal
        print(
            f"fake {name:34} {value:7.1f}, at most {goal:g} {'ok' if value <= goal else 'MISSED'}"
        )
    return 0 if reached else 1


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    sys.exit(main())
