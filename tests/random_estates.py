"""Random estates as scenario text, so that a failing one can be read, kept and played again.

Put here: what is drawn. Not here: what is expected of it (`tests/scenarios`).

Every text comes from its seed alone: `python -m tests.random_estates SEED` prints it.
"""

from __future__ import annotations

import random
import sys

HOURS = 4

# Name, how the node is described, and what can be asked of it: a request, and how many at most.
NODES = (
    ("a100", "product: NVIDIA-A100-SXM4-80GB, cards: 8", [("1", 2), ("2", 2), ("4", 1)]),
    ("l40s", "product: NVIDIA-L40S, cards: 4", [("1", 3), ("3", 1)]),
    (
        "mig",
        'product: NVIDIA-A100-SXM4-40GB, cards: 2, mig: {layout: {"0": {1g.5gb: 7}, '
        '"1": {3g.20gb: 1, 4g.20gb: 1}}}',
        [("{nvidia.com/mig-1g.5gb: 1}", 5), ("{nvidia.com/mig-1g.5gb: 3}", 2),
         ("{nvidia.com/mig-3g.20gb: 1}", 1), ("{nvidia.com/mig-4g.20gb: 1}", 1)],
    ),
    (
        "wide",
        "product: NVIDIA-H100-80GB-HBM3, cards: 3, mig: {layout: {all: {2g.20gb: 3}}}",
        [("{nvidia.com/mig-2g.20gb: 1}", 6), ("{nvidia.com/mig-2g.20gb: 2}", 2)],
    ),
    ("single", "product: NVIDIA-A30, cards: 2, mig: {strategy: single, layout: all-2g.12gb}",
     [("1", 3)]),
    ("sliced", "product: Tesla-T4, cards: 2, sharing: {replicas: 4}", [("1", 5), ("2", 2)]),
    ("cpx", "product: AMD_Instinct_MI300X_OAM, cards: 1, partition: cpx_nps4",
     [("{amd.com/gpu: 1}", 6)]),
    ("dra", "product: NVIDIA-B200, cards: 4, dra: true", [("claim", 3), ("shared", 3)]),
)  # fmt: skip
KINDS = ("Deployment", "StatefulSet", "Job", "Job")


def scenario(seed: int) -> str:
    rng = random.Random(seed)
    chosen = rng.sample(NODES, rng.randint(1, 3))
    scrape = rng.choice([15, 30, 60])
    collect = rng.choice(["", "", ", collect_interval: 5m"])
    lines = [
        f"name: random_{seed}",
        "story: Drawn from its seed.",
        f"seed: {seed}",
        "from: 2026-10-05T00:00:00Z",
        f"until: 2026-10-05T{HOURS:02}:00:00Z",
        "clusters:",
        f"  - name: random-{seed}",
        f"    monitoring: {{prometheus_replicas: {rng.randint(1, 2)}, "
        f"scrape_interval: {scrape}s{collect}}}",
        "    nodes:",
    ]
    for name, what, _ in chosen:
        comes = rng.choice(["", "", "", f", joins: +{rng.randint(1, 100)}m"])
        lines.append(f"      - {{name: {name}, {what}{comes}}}")
    lines.append("    workloads:")
    for name, _, offers in chosen:
        for number, (request, most) in enumerate(offers):
            lines.append(f"      - {{{_workload(rng, name, number, request, most)}}}")
    return "\n".join(lines) + "\n"


def _workload(rng: random.Random, node: str, number: int, request: str, most: int) -> str:
    kind = rng.choice(KINDS)
    parts = [
        f"name: {node}-{number}",
        f"namespace: {rng.choice(['team-a', 'team-b', 'kube-system'])}",
        f"kind: {kind}",
        f"node: {node}",
    ]
    match request:
        case "claim":
            parts.append("claims: [{device_class: gpu.nvidia.com}]")
        case "shared":
            parts.append("claims: [{device_class: gpu.nvidia.com, shared: team}]")
        case _:
            parts.append(f"requests: {request}")
    lifetime = rng.choice(["1s..20s", "20s..90s", "5m..50m", "1h..3h", "3599s..3601s"])
    if kind == "Job" and rng.random() < 0.7:
        parts += [f"arrivals: {{every: ~{rng.randint(7, 45)}m}}", f"lifetime: {lifetime}"]
    else:
        parts.append(f"replicas: {rng.randint(1, most)}")
        if kind == "Job":
            parts.append(f"lifetime: {lifetime}")
    if rng.random() < 0.3:
        parts.append(f"from: +{rng.randint(0, 3 * 3600)}s")
    if kind != "Job" and rng.random() < 0.3:
        parts.append("restarts: {every: ~40m, pause: 5s..30s}")
    return ", ".join(parts)


if __name__ == "__main__":
    print(scenario(int(sys.argv[1])), end="")
