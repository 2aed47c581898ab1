"""Pins select the exporter of a metric, as matchers of queries.

Put here: matchers by exporter, and their use in the queries of an attempt.
Not here: config.toml (`test_settings`), or a store with forged series (`test_thanos_faults`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from domain.clock import StoppedClock
from domain.interval import Interval
from ingestion.evidence.hour_ledger import hour_ledger
from ingestion.evidence.landing import Landing
from ingestion.exporter_pins import Exporter, Pins
from ingestion.metric_catalogue import ALLOCATION_ENTRIES, CATALOGUE, allocation_queries
from ingestion.settings import ClusterSource
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.recheck import recheck
from tests.samples_by_hand import CLUSTER, HOUR, REQUEST, TEN, Form, Server, healthy, matrix
from warehouse.manifest import Attempt, Outcome
from warehouse.store import FolderStore

STATE, SCHEDULER, DEVICES = Exporter.KUBE_STATE_METRICS, Exporter.SCHEDULER, Exporter.DEVICES
PINS = Pins(
    ("monitoring/kube-state-metrics",),
    ("openshift-kube-scheduler/scheduler",),
    ("gpu-operator/dcgm", "kube-amd-gpu/amd.metrics"),
)
WINDOW = Interval(TEN, TEN + HOUR)
BY_METRIC = {entry.metric: entry for entry in CATALOGUE}


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("kube_pod_info", 'job="kube-state-metrics"'),
        ("kube_node_info", 'job="kube-state-metrics",namespace="monitoring"'),
        (
            "kube_resourcequota",
            f'{BY_METRIC["kube_resourcequota"].matchers},job="kube-state-metrics"',
        ),
        (
            "DCGM_FI_DEV_GPU_UTIL",
            'job=~"dcgm|amd[.]metrics",namespace=~"gpu-operator|kube-amd-gpu"',
        ),
        ("up", ""),
        ("scrape_samples_scraped", ""),
    ],
)
def test_a_pin_sets_job_and_namespace_of_its_exporter(metric: str, expected: str) -> None:
    assert BY_METRIC[metric].selected(PINS) == expected
    assert BY_METRIC[metric].selected(Pins()) == BY_METRIC[metric].matchers


def test_a_pin_without_a_namespace_sets_the_job_alone() -> None:
    for pins in (Pins(devices=("dcgm",)), Pins(devices=("/dcgm",))):
        assert pins.matchers(DEVICES, is_of_pods=False) == 'job="dcgm"'
    mixed = Pins(devices=("a/dcgm", "amd"))
    assert mixed.matchers(DEVICES, is_of_pods=False) == 'job=~"dcgm|amd"'
    pod_monitor = Pins(devices=("a/a/dcgm",))
    assert pod_monitor.matchers(DEVICES, is_of_pods=False) == 'job="a/dcgm",namespace="a"'


def test_every_entry_but_two_has_an_exporter_that_can_be_pinned() -> None:
    said = {entry.metric: entry.exporter for entry in CATALOGUE}
    assert [metric for metric, who in said.items() if not who] == ["up", "scrape_samples_scraped"]
    assert [metric for metric, who in said.items() if who is SCHEDULER] == [
        "kube_pod_resource_request"
    ]
    assert {who for metric, who in said.items() if metric.startswith(("DCGM", "gpu"))} == {DEVICES}
    rest = {who for metric, who in said.items() if metric.startswith("kube_")}
    assert rest == {STATE, SCHEDULER}


def test_pins_divide_queries_and_omit_no_metric() -> None:
    for pins in (Pins(), PINS):
        asks = allocation_queries(pins)
        asked = [metric for ask in asks for metric in ask.metrics]
        assert sorted(asked) == sorted(entry.metric for entry in ALLOCATION_ENTRIES)
    assert len(allocation_queries()) == len({entry.ask for entry in ALLOCATION_ENTRIES})


def pulled(tmp_path: Path, cluster: ClusterSource, server: Server, after: timedelta) -> Attempt:
    landing, clock = Landing(FolderStore(tmp_path / "landing")), StoppedClock(TEN + HOUR + after)
    return pull_hours(cluster, WINDOW, landing, tmp_path / "runs", clock, server.client())


def test_every_query_is_pinned(tmp_path: Path) -> None:
    server = Server(healthy)
    pinned = replace(CLUSTER, thanos=replace(CLUSTER.thanos, pins=PINS), pod_labels=("team",))
    attempt = pulled(tmp_path, pinned, server, timedelta(hours=1))
    [entry] = hour_ledger([("c1", attempt.source, TEN)], [attempt])
    recheck(pinned, WINDOW, [entry], server.client())
    asked = [form["query"] for form in server.forms if "time()" not in form["query"]]
    assert len(asked) > 20
    for query in asked:
        for name, matchers in re.findall(r"([a-zA-Z_]*)\{([^}]*)\}", query):
            said_by_prometheus = name in ("up", "scrape_samples_scraped")
            assert ("job=" in matchers) is not said_by_prometheus, query


def test_unpinned_attempts_are_not_compared_with_pinned_ones(tmp_path: Path) -> None:
    """Series that a tenant forged disappear intentionally, which is not a loss of data."""
    forged = ({**REQUEST[0], "uid": "u9", "job": "mine"}, REQUEST[1])

    def answering(form: Form) -> httpx.Response:
        if "kube_pod_container_resource_requests" not in form["query"] or "start" in form:
            return healthy(form)
        return matrix(REQUEST) if "job=" in form["query"] else matrix(REQUEST, forged)

    first = pulled(tmp_path, CLUSTER, Server(answering), timedelta(hours=1))
    pins = Pins(kube_state_metrics=("monitoring/kube-state-metrics",))
    pinned = replace(CLUSTER, thanos=replace(CLUSTER.thanos, pins=pins))
    second = pulled(tmp_path, pinned, Server(answering), timedelta(hours=3))
    assert [attempt.hours[0].outcome for attempt in (first, second)] == [Outcome.OK] * 2
    assert second.draft.settings["pins"] == ("kube_state_metrics=monitoring/kube-state-metrics",)
    assert "pins" not in first.draft.settings
    [entry] = hour_ledger([("c1", first.source, TEN)], [first, second])
    assert entry.best is not None
    assert entry.best.attempt_id == second.attempt_id
