"""Simulated months: many tenants on many small clusters, half of them with faults, told by a seed.

Put here: making the scenario, living through it, asking, judging and closing it.
Not here: what is expected (`tests/scenarios/test_simulated_months.py`), or the truth.

Each cluster has tenants of its own, so whatever is wrong with a tenant is its cluster's. A cluster
is measured for some hours of its month only: what a month costs to simulate is its hours.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from domain.billing_period import BillingPeriod
from domain.findings import Finding, Judgement
from domain.interval import HOUR, Interval, format_instant
from fake_gpu.clock import driven
from fake_gpu.scenario.load import read_scenario
from fake_gpu.serve import Running, serve
from orchestration import steps
from orchestration.demo.clockwork import collecting, live_through
from orchestration.demo.home import make_home
from orchestration.open_home import OpenHome
from tests.decisions_by_hand import HEADERS, SIGNED

if TYPE_CHECKING:
    from billing.close import CloseResult

PERIOD = BillingPeriod("2026-10")
FIRST = datetime(2026, 10, 14, 22, tzinfo=UTC)
HOURS = 2
BEFORE = timedelta(minutes=10)
ASKED_AT = FIRST + (HOURS + 1) * HOUR + timedelta(minutes=5)
ASKED_AGAIN_AT = ASKED_AT + 4 * HOUR

IN_THE_HOURS = "from: +40m, until: +1h25m"
WHILE_ASKED = f"from: +{HOURS + 1}h, until: +{HOURS + 3}h"  # and no longer when asked again
EVER_SINCE = f"from: +{HOURS + 1}h, until: +{HOURS + 30}h"


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault of one cluster, and by which words its findings are known."""

    kind: str
    parameters: str  # with CLUSTER for the cluster's name
    caught_as: str = ""  # '' where nothing is left of it: every amount is right
    is_counted: bool = True  # whether the fake counts it: some are seen only by what is missing


TROUBLES: Sequence[Trouble] = (
    Trouble("store_vanishes", f"{WHILE_ASKED}, warns_for: 0s"),
    Trouble("store_vanishes", f"{EVER_SINCE}, warns_for: 0s", "store gone in silence"),
    Trouble("receiver_gone", WHILE_ASKED),
    Trouble("empty_success", f"{WHILE_ASKED}, requests: 0"),
    # A server fails for all clusters; asked again, it answers.
    Trouble("timeout", f"{WHILE_ASKED}, requests: 3"),
    Trouble(
        "metric_renamed",
        f"{IN_THE_HOURS}, metric: kube_pod_status_phase, to: kube_pod_phase",
        "metric renamed or no longer allowed",
        is_counted=False,
    ),
    Trouble(
        "metric_renamed",
        "from: 2026-10-14T20:00:00Z, until: +4h, metric: kube_pod_info, to: kube_pod_facts",
        "GAP-007",
        is_counted=False,
    ),
    Trouble("second_kube_state_metrics", IN_THE_HOURS),
    Trouble("replicas_undeclared", IN_THE_HOURS),
    Trouble("downsampled", "from: +30m, until: +1h30m", "push to the hub lost"),
    Trouble("lookback_overrun", WHILE_ASKED),
    Trouble("late_arrival", f"{IN_THE_HOURS}, delay: 6h", "push to the hub lost"),
    Trouble("dropped_scrapes", f"{IN_THE_HOURS}, share: 20%", "samples missing"),
    Trouble("exporter_down", f"{IN_THE_HOURS}, job: kube-state-metrics", "target down"),
    Trouble("collector_down", IN_THE_HOURS, "push to the hub lost"),
    # Telemetry never decides an amount; here a server refuses every question about it.
    Trouble("pod_labels_lost", IN_THE_HOURS),
    Trouble("stowaway", "from: +0s, until: +2h, card: 7", "USE-001"),
    Trouble("forged_series", f"{IN_THE_HOURS}, attacker: CLUSTER-t000, victim: CLUSTER-t001"),
    Trouble("watch_dropped", IN_THE_HOURS, "journal gap"),
    Trouble("watch_dropped", "from: +0s, until: +2h", "collector lost"),
    Trouble("watch_expired", IN_THE_HOURS, "journal gap"),
    Trouble("pods_replaced", "from: +40m"),
    Trouble("evicted_without_end", f"{IN_THE_HOURS}, share: 50%"),
    Trouble("terminal_pods_kept", "from: +0s, until: +2h"),
    Trouble("mig_repartition", "from: +50m, node: mig, layout: all-2g.10gb, takes: 6m"),
    Trouble("namespace_recreated", "from: +50m, namespace: CLUSTER-t002", "TEN-001"),
)
ALWAYS_THERE = {
    2: "name: serve, requests: 1",
    3: "name: batch, kind: Job, requests: 1, arrivals: {every: ~15m}, lifetime: 2m..10m",
}
"""Work of the tenants that some troubles need, whatever the seed draws."""

CLEAN_EVERY = 6
"""Each sixth cluster has no fault; the other tenants' clusters have one each, by turns."""


def trouble_of(seed: int, number: int) -> Trouble | None:
    """What goes wrong in a cluster."""
    if number % CLEAN_EVERY == 0:
        return None
    return TROUBLES[(seed + number - 1 - number // CLEAN_EVERY) % len(TROUBLES)]


_PLACE = re.compile(
    r"cluster (?P<cluster>[0-9a-f-]{36})(?:, pod \S+ \((?P<pod>[^)]+)\))?, "
    r"(?P<from>\S+Z) to (?P<until>\S+Z)"
)


def scenario_of(seed: int, clusters: int, tenants: int) -> str:
    """The scenario of a simulated month, as a file of one."""
    rng = random.Random(seed)
    lines = [
        "name: simulated",
        f"seed: {seed}",
        f"from: {format_instant(FIRST)}",
        f"until: {format_instant(FIRST + HOURS * HOUR)}",
        "clusters:",
    ]
    faults = ["faults:"]
    for number in range(clusters):
        lines += _cluster(number, tenants, rng)
        if trouble := trouble_of(seed, number):
            more = trouble.parameters.replace("CLUSTER", f"e{number:03}")
            faults.append(f"  - {{fault: {trouble.kind}, cluster: e{number:03}, {more}}}")
    return "\n".join([*lines, *(faults if len(faults) > 1 else [])]) + "\n"


def _cluster(number: int, tenants: int, rng: random.Random) -> list[str]:
    count = 1 + tenants // 7
    lines = [
        f"  - name: e{number:03}",
        "    monitoring: {prometheus_replicas: 1, scrape_interval: 30s, profiling: false}",
        "    nodes:",
        f"      - {{name: big, count: {count}, product: NVIDIA-A100-SXM4-80GB, cards: 8}}",
        "      - {name: mig, product: NVIDIA-A100-SXM4-40GB, cards: 4,"
        " mig: {layout: {all: {1g.5gb: 3, 4g.20gb: 1}}}}",
        "    workloads:",
    ]
    for tenant in range(tenants):
        work = ALWAYS_THERE.get(tenant) or _work(rng)
        lines.append(f"      - {{namespace: e{number:03}-t{tenant:03}, {work}}}")
    return lines


def _work(rng: random.Random) -> str:
    return rng.choice(
        (
            "name: serve, requests: 1, lifetime: ~3h",
            "name: pair, requests: 2, lifetime: ~6h",
            "name: batch, kind: Job, requests: 1, arrivals: {every: ~90m}, lifetime: 2m..70m",
            "name: blink, kind: Job, requests: 1, arrivals: {every: ~80m}, lifetime: 5s..90s",
            "name: small, requests: {nvidia.com/mig-1g.5gb: 1}, lifetime: ~2h",
            "name: half, kind: Job, requests: {nvidia.com/mig-4g.20gb: 1}, "
            "arrivals: {every: ~70m}, lifetime: 10m..40m",
            "name: db, kind: StatefulSet, requests: 1, restarts: {every: ~1h, pause: 5s..40s}",
        )
    )


@dataclass(frozen=True)
class Month:
    """A month that was lived through, judged, signed where it had to be, and closed."""

    running: Running
    opened: OpenHome
    judgement: Judgement  # before anybody signed anything
    result: CloseResult


def live(seed: int, clusters: int, tenants: int, folder: Path) -> Month:
    """One simulated month, from nothing to sealed invoices."""
    text = scenario_of(seed, clusters, tenants)
    last = FIRST + HOURS * HOUR - timedelta(seconds=1)
    with serve(read_scenario(text, "simulated.yaml", None), driven(FIRST - BEFORE)) as running:
        home = make_home(folder, running.estate, running.thanos_url, running.kubernetes_urls)
        opened = OpenHome(home, running.clock)
        with collecting(opened, running) as collectors:
            # A stop at the last second: what begins before it is told before the hour is over.
            live_through(running, collectors, Interval(FIRST - BEFORE, last))
            live_through(running, collectors, Interval(last, FIRST + (HOURS + 1) * HOUR))
        for instant, only_debts in ((ASKED_AT, True), (ASKED_AGAIN_AT, False)):
            running.clock.advance_to(instant)
            steps.pull(opened, PERIOD.interval, only_debts=only_debts)
        running.clock.advance_to(PERIOD.ended_at + timedelta(days=3))
    steps.refresh(opened, PERIOD)
    judgement = steps.judge(opened, PERIOD)
    opened = sign(opened, judgement.blocking)
    return Month(running, opened, judgement, steps.close(opened, PERIOD, dry_run=False))


def sign(opened: OpenHome, blocking: Sequence[Finding]) -> OpenHome:
    """What an operator would sign: gaps as nothing, disputes by the lifecycle, wider limits."""
    if not blocking:
        return opened
    gaps, limits = [HEADERS["accepted_gaps"]], [HEADERS["policies"]]
    for finding in blocking:
        if finding.code in ("GAP-005", "GAP-006"):
            name = "one_witness_limit" if finding.code == "GAP-005" else "uncertainty_limit"
            limits.append(f"{name},signed,1,2026-10-01T00:00:00Z,,{SIGNED}")
            continue
        place = _PLACE.search(finding.where)
        assert place, f"nobody can sign {finding.code} {finding.where}: {finding.seen}"
        treatment = "bill_nothing" if finding.code.startswith("GAP") else "bill_lifecycle"
        pod = place["pod"] or ""
        for source in ("thanos", "kubernetes"):
            row = f"{place['cluster']},{source},{place['from']},{place['until']},{treatment}"
            gaps.append(f"{row},{SIGNED},{pod}")
    for name, rows in (("accepted_gaps", gaps), ("policies", limits)):
        path = opened.home.decisions / f"{name}.csv"
        path.write_text("\n".join(dict.fromkeys(rows)) + "\n", encoding="utf-8")
    signed = OpenHome(opened.home, opened.clock)
    steps.refresh(signed, PERIOD)
    return signed
