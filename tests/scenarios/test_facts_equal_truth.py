"""Every scenario of the library and random ones: the facts are the truth, to the second.

Put here: the comparison with the truth ledger, which shares no code with what counts.
Not here: how evidence is made (`tests/lived_estates.py`), faults of a connection (served estates).

All estates are clusters of one home and counted in one build, because starting dbt costs more than
counting them. A failure names the scenario; a random one is read with
`python -m tests.random_estates SEED` and played alone with GPU_LEDGER_SEED=SEED
GPU_LEDGER_ESTATES=1; any number of them is played with GPU_LEDGER_ESTATES.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from domain.billing_period import BillingPeriod
from fake_gpu.estate.build import build_estate
from fake_gpu.estate.model import Estate
from fake_gpu.scenario.load import load_scenario
from tests.decisions_by_hand import decided
from tests.estates import estate as read
from tests.lived_estates import clusters_csv, live, sampling_of
from tests.random_estates import scenario
from tests.scenarios import against_truth as truth
from warehouse.build import BuildResult, build_period
from warehouse.home import Home

pytestmark = pytest.mark.slow

PERIOD = BillingPeriod("2026-10")
SEED = int(os.environ.get("GPU_LEDGER_SEED", "1"))
ESTATES = int(os.environ.get("GPU_LEDGER_ESTATES", "50"))
LIBRARY = Path(__file__).parents[2] / "fake_gpu" / "scenarios"

# A month, a quarter of an hour of work; a day of it; two days of faults of every kind. Other tests
# play them, or a part of them, over HTTP.
TOO_LONG = ("demo", "everything_at_once")

# Telemetry decides no amount and takes two thirds of the time: asked where it names cards.
WITH_TELEMETRY = ("cards_cut_anew", "thin_line")

CERTAIN = """
    method = 'confirmed'
    or (method = 'lifecycle_only'
        and method_reason in ('too_short', 'held', 'no_metric', 'samples_not_expected'))
"""


@dataclass(frozen=True)
class Played:
    """What was played, when nobody watched, and what was counted of it."""

    estates: dict[str, Estate]
    unwatched: dict[str, tuple[int, int]]
    home: Home
    build: BuildResult
    counted: dict[str, truth.Facts]

    def watched(self) -> dict[str, Estate]:
        return {name: e for name, e in self.estates.items() if name not in self.unwatched}


def library() -> dict[str, Estate]:
    names = sorted(path.stem for path in LIBRARY.glob("*.yaml"))
    return {name: build_estate(load_scenario(name)) for name in names if name not in TOO_LONG}


def random_ones() -> tuple[dict[str, Estate], dict[str, tuple[int, int]]]:
    """So many random estates; of every third the watch was broken once."""
    print(f"seeds {SEED} to {SEED + ESTATES - 1}: GPU_LEDGER_SEED={SEED}")
    estates = {f"seed {seed}": read(scenario(seed)) for seed in range(SEED, SEED + ESTATES)}
    unwatched = {}
    for name, estate in estates.items():
        rng = random.Random(name)
        if rng.random() < 1 / 3:
            since = estate.started_at + rng.randint(60, 2 * 3600)
            unwatched[name] = (since, since + rng.choice([45, 600, 1800, 4000]))
    return estates, unwatched


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    estates, unwatched = random_ones()
    estates = library() | estates
    home = Home.create(tmp_path_factory.mktemp("truth") / "home")
    for name, estate in estates.items():
        blind = [unwatched[name]] if name in unwatched else ()
        live(home, estate, unwatched=blind, telemetry=name in WITH_TELEMETRY)
    decisions = decided(clusters_csv(estates.values()))
    build = build_period(home, PERIOD, decisions, closed_periods=frozenset())
    return Played(estates, unwatched, home, build, truth.counted_facts(home))


def test_with_an_unbroken_journal_every_fact_is_the_truth(played: Played) -> None:
    """Invariants 4, 5 and 9 too: what has no row in the truth has none here."""
    wrong: dict[tuple[str, str], Any] = {}
    for name, estate in played.watched().items():
        true = truth.true_facts(estate)
        for grain in truth.FACTS:
            counted = truth.of_clusters(played.counted[grain], estate)
            if found := truth.differences(true[grain], counted):
                wrong[name, grain] = dict(list(found.items())[:3])
    assert wrong == {}


def test_cards_that_telemetry_names_are_counted_as_they_really_were(played: Played) -> None:
    """Also where the node's capacity would allow that fewer were in use."""
    counted = truth.counted_cards(played.home)
    known = more = 0
    wrong = {}
    for name in WITH_TELEMETRY:
        for key, (true, bound) in truth.true_cards(played.estates[name]).items():
            by_devices = counted[key]
            known += by_devices is not None
            more += by_devices is not None and by_devices > bound
            if by_devices not in (None, true):
                wrong[name, key] = (true, by_devices)
    assert wrong == {}
    assert known, "no node-hour was known card by card"
    assert more, "no node-hour had more cards in use than its capacity's bound"


def test_every_data_test_passes_on_all_of_them(played: Played) -> None:
    assert [(test.name, test.failed_row_count) for test in played.build.failed_tests] == []


def test_a_flag_names_a_fault_that_really_touched_it(played: Played) -> None:
    """No pod-hour is uncertain, disputed or missing but for a fault that does that and was there.

    There: within what a sample can tell apart of the flagged seconds. Of any other flag the reason
    would be a guess, which is as wrong as a wrong number.
    """
    statement = f"""
        select cluster_id, epoch_us(segment_started_at) // 1000000,
            epoch_us(segment_ended_at) // 1000000, pod_name, method, method_reason
        from marts.fct_pod_hours where not ({CERTAIN}) or uncertainty_seconds > 0
    """
    flagged = truth.ask(played.home, statement)
    of_cluster = {
        cluster.cluster_id: (name, estate)
        for name, estate in played.estates.items()
        for cluster in estate.clusters
    }
    unexplained = [
        (of_cluster[row[0]][0], *row[1:])
        for row in flagged
        if not _explained(row, of_cluster[row[0]][1], played.unwatched.get(of_cluster[row[0]][0]))
    ]
    assert unexplained == []
    assert flagged, "nothing went wrong anywhere: the broken watches left no trace"


HIDE_SAMPLES = ("collector_down", "exporter_down", "receiver_gone", "store_vanishes")
WITHOUT_A_WATCH = ("journal_gap", "end_unknown", "unknown_uid", "outside_lifecycle")


def _explained(row: tuple[Any, ...], estate: Estate, unwatched: tuple[int, int] | None) -> bool:
    """Whether a fault that can have this reason lies within two samples of these seconds."""
    cluster_id, started, ended, _, _, reason = row
    how = sampling_of(estate.clusters[0])
    near = 2 * how.sample_interval_seconds + how.scrape_interval_seconds + 15
    spans = [
        (fault.from_at, fault.until_at)
        for fault in estate.faults
        if fault.cluster_id in ("", cluster_id)
        if fault.kind in HIDE_SAMPLES and reason in ("hole", "absent")
    ]
    if unwatched and reason in WITHOUT_A_WATCH:
        spans.append(unwatched)
    return any(since - near < ended and started < until + near for since, until in spans)


def test_after_a_broken_watch_a_pod_is_right_or_its_uncertainty_holds_the_truth(
    played: Played,
) -> None:
    """And the uncertainty is no wider than interval, scrape and the hole at each end."""
    statement = """
        select cluster_id, pod_uid, sum(running_seconds), sum(uncertainty_seconds),
            bool_or(method in ('missing', 'disputed'))
        from (
            select distinct cluster_id, pod_uid, segment_started_at, segment_ended_at, state,
                method, running_seconds, uncertainty_seconds
            from marts.fct_pod_hours
        ) group by all
    """
    counted = {(c, uid): tuple(rest) for c, uid, *rest in truth.ask(played.home, statement)}
    wrong = []
    for name, (since, until) in played.unwatched.items():
        estate = played.estates[name]
        how = sampling_of(estate.clusters[0])
        widest = 2 * (
            how.sample_interval_seconds + how.scrape_interval_seconds + until - since + 15
        )
        for (cluster_id, uid), seconds in _true_running(estate).items():
            running, uncertain, flagged = counted.get((cluster_id, uid), (0, 0, False))
            unseen = (cluster_id, uid) not in counted and seconds <= until - since
            within = abs(running - seconds) <= uncertain or flagged or unseen
            if not within or uncertain > widest:
                wrong.append((name, uid, seconds, running, uncertain))
    assert wrong == []


def _true_running(estate: Estate) -> dict[tuple[str, str], int]:
    pods = {}
    for cluster in estate.clusters:
        for pod in cluster.pods:
            if pod.started_at is not None and (pod.requests or pod.claims):
                until = min(pod.finished_at or pod.gone_at or estate.ended_at, estate.ended_at)
                pods[cluster.cluster_id, pod.uid] = max(
                    0, until - max(pod.started_at or until, estate.started_at)
                )
    return pods
