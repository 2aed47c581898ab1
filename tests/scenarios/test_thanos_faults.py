"""Faults of a sample store, injected into the simulated fleet: each has a named result.

Put here: for each fault of group A that affects a pull, its outcome or its fact, and the proof that
it occurred.
Not here: the bill after it (`quality`), or faults of the Kubernetes side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from domain.decisions.rows import Source
from domain.interval import HOUR, Interval
from fake_gpu.clock import VirtualClock
from fake_gpu.scenario.load import read_scenario
from fake_gpu.serve import Running, serve
from ingestion.doctor_lines import DoctorLine
from ingestion.evidence.hour_ledger import (
    DOWN_SAMPLED,
    INCOMPLETE_PODS,
    MASS_ENDINGS,
    DueReason,
    hour_ledger,
    why_due,
)
from ingestion.evidence.landing import Landing
from ingestion.exporter_pins import NO_PINS, Pins
from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.attempt_client import AttemptClient
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.recheck import recheck
from ingestion.thanos.store_probe import probe
from tests.derived_rows import rows_of
from warehouse.manifest import Attempt, Hour, Outcome, Sampling
from warehouse.store import FolderStore

pytestmark = pytest.mark.deep

MIDNIGHT = datetime(2026, 10, 5, tzinfo=UTC)
SCRAPE = timedelta(seconds=30)
ONE = MIDNIGHT + HOUR
WINDOW = Interval(ONE, ONE + HOUR)
ASKED_AT = MIDNIGHT + timedelta(hours=2, minutes=15)
IN_FORCE = "from: +2h10m, until: +3h"  # during the pull
IN_THE_HOUR = "from: +1h10m, until: +1h40m"  # during the scrapes
REQUESTS = "kube_pod_container_resource_requests"
UTIL = "DCGM_FI_DEV_GPU_UTIL"

FLEET = """
name: faulty
story: One hour of one cluster with nine pods, and one thing that goes wrong.
seed: 11
from: 2026-10-05T00:00:00Z
until: 2026-10-05T04:00:00Z
clusters:
  - name: near
    monitoring: {{prometheus_replicas: {replicas}, scrape_interval: 30s}}
    nodes:
      - {{name: a100, product: NVIDIA-A100-SXM4-80GB, cards: 8}}
      - {{name: b100, product: NVIDIA-A100-SXM4-80GB, cards: 8}}
    workloads: [{{name: serve, namespace: chat, replicas: 9, requests: 1}}]
faults:
  - {{fault: {fault}, cluster: near, {when}{more}}}
"""


@dataclass(frozen=True, slots=True)
class Faulty:
    """A served fleet with one fault, and a landing for its pulls."""

    running: Running
    home: Path
    waits: list[float]
    pins: Pins = NO_PINS

    @property
    def source(self) -> ClusterSource:
        cluster_id = self.running.fleet.clusters[0].cluster_id
        server = ThanosSettings("hub", Connection(self.running.thanos_url), pins=self.pins)
        return ClusterSource(cluster_id, server, Sampling(30, 30))

    @property
    def landing(self) -> Landing:
        return Landing(FolderStore(self.home / "landing"))

    def client(self) -> AttemptClient:
        return AttemptClient(self.source.thanos.connection, wait=self.waits.append)

    def pull(self, window: Interval = WINDOW) -> Attempt:
        clock = self.running.clock
        runs = self.home / "runs"
        return pull_hours(self.source, window, self.landing, runs, clock, self.client())

    def wrong(self) -> dict[str, DoctorLine]:
        """The faults that the doctor reports."""
        lines = probe(self.source, self.running.clock, self.client())
        return {line.check: line for line in lines if not line.is_fine}

    def hour(self) -> Hour:
        [hour] = self.pull().hours
        assert self.fired > 0, "the fault did not fire"
        return hour

    @property
    def fired(self) -> int:
        return sum(self.running.ledger.counts().values())

    def runs(self, attempt: Attempt, metric: str) -> list[dict[str, object]]:
        runs = rows_of(self.home / "runs", attempt.cluster_id, [attempt.attempt_id], "runs")
        return [row for row in runs if row["metric"] == metric]


@contextmanager
def fleet(home: Path, fault: str, when: str, more: str = "", replicas: int = 1) -> Iterator[Faulty]:
    more = f", {more}" if more else ""
    text = FLEET.format(fault=fault, when=when, more=more, replicas=replicas)
    with serve(read_scenario(text, "faulty.yaml", None), VirtualClock(ASKED_AT)) as running:
        yield Faulty(running, home, [])


@pytest.mark.parametrize("fault", ["timeout", "unavailable", "reset_mid_body", "truncated_body"])
def test_a_request_that_fails_once_succeeds_when_repeated(tmp_path: Path, fault: str) -> None:
    with fleet(tmp_path, fault, IN_FORCE, "requests: 1") as faulty:
        attempt = faulty.pull()
        assert attempt.outcome is Outcome.OK
        assert faulty.fired == 1


def test_a_pull_waits_as_long_as_retry_after_says(tmp_path: Path) -> None:
    more = "requests: 2, retry_after: 7s"
    with fleet(tmp_path, "too_many_requests", IN_FORCE, more) as faulty:
        assert faulty.hour().outcome is Outcome.OK
        assert [seconds for seconds in faulty.waits if seconds >= 7] == [7.0, 7.0]


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ("timeout", Outcome.FAILED),
        ("unavailable", Outcome.FAILED),
        ("too_many_requests", Outcome.FAILED),
        ("unprocessable", Outcome.REFUSED),
        ("reset_mid_body", Outcome.TRUNCATED),
        ("truncated_body", Outcome.TRUNCATED),
        ("html_login", Outcome.FAILED),
    ],
)
def test_requests_that_always_fail_are_an_attempt_with_that_outcome(
    tmp_path: Path, fault: str, outcome: Outcome
) -> None:
    with fleet(tmp_path, fault, IN_FORCE, "requests: 100000") as faulty:
        hour = faulty.hour()
        assert hour.outcome is outcome
        assert hour.sample_count == 0
        assert faulty.landing.verify().problems == ()


def test_an_empty_success_is_empty_and_not_no_usage(tmp_path: Path) -> None:
    with fleet(tmp_path, "empty_success", IN_FORCE, "requests: 100000") as faulty:
        assert faulty.hour().outcome is Outcome.EMPTY


def test_a_partial_response_keeps_its_warning(tmp_path: Path) -> None:
    with fleet(tmp_path, "partial_response", IN_FORCE, "share: 0.3") as faulty:
        assert faulty.hour().outcome in (Outcome.WARNED, Outcome.EMPTY)
        [attempt] = faulty.landing.attempts()
        assert attempt.warning_count > 0


def test_a_store_that_vanishes_warns_first_and_is_empty_later(tmp_path: Path) -> None:
    with fleet(tmp_path, "store_vanishes", "from: +2h14m55s, until: +3h") as faulty:
        assert faulty.hour().outcome in (Outcome.WARNED, Outcome.EMPTY)
        assert faulty.landing.attempts()[0].warning_count > 0
        faulty.running.advance_to(ASKED_AT + timedelta(minutes=5))
        assert faulty.hour().outcome is Outcome.EMPTY
        # A real Thanos gives no warning either.
        assert faulty.landing.attempts()[1].warning_count == 0


def test_a_store_that_hangs_is_an_error_first_and_empty_later(tmp_path: Path) -> None:
    with fleet(tmp_path, "store_hangs", "from: +2h14m55s, until: +3h") as faulty:
        assert faulty.hour().outcome in (Outcome.FAILED, Outcome.REFUSED)
        faulty.running.advance_to(ASKED_AT + timedelta(minutes=5))
        assert faulty.hour().outcome is Outcome.EMPTY


def test_a_lost_receiver_hides_pods_and_the_hour_is_pulled_again(tmp_path: Path) -> None:
    with fleet(tmp_path, "receiver_gone", IN_FORCE) as faulty:
        hour = faulty.hour()
        assert hour.outcome is Outcome.OK  # the response has no sign of it
        assert hour.facts[INCOMPLETE_PODS] > 0
        [attempt] = faulty.landing.attempts()
        ledger = hour_ledger([(attempt.cluster_id, Source.THANOS, ONE)], [attempt])
        assert why_due(ledger[0], ASKED_AT + timedelta(minutes=10)) is DueReason.SUSPICION


def test_a_receiver_lost_between_two_hours_is_a_mass_absence(tmp_path: Path) -> None:
    with fleet(tmp_path, "receiver_gone", IN_FORCE, "receivers: 2") as faulty:
        faulty.running.advance_to(ASKED_AT)
        with fleet(tmp_path, "receiver_gone", IN_THE_HOUR) as whole:
            before = Interval(MIDNIGHT, ONE)
            pull_hours(whole.source, before, faulty.landing, tmp_path / "runs", whole.running.clock)
        assert faulty.hour().facts[MASS_ENDINGS] >= 3


def test_a_scrape_that_one_replica_lost_is_no_gap(tmp_path: Path) -> None:
    more = "replica: 0, share: 0.5"
    with fleet(tmp_path, "replica_scrape_lost", IN_THE_HOUR, more, replicas=2) as faulty:
        attempt = faulty.pull()
        assert attempt.outcome is Outcome.OK
        runs = faulty.runs(attempt, REQUESTS)
        assert len(runs) == 9  # one unbroken run for each pod


def test_scrapes_that_every_replica_lost_break_the_runs(tmp_path: Path) -> None:
    with fleet(tmp_path, "dropped_scrapes", IN_THE_HOUR, "share: 0.5") as faulty:
        hour = faulty.hour()
        runs = faulty.runs(faulty.landing.attempts()[0], REQUESTS)
        assert len(runs) > 9
        assert hour.by_metric[REQUESTS][1] < 9 * 120


def test_an_hour_with_down_sampled_blocks_only_has_no_samples(
    tmp_path: Path,
) -> None:
    """Like a real Thanos without raw samples, when raw samples are requested."""
    with fleet(tmp_path, "downsampled", "from: +0h, until: +4h") as faulty:
        hour = faulty.hour()
        assert (hour.outcome, hour.sample_count) == (Outcome.EMPTY, 0)
        assert hour.reason == "no sample of up, kube_node_info"


@pytest.mark.parametrize(("resolution", "count"), [("5m", 12), ("1h", 1)])
def test_averages_of_down_sampled_blocks_never_count_as_samples(
    tmp_path: Path, resolution: str, count: int
) -> None:
    """A proxy drops the requested resolution."""
    more = f"resolution: {resolution}, whatever_is_asked: 1"
    with fleet(tmp_path, "downsampled", "from: +0h, until: +4h", more) as faulty:
        hour = faulty.hour()
        targets = hour.by_metric["up"][0]
        assert hour.by_metric["up"] == (targets, targets * count)
        assert hour.outcome is Outcome.DEGRADED
        assert hour.reason == (
            f"down-sampled: {targets} targets have averages at the ends of 5-minute windows"
        )
        assert hour.facts[DOWN_SAMPLED] == targets
        [attempt] = faulty.landing.attempts()
        [entry] = hour_ledger([(attempt.cluster_id, Source.THANOS, ONE)], [attempt])
        assert why_due(entry, ASKED_AT + timedelta(minutes=10)) is DueReason.NOT_OK


def test_averages_for_a_part_of_an_hour_are_noticed_too(tmp_path: Path) -> None:
    """Raw samples end in the middle of the hour, where a block ends."""
    with fleet(tmp_path, "downsampled", IN_THE_HOUR, "whatever_is_asked: 1") as faulty:
        hour = faulty.hour()
        assert hour.outcome is Outcome.DEGRADED
        assert hour.facts[DOWN_SAMPLED] == hour.by_metric["up"][0]


def test_samples_that_arrive_late_are_found_by_a_recount(tmp_path: Path) -> None:
    more = "delay: 1h, share: 0.5"
    with fleet(tmp_path, "late_arrival", IN_THE_HOUR, more) as faulty:
        first = faulty.pull()
        ledger = hour_ledger([(first.cluster_id, Source.THANOS, ONE)], [first])
        assert recheck(faulty.source, WINDOW, ledger, faulty.client()).differences == ()
        faulty.running.advance_to(MIDNIGHT + timedelta(hours=3))
        found = recheck(faulty.source, WINDOW, ledger, faulty.client())
        assert found.hours == (ONE,)
        second = faulty.pull()
        assert second.hours[0].sample_count > first.hours[0].sample_count
        both = hour_ledger([(first.cluster_id, Source.THANOS, ONE)], [first, second])
        assert both[0].changes  # the difference is stored


def test_values_that_no_count_can_have_are_counted_and_kept_as_text(tmp_path: Path) -> None:
    with fleet(tmp_path, "odd_values", IN_THE_HOUR, "share: 1") as faulty:
        hour = faulty.hour()
        assert hour.facts["unusable_samples"] > 0
        values = {
            row["sample_value"] for row in faulty.runs(faulty.landing.attempts()[0], REQUESTS)
        }
        assert values - {"1"} <= {"NaN", "+Inf", "-1", "0.5", "1e+308"}


def test_a_renamed_metric_is_absent_and_a_mass_absence(tmp_path: Path) -> None:
    more = f"metric: {REQUESTS}, to: kube_pod_container_requests"
    with fleet(tmp_path, "metric_renamed", "from: +1h, until: +4h", more) as faulty:
        faulty.pull(Interval(MIDNIGHT, ONE))
        [hour] = faulty.pull().hours
        assert hour.by_metric[REQUESTS] == (0, 0)  # the proof that it fired
        assert hour.by_metric["kube_pod_info"] == (9, 1080)
        assert hour.facts[MASS_ENDINGS] == 9


@pytest.mark.parametrize("fault", ["collector_down", "block_gap", "cluster_label_lost"])
def test_half_an_hour_without_samples_is_a_gap_in_every_pod(tmp_path: Path, fault: str) -> None:
    """Nine pods, sampled every 30 s: an hour has 120 samples of each, half an hour 60."""
    with fleet(tmp_path, fault, IN_THE_HOUR) as faulty:
        hour = faulty.hour()
        assert hour.by_metric[REQUESTS] == (9, 540)
        runs = faulty.runs(faulty.landing.attempts()[0], REQUESTS)
        assert len(runs) == 18  # before the gap, and after it
        assert sum(int(str(run["sample_count"])) for run in runs) == 540


@pytest.mark.parametrize("fault", ["truncated_result", "history_vanished"])
def test_faults_that_hide_the_sentinels_make_the_hour_empty(tmp_path: Path, fault: str) -> None:
    more = "series: 3" if fault == "truncated_result" else ""
    with fleet(tmp_path, fault, IN_FORCE, more) as faulty:
        hour = faulty.hour()
        assert hour.outcome is Outcome.EMPTY
        assert "kube_node_info" in hour.reason


def test_samples_refused_as_too_late_are_separate_gaps(tmp_path: Path) -> None:
    with fleet(tmp_path, "out_of_order_dropped", IN_THE_HOUR, "share: 0.5") as faulty:
        hour = faulty.hour()
        assert hour.by_metric[REQUESTS][0] == 9
        assert 540 < hour.by_metric[REQUESTS][1] < 1080
        assert len(faulty.runs(faulty.landing.attempts()[0], REQUESTS)) > 18


def test_a_partial_response_from_a_cache_has_incomplete_pods(tmp_path: Path) -> None:
    with fleet(tmp_path, "cached_partial", IN_FORCE, "share: 0.5") as faulty:
        assert faulty.hour().facts[INCOMPLETE_PODS] > 0


def test_a_scrape_above_its_limit_is_a_failed_one(tmp_path: Path) -> None:
    more = "job: kube-state-metrics"
    with fleet(tmp_path, "sample_limit", IN_THE_HOUR, more) as faulty:
        assert faulty.hour().facts["failed_scrapes"] == 60


@pytest.mark.parametrize(("fault", "replicas"), [("second_kube_state_metrics", 1),
                                                 ("replicas_undeclared", 2)])  # fmt: skip
def test_duplicate_series_are_stored_twice_with_distinct_labels(
    tmp_path: Path, fault: str, replicas: int
) -> None:
    """The evidence keeps both, each under its own name, without choosing one."""
    with fleet(tmp_path, fault, "from: +0h, until: +4h", replicas=replicas) as faulty:
        assert faulty.hour().by_metric[REQUESTS] == (18, 2160)
        runs = faulty.runs(faulty.landing.attempts()[0], REQUESTS)
        assert len({run["labels"] for run in runs}) == len(runs) == 18


PINNED = Pins(
    ("openshift-monitoring/kube-state-metrics",),
    ("openshift-kube-scheduler/kube-scheduler",),
    ("nvidia-gpu-operator/dcgm-exporter",),
)


@pytest.mark.parametrize(
    ("fault", "more", "others"),
    [
        (
            "forged_series",
            "attacker: mallory, victim: chat",
            "8 series of mallory/mallory-exporter",
        ),
        ("second_kube_state_metrics", "second_job: opencost", "9 series of opencost"),
    ],
)
def test_series_of_another_job_are_reported_and_a_job_pin_excludes_them(
    tmp_path: Path, fault: str, more: str, others: str
) -> None:
    """Nine pods; a tenant that invents eight devices of another tenant, or a second exporter."""
    with fleet(tmp_path, fault, "from: +0h, until: +4h", more) as faulty:
        believed = faulty.pull()
        assert faulty.fired > 0
        assert believed.hours[0].by_metric[REQUESTS][0] > 9
        problem = faulty.wrong()["one source of kube_state_metrics"]
        assert others in problem.seen
        assert "9 series of kube-state-metrics" in problem.seen
        assert "[thanos.hub.pins]" in problem.remedy

        pinned = replace(faulty, pins=PINNED)
        attempt = pinned.pull()
        assert attempt.outcome is Outcome.OK
        assert attempt.hours[0].by_metric[REQUESTS] == (9, 1080)
        assert {run["labels"] for run in pinned.runs(attempt, REQUESTS)} < {
            run["labels"] for run in faulty.runs(believed, REQUESTS)
        }
        assert len(pinned.runs(attempt, REQUESTS)) == 9
        assert set(pinned.wrong()) == {"raw samples, 35 days"}  # the fleet is two hours old


def test_telemetry_of_a_tenant_is_reported_and_a_job_pin_excludes_it(tmp_path: Path) -> None:
    more = "attacker: mallory, victim: chat"
    with fleet(tmp_path, "forged_series", "from: +0h, until: +4h", more) as faulty:
        problem = faulty.wrong()["one source of devices"]
        assert "8 series of mallory/mallory-exporter" in problem.seen
        cards = device_uuids(faulty, faulty.pull())
        assert len(cards) == 16 + 8
        pinned = replace(faulty, pins=PINNED)
        honest = device_uuids(pinned, pinned.pull())
        assert len(honest) == 16
        assert not any(uuid.startswith("GPU-forged") for uuid in honest)


def device_uuids(faulty: Faulty, attempt: Attempt) -> set[str]:
    rows = rows_of(faulty.home / "runs", attempt.cluster_id, [attempt.attempt_id], "telemetry")
    return {dict(row["labels"])["UUID"] for row in rows if row["metric"] == UTIL}


def test_look_back_of_a_server_does_not_prolong_raw_samples(tmp_path: Path) -> None:
    with fleet(tmp_path, "lookback_overrun", "from: +0h, until: +4h") as faulty:
        [hour] = faulty.pull().hours
        assert hour.by_metric[REQUESTS] == (9, 1080)
        assert faulty.fired == 0
        # The cap is in force: the present is still returned seven minutes from now.
        later = (ASKED_AT + timedelta(minutes=7)).timestamp()
        asked = {"query": REQUESTS, "time": str(later)}
        answer = httpx.get(f"{faulty.running.thanos_url}/api/v1/query", params=asked).json()
        assert len(answer["data"]["result"]) == 9
        assert faulty.fired == 1
        for run in faulty.runs(faulty.landing.attempts()[0], REQUESTS):
            # A run extends at most to the neighbour that was queried beyond the hour.
            assert ONE - SCRAPE <= run["first_sampled_at"] <= run["last_sampled_at"]  # type: ignore[operator]
            assert run["last_sampled_at"] <= ONE + HOUR + SCRAPE  # type: ignore[operator]


def test_a_failed_scrape_is_a_counted_zero(tmp_path: Path) -> None:
    more = "job: kube-state-metrics"
    with fleet(tmp_path, "exporter_down", IN_THE_HOUR, more) as faulty:
        assert faulty.hour().facts["failed_scrapes"] > 0


def test_without_faults_nothing_is_noted(tmp_path: Path) -> None:
    with fleet(tmp_path, "timeout", "from: +3h, until: +4h", replicas=2) as quiet:
        attempt = quiet.pull()
        [hour] = attempt.hours
        assert hour.outcome is Outcome.OK
        assert {name: n for name, n in hour.facts.items() if not name.startswith("raw_")} == {}
        assert hour.by_metric[REQUESTS][0] == 9
        assert len(quiet.runs(attempt, REQUESTS)) == 9
