"""Every scenario of the library and random ones: the facts equal the truth, to the second.

Put here: the scenarios, and the comparison of every mart with the truth.
Not here: creating evidence (`tests/recorded_fleets.py`), the comparison (`against_truth`,
`doubts`), faults of a connection (served fleets).

All fleets are clusters of one home and built together, because a start of dbt takes longer than the
calculation. A failure names the scenario; `python -m tests.random_fleets SEED` prints a random one.
`make explore` simulates other random ones, one for each twenty of its `N`, and a part of the
library.

After a broken watch, or without a journal, a fact is the truth or states its possible error: an end
by its uncertainty, a dispute or an interval without a watch by its length.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest
import yaml

from domain.billing_period import BillingPeriod
from domain.decisions import Decisions
from fake_gpu.faults.ledger import FaultLedger
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Fleet
from fake_gpu.scenario.load import OPENB, library_text, load_scenario, read_scenario
from fake_gpu.scenario.load import library as names_of_library
from tests.decisions_by_hand import decided, table
from tests.fleets import fleet as read
from tests.random_fleets import scenario
from tests.recorded_fleets import (
    CARDS_ALONE,
    broken_watches,
    clusters_csv,
    record_fleet,
    sampling_of,
)
from tests.scenarios import against_truth as truth
from tests.scenarios.doubts import wrong_beyond_doubt
from warehouse.build import BuildResult, build_period
from warehouse.home import Home
from warehouse.project import seed_text

PERIOD = BillingPeriod("2026-10")
SEEDS = (*range(1, 9), 29)  # in the last, slices are on more cards than necessary
RESTARTED = 1_462_990_074  # its containers start, and restart twice, while nothing watches
BROKEN_WATCHES = {  # seconds from the start of the fleet
    1: (3000, 4800),
    4: (3000, 4800),
    7: (3000, 4800),
    RESTARTED: (132, 4132),
}
QUERIED_TWICE = (
    "mig_layout_changed",
    "exporter_outage",
    "restarts_and_crash_loops",
    "seed 4",
    "seed 8",
)
NANOS_PER_SECOND = 1_000_000  # 3.60 an hour
WITHOUT_A_PRICE = "T4"
SEED = int(os.environ.get("SEED", "1"))
EXPLORED = range(SEED, SEED + max(int(os.environ.get("N", "1000")) // 20, 3))

# A month of work, which `test_demo_results` covers, and a trace without faults.
TOO_LONG = ("demo", OPENB)
# Two days of all faults: only the first hours of them.
IN_PART = {"everything_at_once": 6}

# Together with the seeds, they have every situation that the tests below require.
VARIED = (
    "mig_layout_changed",
    "double_gap",
    "every_way_to_share",
    "evicted_without_an_end",
    "exporter_outage",
    "init_and_sidecars",
    "node_drained_mid_hour",
    "relabelled_node",
    "restarts_and_crash_loops",
    "thin_line",
)

# Measured by samples alone, without a journal.
ALONE = ("samples_only", "single_pods_lost")

# A pod that is bound while its node's label is wrong has the wrong class all the time.
LABELLED = {
    "relabelled_node": [("NVIDIA-H200", 1_791_192_600, 1_791_198_000)]  # half past nine to eleven
}

CERTAIN = """
    method = 'confirmed'
    or (method = 'lifecycle_only'
        and method_reason in
            ('too_short', 'window_edge', 'held', 'no_metric', 'samples_not_expected'))
"""

Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class RecordedFleets:
    """The simulated fleets, their intervals without a watch, and their facts."""

    fleets: dict[str, Fleet]
    unwatched: dict[str, Spans]
    home: Home
    build: BuildResult

    @cached_property
    def truths(self) -> dict[str, truth.Truth]:
        return {n: truth.Truth(e, LABELLED.get(n, ())) for n, e in self.fleets.items()}

    @cached_property
    def watched(self) -> dict[str, truth.Truth]:
        blind = {*self.unwatched, *ALONE}
        return {name: true for name, true in self.truths.items() if name not in blind}

    @cached_property
    def in_doubt(self) -> dict[str, truth.Truth]:
        return {name: true for name, true in self.truths.items() if name not in self.watched}

    def clusters_in_doubt(self) -> list[str]:
        return [cluster_id for true in self.in_doubt.values() for cluster_id in true.cluster_ids]

    def widest(self, name: str) -> int:
        """The largest uncertainty of a pod: interval, scrape, clocks and the gap, at each end."""
        how = sampling_of(self.fleets[name].clusters[0])
        hole = max((until - since for since, until in self.unwatched.get(name, ())), default=0)
        return 2 * (how.sample_interval_seconds + how.scrape_interval_seconds + hole + 15)


def library() -> dict[str, Fleet]:
    names = [name for name in names_of_library() if name not in (*TOO_LONG, *IN_PART)]
    parts = {name: first_hours(name, hours) for name, hours in IN_PART.items()}
    return fleets_of(names) | parts


def fleets_of(names: Iterable[str]) -> dict[str, Fleet]:
    return {name: build_fleet(load_scenario(name)) for name in names}


def first_hours(name: str, hours: int) -> Fleet:
    """A scenario cut short, with the faults that begin before its end."""
    document = yaml.safe_load(library_text(name))
    document["until"] = f"+{hours}h"
    document["faults"] = [
        f for f in document["faults"] if int(re.findall(r"\+(\d+)h", f["from"])[0]) < hours
    ]
    return build_fleet(read_scenario(yaml.safe_dump(document, sort_keys=False), name, None))


def seeded_ones() -> tuple[dict[str, Fleet], dict[str, Spans]]:
    """The same random fleets in every run; four of them have one broken watch."""
    fleets = {f"seed {seed}": read(scenario(seed)) for seed in (*SEEDS, RESTARTED)}
    unwatched: dict[str, Spans] = {}
    for seed, (since, until) in BROKEN_WATCHES.items():
        started_at = fleets[f"seed {seed}"].started_at
        unwatched[f"seed {seed}"] = [(started_at + since, started_at + until)]
    return fleets, unwatched


def random_ones(seeds: Iterable[int]) -> tuple[dict[str, Fleet], dict[str, Spans]]:
    """Random fleets; every third has one broken watch."""
    fleets = {f"seed {seed}": read(scenario(seed)) for seed in seeds}
    unwatched: dict[str, Spans] = {}
    for name, fleet in fleets.items():
        rng = random.Random(name)
        if rng.random() < 1 / 3:
            since = fleet.started_at + rng.randint(60, 2 * 3600)
            unwatched[name] = [(since, since + rng.choice([45, 600, 1800, 4000]))]
    return fleets, unwatched


def names_cards(name: str) -> bool:
    """Telemetry affects the numbers of cards but no amount: half of the fleets have none."""
    return not name.startswith("seed") or int(name.removeprefix("seed ")) % 2 == 1


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((), id="library"),
        pytest.param(EXPLORED, id=f"and-seeds-from-{SEED}", marks=pytest.mark.explore),
    ],
)
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> RecordedFleets:
    seeded, drawn = seeded_ones()
    more, drawn_of_more = random_ones(request.param)
    named = fleets_of(VARIED) if more else library()
    fleets, drawn = named | more | seeded, drawn_of_more | drawn
    home = Home.create(tmp_path_factory.mktemp("truth") / "home")
    unwatched = record_fleets(home, fleets, drawn)
    build = build_period(home, PERIOD, decisions_of(fleets), closed_periods=frozenset())
    return RecordedFleets(fleets, unwatched, home, build)


def record_fleets(
    home: Home, fleets: Mapping[str, Fleet], drawn: Mapping[str, Spans]
) -> dict[str, Spans]:
    """Land the evidence of all fleets; returns the intervals of each without a watch."""
    unwatched = {}
    for name, fleet in fleets.items():
        watched, broken = name not in ALONE, drawn.get(name, ())
        field = CARDS_ALONE if names_cards(name) else False
        for _ in range(2 if name in QUERIED_TWICE else 1):  # only the later response counts
            ledger = record_fleet(home, fleet, watched=watched, unwatched=broken, telemetry=field)
        require_fired(name, fleet, ledger)
        if spans := [*broken, *own_breaks(fleet)]:
            unwatched[name] = spans
    return unwatched


def decisions_of(fleets: Mapping[str, Fleet]) -> Decisions:
    """One price for every class except one."""
    header, *rows = (line.split(",") for line in seed_text("gpu_products").splitlines())
    classes = {row[header.index("gpu_class")] for row in rows if row[0] and row[0][0] != "#"}
    rates = [
        f",{each},whole,EUR,3.60,2026-01-01,,|," for each in sorted(classes - {WITHOUT_A_PRICE})
    ]
    return decided(clusters_csv(fleets.values(), alone=ALONE), table("rates", *rates))


def own_breaks(fleet: Fleet) -> Spans:
    """The intervals in which faults of the fleet itself broke a watch."""
    return [s[1:] for c in fleet.clusters for s in broken_watches(fleet, c.cluster_id)]


UNSEEN = ("unaccounted_process", "honor_labels_flipped", "card_unhealthy")
"""These faults show only in fields of telemetry that are not queried here, or on no device."""


def require_fired(name: str, fleet: Fleet, ledger: FaultLedger) -> None:
    """Each fault of the fleet has occurred."""
    ledger.require_fired(fault for fault in fleet.faults if fault.kind not in UNSEEN)


def test_with_an_unbroken_journal_every_fact_is_the_truth(recorded: RecordedFleets) -> None:
    """Covers invariants 4, 5 and 9: the facts have no row that the truth does not have."""
    wrong = truth.wrong_facts(recorded.home, recorded.watched, recorded.clusters_in_doubt())
    assert wrong == {}


def test_cards_of_slices_are_known_where_telemetry_names_them(recorded: RecordedFleets) -> None:
    """Also if the node's capacity would permit fewer cards."""
    of_node = truth.counted(recorded.home, "node-hours")
    of_cluster = truth.counted(recorded.home, "cluster-hours")
    known = more = together = 0
    for true in recorded.watched.values():
        cut = {key for key in of_node if key[:2] in true.sliced_nodes}
        known += sum(of_node[key][-1] == "by_devices" for key in cut)
        more += sum(of_node[key][0] > of_node[key][2] for key in cut)
        together += sum(
            of_cluster[key][2] > of_cluster[key][3] for key in true.clusters if key in of_cluster
        )
    print(f"{known} node-hours of slices known by devices, {more} of them beyond the bound")
    assert known, "no node-hour of slices was known card by card"
    assert more, "no node-hour had more cards in use than its capacity's bound"
    assert together, "no cluster-hour had more cards in use than its nodes' bounds"


def test_every_data_test_passes_on_all_of_them(recorded: RecordedFleets) -> None:
    assert [(test.name, test.failed_row_count) for test in recorded.build.failed_tests] == []


def test_a_flag_names_a_fault_that_really_touched_it(recorded: RecordedFleets) -> None:
    """A pod-hour is uncertain, disputed or missing only because of a fault that can cause it.

    The fault must be within two samples of the flagged seconds. The reason of any other flag would
    be wrong, like a wrong number.
    """
    statement = f"""
        select cluster_id, epoch_us(segment_started_at) // 1000000,
            epoch_us(segment_ended_at) // 1000000, pod_name, method, method_reason,
            uncertainty_seconds
        from marts.fct_pod_hours where not ({CERTAIN}) or uncertainty_seconds > 0
    """
    flagged = truth.ask(recorded.home, statement)
    of_cluster = {
        cluster.cluster_id: (name, fleet)
        for name, fleet in recorded.fleets.items()
        for cluster in fleet.clusters
    }
    unexplained = [
        (of_cluster[row[0]][0], *row[1:])
        for row in flagged
        if not _explained(row, of_cluster[row[0]][1], recorded.unwatched.get(of_cluster[row[0]][0]))
    ]
    assert unexplained == []
    assert flagged, "nothing went wrong anywhere: the broken watches left no trace"


HIDE_SAMPLES = (
    "block_gap", "collector_down", "dropped_scrapes", "exporter_down", "late_arrival",
    "receiver_gone", "store_vanishes",
)  # fmt: skip
DOES = {
    "sample_gap": (*HIDE_SAMPLES, "clock_skew"),
    "absent": HIDE_SAMPLES,
    "unseen": HIDE_SAMPLES,
    "outside_lifecycle": ("clock_skew",),
}
WITHOUT_A_WATCH = ("journal_gap", "end_unknown", "unknown_uid", "outside_lifecycle", "sample_gap")


def _explained(row: tuple[Any, ...], fleet: Fleet, unwatched: Spans | None) -> bool:
    """Whether a fault that can have this reason is within two samples of these seconds."""
    cluster_id, started, ended, _, method, reason, uncertainty = row
    if fleet.name in ALONE:
        return bool(method == "samples_only")
    how = sampling_of(next(c for c in fleet.clusters if c.cluster_id == cluster_id))
    near = 2 * how.sample_interval_seconds + how.scrape_interval_seconds + 15
    spans = [
        (fault.from_at, fault.until_at)
        for fault in fleet.faults
        if fault.cluster_id in ("", cluster_id) and fault.kind in DOES.get(reason, ())
    ]
    # A start before a restart is uncertain for every reason.
    if unwatched and (reason in WITHOUT_A_WATCH or uncertainty):
        spans += unwatched
    return any(since - near < ended and started < until + near for since, until in spans)


def test_without_a_watch_a_pod_is_right_or_within_its_uncertainty(
    recorded: RecordedFleets,
) -> None:
    """Within its uncertainty and the length of disputed or unwatched intervals.

    The uncertainty is at most interval, scrape and gap at each end; a pod without a trace ran
    inside the gap.
    """
    statement = """
        select cluster_id, pod_uid, sum(running_seconds), sum(uncertainty_seconds),
            sum(if(method in ('missing', 'disputed'),
                epoch_us(segment_ended_at) - epoch_us(segment_started_at), 0)) // 1000000
        from (
            select distinct cluster_id, pod_uid, segment_started_at, segment_ended_at, state,
                method, running_seconds, uncertainty_seconds
            from marts.fct_pod_hours
        ) group by all
    """
    counted = {(c, uid): tuple(rest) for c, uid, *rest in truth.ask(recorded.home, statement)}
    wrong = []
    off = 0
    for name in recorded.in_doubt:
        fleet = recorded.fleets[name]
        widest = recorded.widest(name)
        for key, seconds in _true_running(fleet).items():
            running, uncertain, flagged = counted.get(key, (0, 0, 0))
            unseen = key not in counted and seconds * 2 <= widest
            within = abs(running - seconds) <= uncertain + flagged or unseen
            off += running != seconds
            if not within or uncertain > widest:
                wrong.append((name, key[1], seconds, running, uncertain, flagged))
    assert wrong == []
    assert off, "every pod was right to the second: nobody looked away"


def test_without_a_watch_hours_are_right_or_within_their_uncertainty(
    recorded: RecordedFleets,
) -> None:
    """Tenants, weights, nodes, classes and clusters; with == where no pod is uncertain."""
    assert wrong_beyond_doubt(recorded.home, recorded.in_doubt) == {}


def test_money_is_weighted_seconds_times_the_price(recorded: RecordedFleets) -> None:
    """Weighted seconds of the truth, times the one price; each charge is rounded once."""
    statement = "select cluster_id, count(*), sum(cost_nanos) from marts.fct_charges group by 1"
    charged = {c: (n, int(nanos)) for c, n, nanos in truth.ask(recorded.home, statement)}
    assert charged
    for true in recorded.watched.values():
        for cluster_id in true.cluster_ids:
            weighed = sum(
                seconds
                for (cluster, _, gpu_class, *_), seconds in true.weighted_hours.items()
                if cluster == cluster_id and gpu_class != WITHOUT_A_PRICE
            )
            count, nanos = charged.get(cluster_id, (0, 0))
            assert abs(nanos - weighed * NANOS_PER_SECOND) * 2 <= count


def _true_running(fleet: Fleet) -> dict[tuple[str, str], int]:
    pods = {}
    for cluster in fleet.clusters:
        for pod in cluster.pods:
            if pod.started_at is not None and (pod.requests or pod.claims):
                until = min(pod.finished_at or pod.gone_at or fleet.ended_at, fleet.ended_at)
                pods[cluster.cluster_id, pod.uid] = max(
                    0, until - max(pod.started_at or until, fleet.started_at)
                )
    return pods
