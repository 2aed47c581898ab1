"""Random fleets as scenario text, so that a failing one can be read, stored and simulated again.

`scenario` draws a busy fleet with every way to offer a device. `fault_free_fleet` draws a fleet in
which GPUs may be idle for hours, for a weekend night or all the time, beside pods without a device.

Put here: the random choices. Not here: expectations (`tests/scenarios`).

Every text depends on its seed alone: `python -m tests.random_fleets SEED` prints it.
"""

from __future__ import annotations

import random
import sys

HOURS = 4

# Name, description of the node, and its requests: the resource, and the largest number.
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
    ("shares", "product: NVIDIA-A100-SXM4-40GB, cards: 2, dra: true, dra_shared: true, "
     "discovery: false", [("memory: 10Gi", 4), ("memory: 7Gi", 3),
     ("memory: 1536Mi, shared: crowd", 2)]),
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


FLEET_HOURS = 8


def fault_free_fleet(seed: int, *, by_samples: bool) -> str:
    """A fleet without faults, idle or busy; every pod runs long enough to be sampled.

    No sample shows a claimed device, so a fleet that is measured `by_samples` alone has none.
    """
    rng = random.Random(f"fleet {seed}")
    # In every second fleet, Jobs start on weekdays until ten; this Friday has two such hours.
    begins, weekdays = "2026-10-05T00", ""
    if seed // 2 % 2 == 0:
        begins, weekdays = "2026-10-02T20", ", hours: 6-22, weekdays: true"
    kinds = [node for node in NODES if not (by_samples and "dra: true" in node[1])]
    chosen = rng.sample(kinds, rng.randint(0, 2))
    scrape = rng.choice([15, 30, 60])
    collect = rng.choice(["", ", collect_interval: 5m"])
    openshift = rng.choice(["", "    openshift: 4.18.20\n"])
    lines = [
        f"name: fleet_{seed}",
        "story: Drawn from its seed.",
        f"seed: {seed}",
        f"from: {begins}:00:00Z",
        f"until: +{FLEET_HOURS}h",
        "clusters:",
        f"  - name: fleet-{seed}",
        *openshift.splitlines(),
        f"    monitoring: {{prometheus_replicas: {rng.randint(1, 2)}, "
        f"scrape_interval: {scrape}s{collect}}}",
        "    nodes:",
        "      - {name: plain, cpu_cores: 32, memory_gib: 128}",
    ]
    for name, what, _ in chosen:
        times = rng.choice(["", "", f", joins: +{rng.randint(1, 200)}m"])
        lines.append(f"      - {{name: {name}, {what}{times}}}")
    lines.append("    workloads:")
    lines.append("      - {name: agent, namespace: kube-system, kind: DaemonSet}")
    for number in range(rng.randint(0, 2)):
        lines.append(f"      - {{{_fleet_workload(rng, f'web-{number}', 'plain', '', weekdays)}}}")
    for name, _, offers in chosen:
        for number, (request, most) in enumerate(offers):
            if rng.random() < 0.6:
                asks = _asks(request) + f", replicas: {rng.randint(1, most)}"
                work = _fleet_workload(rng, f"{name}-{number}", name, asks, weekdays)
                lines.append(f"      - {{{work}}}")
    return "\n".join(lines) + "\n"


def _fleet_workload(rng: random.Random, name: str, node: str, asks: str, weekdays: str) -> str:
    """A service, a workload of some hours, or Jobs with idle hours between them."""
    parts = [f"name: {name}", f"namespace: {rng.choice(['team-a', 'team-b'])}", f"node: {node}"]
    match rng.choice(["always", "hours", "jobs"]):
        case "always":
            parts.append("kind: Deployment")
        case "hours":
            begins = rng.randint(0, FLEET_HOURS - 2)
            ends = rng.randint(begins + 1, FLEET_HOURS - 1)
            parts += ["kind: StatefulSet", f"from: +{begins}h", f"until: +{ends}h"]
        case "jobs":
            parts += ["kind: Job", f"arrivals: {{every: ~{rng.randint(60, 300)}m{weekdays}}}"]
            parts.append("lifetime: 15m..2h")
    return ", ".join(parts) + (f", {asks}" if asks else "")


def _asks(request: str) -> str:
    match request:
        case "claim":
            return "claims: [{device_class: gpu.nvidia.com}]"
        case "shared":
            return "claims: [{device_class: gpu.nvidia.com, shared: team}]"
        case part if part.startswith("memory"):
            return f"claims: [{{device_class: gpu.nvidia.com, {part}}}]"
        case _:
            return f"requests: {request}"


def _workload(rng: random.Random, node: str, number: int, request: str, most: int) -> str:
    kind = rng.choice(KINDS)
    parts = [
        f"name: {node}-{number}",
        f"namespace: {rng.choice(['team-a', 'team-b', 'kube-system'])}",
        f"kind: {kind}",
        f"node: {node}",
    ]
    parts.append(_asks(request))
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
    seed_argument = int(next(argument for argument in sys.argv[1:] if argument.isdigit()))
    if "--fleet" in sys.argv:
        print(fault_free_fleet(seed_argument, by_samples="--by-samples" in sys.argv), end="")
    else:
        print(scenario(seed_argument), end="")
