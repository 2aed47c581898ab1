"""Simulated months from a seed: many tenants on many small clusters, most of them with a fault.

Put here: creating the scenario, simulating it, pulling, checking and closing it.
Not here: expectations (`tests/scenarios/test_simulated_months.py`), or the truth.

Each cluster has its own tenants, so a wrong amount of a tenant belongs to one cluster. A cluster is
measured for some hours of its month only, because the time of a simulation grows with these hours.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from billing.billed_facts import read_grounds
from billing.books import LedgerDocuments
from billing.close import commit_close, plan_from
from domain.billing_period import BillingPeriod
from domain.findings import CheckResult, Finding
from domain.interval import HOUR, Interval, format_instant
from fake_gpu.clock import driven
from fake_gpu.faults.fault_catalogue import CATALOGUE
from fake_gpu.scenario.load import read_scenario
from fake_gpu.serve import Running, serve
from orchestration import steps
from orchestration.demo.clock_driver import drive_clock, run_collectors
from orchestration.demo.demo_home import make_home
from orchestration.open_home import OpenHome
from tests.decisions_by_hand import HEADERS, SIGNED
from tests.recorded_fleets import JournalRecorder

if TYPE_CHECKING:
    from fake_gpu.clock import VirtualClock
    from fake_gpu.fleet.model import Fleet
    from fake_gpu.kubernetes.objects import ObjectHistory
    from warehouse.home import Home

PERIOD = BillingPeriod("2026-10")
FIRST = datetime(2026, 10, 14, 22, tzinfo=UTC)
HOURS = 2
BEFORE = timedelta(minutes=10)
ASKED_AT = FIRST + (HOURS + 1) * HOUR + timedelta(minutes=5)
ASKED_AGAIN_AT = ASKED_AT + 4 * HOUR

IN_THE_HOURS = "from: +40m, until: +1h25m"
NOBODY_LISTENS = "127.0.0.1:1"
WHILE_ASKED = f"from: +{HOURS + 1}h, until: +{HOURS + 3}h"  # it ends before the second query
EVER_SINCE = f"from: +{HOURS + 1}h, until: +{HOURS + 30}h"


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault of one cluster, and the findings that it may cause."""

    kind: str
    parameters: str  # with CLUSTER in place of the cluster's name
    caught_as: str = ""  # '' if it leaves no trace and every amount is right
    may_raise: str = ""  # the codes of all its findings; any other code is a failure
    is_counted: bool = True  # by the simulator; some faults only show as missing data
    needs_devices: bool = False  # whether device telemetry is queried, which takes long
    has_no_server: bool = False  # no server listens at the address of the cluster's samples

    @property
    def side(self) -> str:
        return CATALOGUE[self.kind].side

    @property
    def codes(self) -> tuple[str, ...]:
        """Its codes in the catalogue of faults."""
        return CATALOGUE[self.kind].codes


ONE_SCRAPE = "from: +40m, until: +40m30s, job: kube-state-metrics"
SAMPLES_GONE = "GAP-002 GAP-005 GAP-009"
SAMPLES_GONE_OR_DISPUTED = f"{SAMPLES_GONE} REC-001"
JOURNAL_GONE = "GAP-003 GAP-006"

TROUBLES: Sequence[Trouble] = (
    # A. The sample store, and proxies in front of it.
    Trouble("store_vanishes", f"{WHILE_ASKED}, warns_for: 0s"),
    Trouble(
        "store_vanishes",
        f"{EVER_SINCE}, warns_for: 0s",
        "GAP-002 2 hours (thanos: store missing without a warning",
        SAMPLES_GONE,
    ),
    Trouble("history_vanished", EVER_SINCE, "store missing without a warning", SAMPLES_GONE),
    Trouble("receiver_gone", WHILE_ASKED),
    Trouble("partial_response", f"{EVER_SINCE}, share: 20%", "response not complete",
            SAMPLES_GONE_OR_DISPUTED),
    Trouble("empty_success", f"{WHILE_ASKED}, requests: 0"),
    # A server fails for all clusters; a second request succeeds.
    Trouble("timeout", f"{WHILE_ASKED}, requests: 3"),
    Trouble(
        "metric_renamed",
        f"{IN_THE_HOURS}, metric: kube_pod_status_phase, to: kube_pod_phase",
        "metric not allowed or renamed",
        SAMPLES_GONE_OR_DISPUTED,
        is_counted=False,
    ),
    Trouble(
        "metric_renamed",
        "from: 2026-10-14T20:00:00Z, until: +4h, metric: kube_pod_info, to: kube_pod_facts",
        "GAP-007",
        "GAP-007",
        is_counted=False,
    ),
    Trouble("second_kube_state_metrics", IN_THE_HOURS),
    Trouble("replicas_undeclared", IN_THE_HOURS),
    Trouble("downsampled", "from: +30m, until: +1h30m", "push to the hub lost",
            SAMPLES_GONE_OR_DISPUTED),
    Trouble("downsampled", "from: +30m, until: +1h30m, whatever_is_asked: 1",
            "down-sampled: ", SAMPLES_GONE_OR_DISPUTED),
    # A pull queries ranges, and ranges use no look-back.
    Trouble("lookback_overrun", WHILE_ASKED, is_counted=False),
    Trouble("late_arrival", f"{IN_THE_HOURS}, delay: 6h", "push to the hub lost", SAMPLES_GONE),
    Trouble("out_of_order_dropped", f"{IN_THE_HOURS}, share: 20%", "samples missing",
            SAMPLES_GONE_OR_DISPUTED),
    Trouble("dropped_scrapes", f"{IN_THE_HOURS}, share: 20%", "samples missing",
            SAMPLES_GONE_OR_DISPUTED),
    Trouble("dropped_scrapes", ONE_SCRAPE, "target down, 1 of 120 samples missing", SAMPLES_GONE),
    Trouble("exporter_down", f"{IN_THE_HOURS}, job: kube-state-metrics", "target down",
            SAMPLES_GONE_OR_DISPUTED),
    Trouble("sample_limit", f"{IN_THE_HOURS}, job: kube-state-metrics", "target down",
            SAMPLES_GONE_OR_DISPUTED),
    Trouble("collector_down", IN_THE_HOURS, "push to the hub lost", SAMPLES_GONE),
    Trouble("block_gap", IN_THE_HOURS, "push to the hub lost", SAMPLES_GONE),
    Trouble("timestamps_overwritten", IN_THE_HOURS, "push to the hub lost", SAMPLES_GONE),
    Trouble("cluster_label_lost", IN_THE_HOURS, "push to the hub lost", SAMPLES_GONE),
    Trouble("interval_changed", f"{IN_THE_HOURS}, interval: 2m", "samples missing", SAMPLES_GONE),
    Trouble("clock_skew", f"{IN_THE_HOURS}, seconds: 90", "REC-001", SAMPLES_GONE_OR_DISPUTED),
    # A value that is not a count is refused; the pod's own samples then have a gap.
    Trouble("odd_values", f"{IN_THE_HOURS}, share: 30%", "value refused", SAMPLES_GONE),
    Trouble(
        "label_renamed",
        f"{IN_THE_HOURS}, metric: kube_pod_container_resource_requests",
        "label renamed",
        SAMPLES_GONE_OR_DISPUTED,
    ),
    Trouble("exporter_moved", IN_THE_HOURS),
    Trouble("honor_labels_flipped", f"{IN_THE_HOURS}, job: kube-state-metrics"),
    Trouble("pod_metadata_lost", f"{IN_THE_HOURS}, share: 50%"),
    Trouble("unavailable", "", "query failed", SAMPLES_GONE, is_counted=False, has_no_server=True),
    # Telemetry never changes an amount.
    Trouble("pod_labels_lost", IN_THE_HOURS, "GAP-008", "GAP-008", needs_devices=True),
    Trouble("hostname_label_renamed", IN_THE_HOURS, needs_devices=True),
    Trouble("model_renamed", IN_THE_HOURS, needs_devices=True),
    Trouble("unaccounted_process", "from: +0s, until: +2h, card: 7", "USE-001", "USE-001",
            needs_devices=True),
    Trouble(
        "forged_series",
        f"{IN_THE_HOURS}, attacker: CLUSTER-t000, victim: CLUSTER-t001",
        may_raise="USE-001",
    ),
    # B. The Kubernetes API, and events of the cluster.
    Trouble("watch_dropped", IN_THE_HOURS, "journal gap", JOURNAL_GONE),
    Trouble("watch_dropped", "from: +0s, until: +2h", "collector lost", JOURNAL_GONE),
    Trouble("watch_expired", IN_THE_HOURS, "journal gap", JOURNAL_GONE),
    # In the last hour only the list after the gap shows the pods that still exist.
    Trouble("watch_expired", "from: +1h10m, until: +1h20m", "journal gap", JOURNAL_GONE),
    Trouble("rbac_lost", IN_THE_HOURS, "journal gap", JOURNAL_GONE),
    Trouble("etcd_restored", "from: +70m, until: +80m", "journal gap", f"{JOURNAL_GONE} REC-001"),
    Trouble("watch_replays", IN_THE_HOURS),
    Trouble("events_twice", IN_THE_HOURS),
    Trouble("api_unavailable", IN_THE_HOURS),
    Trouble("mass_absence", f"{IN_THE_HOURS}, share: 50%"),
    Trouble("start_rewritten", IN_THE_HOURS),
    Trouble("finished_before_started", IN_THE_HOURS, "REC-001", "REC-001 GAP-006"),
    Trouble("pods_replaced", "from: +40m"),
    Trouble("crash_loop", IN_THE_HOURS),
    Trouble("preemption", "from: +50m, share: 50%"),
    Trouble("evicted_without_end", f"{IN_THE_HOURS}, share: 50%"),
    Trouble("terminal_pods_kept", "from: +0s, until: +2h"),
    Trouble("node_not_ready", "from: +40m, until: +1h20m, node: mig"),
    Trouble("node_removed", "from: +50m, node: mig"),
    Trouble("card_unhealthy", f"{IN_THE_HOURS}, node: mig, card: 1"),
    Trouble("mig_repartition", "from: +50m, node: mig, layout: all-2g.10gb, takes: 6m"),
    Trouble("namespace_recreated", "from: +50m, namespace: CLUSTER-t002", "TEN-001", "TEN-001"),
)  # fmt: skip
ALWAYS_THERE = {
    2: "name: serve, requests: 1",
    3: "name: batch, kind: Job, requests: 1, arrivals: {every: ~15m}, lifetime: 2m..10m",
}
"""Work of the tenants that some faults need, independent of the seed."""
UNUSUAL = {
    0: "name: amd, requests: {amd.com/gpu: 1}, lifetime: ~3h",
    1: "name: claims, kind: Job, claims: [{device_class: gpu.nvidia.com}], "
    "arrivals: {every: ~40m}, lifetime: 2m..30m",
}
"""In clusters without a fault: devices by claim, and devices of another vendor."""

CLEAN_EVERY = 6
"""Each sixth cluster has no fault; the others have one fault each, in rotation."""


def is_clean(number: int) -> bool:
    return number % CLEAN_EVERY == 0


def trouble_of(seed: int, number: int) -> Trouble | None:
    """The fault of a cluster."""
    if is_clean(number):
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
        trouble = trouble_of(seed, number)
        has_devices = number == 0 or bool(trouble and trouble.needs_devices)
        lines += _cluster(number, tenants, rng, has_devices)
        if trouble and not trouble.has_no_server:
            more = trouble.parameters.replace("CLUSTER", f"e{number:03}")
            faults.append(f"  - {{fault: {trouble.kind}, cluster: e{number:03}, {more}}}")
    return "\n".join([*lines, *(faults if len(faults) > 1 else [])]) + "\n"


def _cluster(number: int, tenants: int, rng: random.Random, has_devices: bool) -> list[str]:
    count = 1 + tenants // 7
    devices = "" if has_devices else ", jobs: {dcgm-exporter: {enabled: false}}"
    lines = [
        f"  - name: e{number:03}",
        "    monitoring: {prometheus_replicas: 1, scrape_interval: 30s, profiling: false"
        f"{devices}}}",
        "    nodes:",
        f"      - {{name: big, count: {count}, product: NVIDIA-A100-SXM4-80GB, cards: 8}}",
        "      - {name: mig, product: NVIDIA-A100-SXM4-40GB, cards: 4,"
        " mig: {layout: {all: {1g.5gb: 3, 4g.20gb: 1}}}}",
        "      - {name: dra, product: NVIDIA-B200, cards: 4, dra: true}",
        "      - {name: amd, product: AMD_Instinct_MI300X_OAM, cards: 1}",
        "    workloads:",
    ]
    always = ALWAYS_THERE | (UNUSUAL if is_clean(number) else {})
    for tenant in range(tenants):
        work = always.get(tenant) or _work(rng)
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
    """A month that was simulated, checked, accepted where necessary, and closed."""

    running: Running
    opened: OpenHome
    check_result: CheckResult  # before any gap was accepted


@dataclass(frozen=True)
class Watched:
    """The clusters of a served fleet that have a real collector."""

    running: Running
    fleet: Fleet

    @property
    def clock(self) -> VirtualClock:
        return self.running.clock

    @property
    def histories(self) -> Mapping[str, ObjectHistory]:
        ids = {cluster.cluster_id for cluster in self.fleet.clusters}
        return {key: value for key, value in self.running.histories.items() if key in ids}

    def advance_to(self, when: datetime, woken: Collection[str] | None = None) -> None:
        self.running.advance_to(when, woken)


def simulate_month(seed: int, clusters: int, tenants: int, folder: Path) -> Month:
    """One simulated month, from an empty home to sealed invoices."""
    text = scenario_of(seed, clusters, tenants)
    with serve(read_scenario(text, "simulated.yaml", None), driven(FIRST - BEFORE)) as running:
        home = make_home(folder, running.fleet, running.thanos_url, running.kubernetes_urls)
        _take_servers_away(home, running.fleet)
        opened = OpenHome(home, running.clock)
        _keep_journals(opened, running, seed)
        running.clock.advance_to(ASKED_AT)
        steps.pull(opened, PERIOD.interval)
        running.clock.advance_to(ASKED_AGAIN_AT)
        steps.pull(opened, PERIOD.interval)
        steps.recheck(opened, PERIOD.interval)
        running.clock.advance_to(PERIOD.ended_at + timedelta(days=3))
    steps.refresh(opened, PERIOD)
    check_result = steps.check_period(opened, PERIOD)
    opened = sign(opened, check_result.blocking)
    _issue(opened)
    return Month(running, opened, check_result)


def _issue(opened: OpenHome) -> None:
    """Check again and seal, like a close but without the pages of a thousand tenants."""
    check_result = steps.check_period(opened, PERIOD)
    assert check_result.billable, [f"{f.code} {f.where}" for f in check_result.blocking]
    home = opened.home
    grounds = read_grounds(home, home.warehouse_path, PERIOD, opened.decisions, check_result)
    books = LedgerDocuments(opened.record, opened.record.ledger())
    plan = plan_from(books, grounds, opened.clock.now())
    commit_close(books, PERIOD, plan, opened.clock, "the simulation", files={})


def _take_servers_away(home: Home, fleet: Fleet) -> None:
    """Point the samples of some clusters to an address without a server."""
    text = home.config_path.read_text(encoding="utf-8")
    for number, cluster in enumerate(fleet.clusters):
        trouble = trouble_of(fleet.seed, number)
        if trouble and trouble.has_no_server:
            own = f'[clusters.{cluster.cluster_id}]\nthanos = "fake"'
            assert own in text
            text = text.replace(own, own.replace("fake", "nobody"))
    nobody = f'[thanos.nobody]\nurl = "http://{NOBODY_LISTENS}"\n'
    home.config_path.write_text(text + nobody, encoding="utf-8")


def _keep_journals(opened: OpenHome, running: Running, seed: int) -> None:
    """Real collectors for clusters with faults of the API server, and for one without faults.

    The journals of the others are written in this process, as with an unbroken watch.
    """
    end = FIRST + (HOURS + 1) * HOUR
    watched = []
    for number, cluster in enumerate(running.fleet.clusters):
        trouble = trouble_of(seed, number)
        if number == 0 or (trouble and trouble.side == "kubernetes"):
            watched.append(cluster)
            continue
        history = running.histories[cluster.cluster_id]
        recorder = JournalRecorder(history, store=opened.spool(cluster.cluster_id))
        recorder.write(int((FIRST - BEFORE).timestamp()), int(end.timestamp()))
    seen = Watched(running, replace(running.fleet, clusters=tuple(watched)))
    with run_collectors(opened, seen) as collectors:
        # Stop at the last second, so that changes before it are received within the hour.
        last = FIRST + HOURS * HOUR - timedelta(seconds=1)
        drive_clock(seen, collectors, Interval(FIRST - BEFORE, last))
        drive_clock(seen, collectors, Interval(last, end))


def sign(opened: OpenHome, blocking: Sequence[Finding]) -> OpenHome:
    """An operator's decisions: gaps bill nothing, disputes bill the lifecycle, limits are wider."""
    if not blocking:
        return opened
    gaps, limits = [HEADERS["accepted_gaps"]], [HEADERS["policies"]]
    for finding in blocking:
        if finding.code in ("GAP-005", "GAP-006"):
            name = "one_source_limit" if finding.code == "GAP-005" else "uncertainty_limit"
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
