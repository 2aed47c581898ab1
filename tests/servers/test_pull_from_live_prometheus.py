"""A pull from a real Prometheus that scraped a simulated fleet live, while pods started and ended.

Put here: the events of the live fleet in the runs of a pull.
Not here: pulls of history that was loaded into a server (`test_pull_from_prometheus`).

Expected values are the scenario's own times and requests, and the scrape times of the real server;
the simulated Thanos is not used.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import httpx
import pytest

from domain.clock import StoppedClock, SystemClock
from domain.interval import HOUR, Interval
from fake_gpu.clock import epoch, running
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Fleet, PodLifetime
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.expositions import Expositions
from fake_gpu.scenario.load import read_scenario
from fake_gpu.serve import serve
from ingestion.evidence.landing import Landing
from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.attempt_client import AttemptClient
from ingestion.thanos.pull import pull_hours
from tests.derived_rows import Row, rows_of
from tests.servers.process import wait_for
from tests.servers.prometheus import programs, prometheus
from tests.servers.scraping import INTERVAL_SECONDS, scrape_config
from warehouse.manifest import Attempt, Outcome, Sampling
from warehouse.store import FolderStore

pytestmark = pytest.mark.servers

# Time between the creation of the fleet and its first event, in which the servers start.
LEAD_SECONDS = 10
STRETCH_SECONDS = 16
# A page shows the fleet at most one second before the scrape (its clock counts whole seconds) and
# at most one after it (later scrapes fail).
SLACK_MS = 1000 * INTERVAL_SECONDS
NEVER_MS = 10**15


def scenario(first: int) -> str:
    """Six pods around the second `first`."""

    def at(seconds: int) -> str:
        return f"{epoch(first + seconds):%Y-%m-%dT%H:%M:%SZ}"

    hour = first - first % 3600
    return f"""
name: live
story: Pods that go on, begin, complete, are deleted, and never run, within a quarter of a minute.
seed: 3
from: {at(hour - 3600 - first)}
until: {at(hour + 3 * 3600 - first)}
clusters:
  - name: live
    monitoring: {{prometheus_replicas: 1, scrape_interval: 30s}}
    nodes:
      - {{name: whole, product: NVIDIA-A100-SXM4-40GB, cards: 8}}
      - name: cut
        product: NVIDIA-A100-SXM4-40GB
        cards: 1
        mig: {{strategy: mixed, layout: {{"0": {{1g.5gb: 7}}}}}}
    workloads:
      - {{name: goes-on, namespace: vision, kind: Pod, requests: 2, pods: [
          {{created: {at(-1800)}, started: {at(-1790)}, node: whole, cards: [0, 1]}}]}}
      - {{name: on-a-slice, namespace: speech, kind: Pod, requests: {{nvidia.com/mig-1g.5gb: 1}},
         pods: [{{created: {at(-900)}, started: {at(-890)}, node: cut}}]}}
      - {{name: begins, namespace: vision, kind: Pod, requests: 1, pods: [
          {{created: {at(2)}, started: {at(5)}, node: whole, cards: [2]}}]}}
      - {{name: completes, namespace: vision, kind: Pod, requests: 3, keep: 10m, pods: [
          {{created: {at(-600)}, started: {at(-590)}, ended: {at(8)}, node: whole,
            cards: [3, 4, 5]}}]}}
      - {{name: is-deleted, namespace: speech, kind: Pod, requests: 1, pods: [
          {{created: {at(-300)}, started: {at(-290)}, ended: {at(11)}, deleted: {at(9)},
            gone: {at(11)}, node: whole, cards: [6]}}]}}
      - {{name: does-not-start, namespace: speech, kind: Pod, requests: 1, pods: [
          {{created: {at(-200)}, node: whole, cards: [7]}}]}}
      - {{name: is-not-placed, namespace: speech, kind: Pod, requests: 4, pods: [
          {{created: {at(-100)}, never_scheduled: true}}]}}
"""


class LaterResponseTime(httpx.HTTPTransport):
    """Changes the time in the server's response to the end of the hour; passes all else unchanged.

    The time of a real server cannot be moved, and waiting for the end of the hour takes too long.
    """

    def __init__(self, at: datetime) -> None:
        super().__init__()
        self._at = at

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        form = dict(parse_qsl(request.read().decode()))
        if form.get("query") == "time()":
            body = urlencode({**form, "time": f"{self._at.timestamp():.0f}"}).encode()
            headers = {**request.headers, "content-length": str(len(body))}
            request = httpx.Request(request.method, request.url, headers=headers, content=body)
        return super().handle_request(request)


@dataclass(frozen=True)
class Pulled:
    """The fleet, its scrape times, and the pull of these hours."""

    fleet: Fleet
    scrapes_ms: tuple[int, ...]  # successful scrapes of kube-state-metrics
    early: Attempt
    attempt: Attempt
    runs: list[Row]
    telemetry: list[Row]

    def pod(self, name: str) -> PodLifetime:
        return next(pod for pod in self.fleet.pods if pod.name == name)

    def of(self, metric: str, **labels: str) -> list[Row]:
        """The runs of a metric whose series have these labels, each with its labels by name."""
        rows = [row | {"labels": dict(row["labels"])} for row in self.runs]
        wanted = [row for row in rows if row["metric"] == metric]
        return [row for row in wanted if labels.items() <= row["labels"].items()]


@pytest.fixture(scope="module")
def pulled(tmp_path_factory: pytest.TempPathFactory) -> Pulled:
    folder: Path = tmp_path_factory.mktemp("live")
    first = int(time.time()) + LEAD_SECONDS
    fleet = build_fleet(read_scenario(scenario(first), "live.yaml", None))
    cluster = fleet.clusters[0]
    pages = Expositions(cluster, ObjectHistory(cluster))
    with ExitStack() as stack:
        with serve(fleet, running(epoch(int(time.time())))) as fake:
            port = httpx.URL(fake.metrics_urls[cluster.cluster_id]).port
            assert port is not None
            config = scrape_config(pages, port)
            real = stack.enter_context(prometheus(programs(2), folder, config))
            SystemClock().wait_until(epoch(first + STRETCH_SECONDS))
        # The exporters have stopped, so there are no further scrapes.
        wait_for(lambda: not _results(real, "up == 1"), "the exporters' end")
        (series,) = _results(real, 'up{job="kube-state-metrics"}[5m]')
        scrapes_ms = tuple(_ms(float(at)) for at, value in series["values"] if value == "1")
        assert scrapes_ms[0] < _ms(first), "the servers took too long to start"
        return _pull(fleet, scrapes_ms, str(real.base_url), folder)


def _results(real: httpx.Client, query: str) -> list[dict[str, Any]]:
    answer = real.get("/api/v1/query", params={"query": query}).json()
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def _pull(fleet: Fleet, scrapes_ms: tuple[int, ...], url: str, folder: Path) -> Pulled:
    """Pull the hour of the fleet, or both hours if it crosses an hour."""
    begins, ends = (epoch(at // 1000) for at in (scrapes_ms[0], scrapes_ms[-1]))
    window = Interval(_hour(begins), _hour(ends) + HOUR)
    later = window.ended_at + timedelta(minutes=5)
    # A Prometheus alone has no external labels, and its samples are of one cluster.
    server = ThanosSettings("local", Connection(url), cluster_matcher="")
    cluster_id = fleet.clusters[0].cluster_id
    source = ClusterSource(cluster_id, server, Sampling(INTERVAL_SECONDS, INTERVAL_SECONDS))
    landing, runs = Landing(FolderStore(folder / "landing")), folder / "runs"
    early = pull_hours(source, window, landing, runs, StoppedClock(later))
    with AttemptClient(server.connection, LaterResponseTime(later)) as client:
        attempt = pull_hours(source, window, landing, runs, StoppedClock(later), client)
    rows, telemetry = (
        rows_of(runs, cluster_id, [attempt.attempt_id], table) for table in ("runs", "telemetry")
    )
    return Pulled(fleet, scrapes_ms, early, attempt, rows, telemetry)


def _hour(instant: datetime) -> datetime:
    return instant.replace(minute=0, second=0, microsecond=0)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def check_times(pulled: Pulled, rows: list[Row], from_at: int | None, until_at: int | None) -> None:
    """Samples at every scrape surely in `[from_at, until_at)`, none at scrapes surely outside."""
    if from_at is None:
        assert rows == []
        return
    from_ms, until_ms = _ms(from_at), NEVER_MS if until_at is None else _ms(until_at)
    surely, perhaps = (
        [at for at in pulled.scrapes_ms if from_ms <= at - slack and at + slack < until_ms]
        for slack in (SLACK_MS, -SLACK_MS)
    )
    assert surely, "the stretch was too short"
    first = min(_ms(row["first_sampled_at"].timestamp()) for row in rows)
    last = max(_ms(row["last_sampled_at"].timestamp()) for row in rows)
    assert perhaps[0] <= first <= surely[0]
    assert surely[-1] <= last <= perhaps[-1]
    assert len(surely) <= sum(row["sample_count"] for row in rows) <= len(perhaps)


def running_until(pod: PodLifetime) -> int | None:
    return pod.gone_at if pod.finished_at is None else pod.finished_at


# --- the pull ------------------------------------------------------------------------------------


def test_an_hour_that_still_runs_by_the_servers_own_clock_is_refused(pulled: Pulled) -> None:
    assert pulled.early.outcome is Outcome.REFUSED
    assert pulled.early.answers == ()


def test_the_hour_is_complete_and_has_every_exporter(pulled: Pulled) -> None:
    assert pulled.attempt.outcome is Outcome.OK
    jobs = {row["labels"]["job"] for row in pulled.of("up") if row["sample_value"] == "1"}
    assert jobs == {"kube-state-metrics", "kube-scheduler", "dcgm-exporter"}
    assert len(pulled.scrapes_ms) > STRETCH_SECONDS / 2
    ends = pulled.pod("is-deleted").gone_at
    assert ends is not None
    assert pulled.scrapes_ms[-1] > _ms(ends) + 2 * SLACK_MS


def test_pods_run_in_the_scrapes_of_their_seconds_and_in_no_other(pulled: Pulled) -> None:
    rows = pulled.of("kube_pod_status_phase")
    assert {row["labels"]["uid"] for row in rows} == {pod.uid for pod in pulled.fleet.pods}
    for pod in pulled.fleet.pods:
        own = pulled.of("kube_pod_status_phase", uid=pod.uid)
        on = [row for row in own if row["sample_value"] == "1"]
        check_times(pulled, on, pod.started_at, running_until(pod))
    ran = {row["labels"]["pod"] for row in rows if row["sample_value"] == "1"}
    assert ran == {"goes-on", "on-a-slice", "begins", "completes", "is-deleted"}


def test_containers_start_at_their_second(pulled: Pulled) -> None:
    found = {
        (row["labels"]["uid"], float(row["sample_value"]))
        for row in pulled.of("kube_pod_container_state_started")
    }
    assert found == {(p.uid, p.started_at) for p in pulled.fleet.pods if p.started_at is not None}


# --- requests of the pods ------------------------------------------------------------------------

# In the notation of kube-state-metrics.
WRITTEN = {"nvidia.com/gpu": "nvidia_com_gpu", "nvidia.com/mig-1g.5gb": "nvidia_com_mig_1g_5gb"}


def test_every_pod_has_its_uid_node_resource_and_quantity(pulled: Pulled) -> None:
    rows = pulled.of("kube_pod_container_resource_requests")
    asked = ("uid", "namespace", "pod", "node", "resource")
    assert {
        (*(row["labels"].get(name, "") for name in asked), row["sample_value"]) for row in rows
    } == {
        (pod.uid, pod.namespace, pod.name, pod.node_name, WRITTEN[resource], str(count))
        for pod in pulled.fleet.pods
        for resource, count in pod.requests.items()
    }
    # A pod that has ended still has requests until its object is deleted.
    for pod in pulled.fleet.pods:
        own = pulled.of("kube_pod_container_resource_requests", uid=pod.uid)
        check_times(pulled, own, pod.created_at, pod.gone_at)


def test_the_scheduler_counts_the_same_until_they_end(pulled: Pulled) -> None:
    rows = pulled.of("kube_pod_resource_request")
    asked = ("namespace", "pod", "node", "resource")
    assert {
        (*(row["labels"].get(name, "") for name in asked), row["sample_value"]) for row in rows
    } == {
        (pod.namespace, pod.name, pod.node_name, resource, str(count))
        for pod in pulled.fleet.pods
        for resource, count in pod.requests.items()
    }
    for name in ("completes", "is-deleted"):
        ended = running_until(pulled.pod(name))
        own = pulled.of("kube_pod_resource_request", pod=name)
        assert ended is not None
        assert max(_ms(row["last_sampled_at"].timestamp()) for row in own) < _ms(ended) + SLACK_MS


def test_telemetry_names_the_very_devices_that_each_pod_held(pulled: Pulled) -> None:
    card_of = {
        device.device_id: device.card_id
        for node in pulled.fleet.clusters[0].nodes
        for device in node.devices
    }
    found = set()
    for row in pulled.telemetry:
        labels = dict(row["labels"])
        if row["metric"] == "DCGM_FI_DEV_FB_USED" and "exported_pod" in labels:
            found.add((labels["exported_namespace"], labels["exported_pod"], labels["UUID"]))
    assert found == {
        (pod.namespace, pod.name, card_of[hold.device_id])
        for pod in pulled.fleet.pods
        for hold in pod.holds
    }
