"""A fault is counted only for queries that it changes.

Put here: pairs of queries, one with the fault and one without.
Not here: the effect of each fault (`test_fake_prometheus_faults`), faults without a target
(`tests/scenarios/test_fake_untargeted_faults`).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest

from fake_gpu.clock import VirtualClock, driven, epoch
from fake_gpu.faults.ledger import FaultLedger
from fake_gpu.fleet.model import Fault
from fake_gpu.kubernetes.server import KubernetesApi
from fake_gpu.prometheus.app import ApiOptions
from tests.asgi import Client
from tests.served_samples import Thanos, fault, thanos
from tests.small_fleets import HOUR, MIDNIGHT, quiet_cluster, quiet_fleet

# (a query, its time in seconds after midnight)
Asked = tuple[str, float]
TRAIN = 'kube_pod_info{pod="train-5d9c-abcde"}'  # all day
SHORT = 'kube_pod_info{pod="short"}'  # from 900 until 1600
ENERGY = 'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{Hostname="node-b"}'

# (kind, from, until, parameters): (queries without the fault, the query with it)
SAMPLES: dict[str, tuple[tuple[int, int, Mapping[str, object]], list[Asked], Asked]] = {
    "dropped_scrapes": (
        (3000, 3300, {}),
        [(f"{TRAIN}[10m]", 1800), ("up[1m]", 2999)],
        (f"{TRAIN}[1h]", HOUR),
    ),
    "replica_scrape_lost": ((3000, 3300, {}), [(f"{TRAIN}[10m]", 1800)], ("up[1h]", HOUR)),
    "interval_changed": (
        (3000, 3300, {"interval": 10}),
        [(f"{TRAIN}[10m]", 1800)],
        (f"{TRAIN}[1h]", HOUR),
    ),
    "clock_skew": (
        (3000, 3300, {"seconds": 60}),
        [(f"{TRAIN}[10m]", 1800)],
        (f"{TRAIN}[1h]", HOUR),
    ),
    "label_renamed": (
        (3000, 3300, {}),
        [(f"{TRAIN}[10m]", 1800), ('up{job="kube-state-metrics"}[1h]', HOUR)],
        (f"{TRAIN}[1h]", HOUR),
    ),
    "metric_renamed": (
        (3000, 3300, {"metric": "kube_pod_info", "to": "other_info"}),
        [("other_info[10m]", 1800), ("kube_pod_owner[1h]", HOUR)],
        ("other_info[1h]", HOUR),
    ),
    "second_kube_state_metrics": (
        (3000, 3300, {}),
        [("kube_pod_info[10m]", 1800), ('up{job="dcgm-exporter"}[1h]', HOUR)],
        ("kube_pod_info[1h]", HOUR),
    ),
    "late_arrival": (
        (3000, 3300, {"delay": 48 * HOUR}),
        [(f"{TRAIN}[10m]", 1800)],
        (f"{TRAIN}[1h]", HOUR),
    ),
    "unaccounted_process": (
        (3000, 3300, {"node": "node-b"}),
        [
            ('DCGM_FI_DEV_GPU_UTIL{Hostname="node-b"}[10m]', 1800),
            ("DCGM_FI_DEV_XID_ERRORS[1h]", HOUR),
            ("kube_pod_info[1h]", HOUR),
            # The cards of the other node are as busy as possible.
            ("scrape_series_added[1h]", HOUR),
        ],
        (f"{ENERGY}[10m]", 2 * HOUR),  # its energy stays in the counter
    ),
    "counter_reset": (
        (3000, 3300, {"node": "node-b"}),
        [(f"{ENERGY}[10m]", 2900), ("DCGM_FI_DEV_GPU_UTIL[1h]", HOUR)],
        (f"{ENERGY}[10m]", HOUR),
    ),
    "lookback_overrun": (
        (0, 48 * HOUR, {}),
        [("up[5m]", HOUR), (TRAIN, HOUR), ("kube_pod_info", 5000)],
        (SHORT, 1700),
    ),
    "cached_partial": (
        (0, 48 * HOUR, {"share": Fraction(1, 2)}),
        [("no_such_metric", HOUR)],
        ("kube_pod_info", HOUR),
    ),
}


def count_of(shown: Thanos, question: Asked) -> int:
    """How often the fault was counted for this query."""
    answer = shown.ask(*question)
    assert answer.status_code == 200, answer.text
    return sum(shown.ledger.counts().values())


@pytest.mark.parametrize("kind", SAMPLES)
def test_only_a_query_that_shows_a_fault_counts_it(kind: str) -> None:
    (from_at, until_at, parameters), hidden, seen = SAMPLES[kind]
    shown = thanos(quiet_fleet(), fault(kind, from_at, until_at, **parameters))
    for question in hidden:
        assert count_of(shown, question) == 0, question
    assert count_of(shown, seen) > 0


def test_a_newer_engine_is_counted_at_the_edges_of_ranges() -> None:
    honest = thanos(quiet_fleet())
    [*_, (at, _)] = honest.samples(f"{TRAIN}[10m]", 1800)
    shown = thanos(quiet_fleet(), fault("engine_upgraded", 0, 48 * HOUR))
    # Only the last query has a sample exactly at the edge of its range.
    assert count_of(shown, (f"{TRAIN}[60s]", at + 60.001)) == 0
    assert count_of(shown, (TRAIN, at)) == 0
    assert count_of(shown, (f"{TRAIN}[60s]", at + 60)) == 1


def test_a_newer_engine_is_counted_where_it_shows_its_version() -> None:
    for options, count in ((ApiOptions(), 1), (ApiOptions(left_open=True), 0)):
        wrong = fault("engine_upgraded", 0, 48 * HOUR)
        shown = thanos(quiet_fleet(), wrong, options=options)
        shown.http.get("/api/v1/status/buildinfo")
        assert shown.ledger.count(wrong.fault_id) == count


def test_a_comparison_is_not_counted_and_uses_up_no_request() -> None:
    overrun = fault("lookback_overrun", 0, 48 * HOUR)
    empty = fault("empty_success", 0, 48 * HOUR, requests=1)
    shown = thanos(quiet_fleet(), overrun, empty)
    assert shown.rows("kube_pod_info", 1700) == []
    assert shown.ledger.counts() == {"empty_success#0": 1}
    assert shown.rows("kube_pod_info", 1700)
    assert shown.ledger.counts() == {"empty_success#0": 1, "lookback_overrun#0": 1}


def test_a_missing_store_is_counted_where_its_error_is_shown() -> None:
    shown = thanos(quiet_fleet(), fault("store_vanishes", 24 * HOUR, 25 * HOUR))
    assert count_of(shown, ("no_such_metric", 24 * HOUR)) == 1  # a warning also without series
    shown.go_to(24 * HOUR + 60)
    assert count_of(shown, ("no_such_metric", 24 * HOUR)) == 1
    shown.http.get("/api/v1/stores")
    assert shown.ledger.count("store_vanishes#0") == 2


# --- a Kubernetes API -----------------------------------------------------------------------------


def api(*faults: Fault, now: int = HOUR) -> tuple[KubernetesApi, VirtualClock, FaultLedger]:
    ledger, clock = FaultLedger(), driven(epoch(MIDNIGHT + now))
    return KubernetesApi(quiet_cluster(), clock, faults=faults, ledger=ledger), clock, ledger


PODS = "/api/v1/pods"
KUBERNETES: dict[str, tuple[Mapping[str, object], list[str], str]] = {
    "mass_absence": ({}, ["/api/v1/nodes", f"{PODS}?labelSelector=app=none"], PODS),
    "events_lost": ({}, [PODS, "/api/v1/namespaces/nobody/events"], "/api/v1/events"),
    "rbac_lost": (
        {"resource": "pods", "namespace": "team-b"},
        [PODS, "/api/v1/namespaces/team-a/pods", "/api/v1/nodes"],
        "/api/v1/namespaces/team-b/pods",
    ),
    "start_rewritten": ({"pod": "short"}, ["/api/v1/events", "/api/v1/nodes"], PODS),
    "finished_before_started": ({"pod": "short"}, ["/api/v1/events"], PODS),
}


@pytest.mark.parametrize("kind", KUBERNETES)
def test_only_a_request_that_a_fault_changes_counts_it(kind: str) -> None:
    parameters, hidden, seen = KUBERNETES[kind]
    served, _, ledger = api(fault(kind, 0, 2 * HOUR, **parameters), now=1550)
    client = Client(served.app)
    for path in hidden:
        client.get(path)
        assert ledger.counts() == {}, path
    client.get(seen)
    assert ledger.count(f"{kind}#0") > 0


def test_a_distortion_that_changes_nothing_is_not_counted() -> None:
    # The container ended after ten minutes, with a clock without delay.
    none = fault("finished_before_started", 0, 1, seconds=0)
    served, _, ledger = api(none, now=1550)
    Client(served.app).get(PODS)
    assert ledger.counts() == {}
