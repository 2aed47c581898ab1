"""Simulated GPUs of a real control plane, billed by the ledger: the placements, to the second.

A real scheduler places pods on whole, shared and MIG devices that the agent offers. A collector
watches the API server, and a real Prometheus scrapes a real kube-state-metrics and the agent.
Expected values are the versions of the pods that etcd stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.interval import Interval, hour_of, parse_instant
from ingestion.kubernetes.pull import pull_hours as pull_journal
from ingestion.thanos.pull import pull_hours as pull_samples
from ingestion.thanos.thanos_client import ThanosClient
from orchestration import steps
from orchestration.open_home import OpenHome
from tests.decisions_by_hand import table
from tests.servers.collecting import CollectorProcess, PushedClock, may_read
from tests.servers.control_plane import kube_state_metrics
from tests.servers.etcd_history import PodHistory, observing
from tests.servers.fake_gpu_world import World, fake_gpu_world
from tests.servers.players import Players
from tests.servers.process import wait_for
from tests.servers.prometheus import programs, prometheus
from tests.servers.test_pull_from_live_prometheus import AskedLater
from warehouse.connection import connected
from warehouse.home import Home

pytestmark = pytest.mark.servers

HOUR = timedelta(hours=1)
GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"
TOPOLOGY = """\
mig-strategy: mixed
nodes:
  whole: {gpu-product: A100-SXM4-40GB, gpus: [{id: GPU-w0}, {id: GPU-w1}, {id: GPU-w2}]}
  cut: {gpu-product: A100-SXM4-40GB, gpus: [{id: GPU-c0}]}
"""
PARTED = {
    "version": "v1",
    "mig-configs": {
        "seven": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 7}}]
    },
}
PRICE = "3.60"  # 0.001 per second
PODS = {"two": (GPU, 2), "one": (GPU, 1), "slice": (SLICE, 1), "slices": (SLICE, 3)}


@dataclass(frozen=True)
class Billed:
    """The marts of the hours, and the history of each pod by its UID."""

    home: Home
    histories: dict[str, PodHistory]

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with connected(self.home.warehouse_path, read_only=True) as connection:
            return connection.execute(statement).fetchall()


@pytest.fixture(scope="module")
def billed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Billed]:
    folder = tmp_path_factory.mktemp("billed")
    with ExitStack() as stack:
        world = stack.enter_context(fake_gpu_world(folder, ("whole", "cut")))
        offer(world)
        admin = stack.enter_context(world.plane.client())
        may_read(admin)
        clock = PushedClock(folder / "ahead")
        observer = stack.enter_context(observing(world.plane, clock))
        page = stack.enter_context(kube_state_metrics(world.plane, folder / "ksm"))
        config = scraped(httpx.URL(page).port or 0, world.port)
        samples = stack.enter_context(prometheus(programs(3), folder / "prometheus", config))
        began_at = hour_of(clock.now())
        home, collector = home_and_collector(world, admin, samples, clock, began_at, folder)
        collector.start()
        stack.callback(collector.kill)
        collector.wait_for("listed", resource="pods", why="start")
        live(Players(admin), world, collector, samples)
        over = len([p for p in observer.pods.values() if p.ended_at])
        assert over == len(PODS)
        pull(home, collector, samples, Interval(began_at, end_of_hour(collector, world)))
        named = {uid: pod for uid, pod in observer.pods.items() if pod.name in PODS}
        yield Billed(home, named)


def offer(world: World) -> None:
    """Three whole cards, and one in seven slices."""
    world.configure(TOPOLOGY)
    wait_for(lambda: world.allocatable("whole").get(GPU) == "3")
    parted = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "mig-parted-config", "namespace": "gpu-operator-resources"},
        "data": {"config.yaml": yaml.safe_dump(PARTED)},
    }
    world.apply(parted)
    world.kubectl("label", "node", "cut", "nvidia.com/mig.config=seven")
    wait_for(lambda: world.allocatable("cut").get(SLICE) == "7")
    world.kubectl("create", "namespace", "team-a")


def scraped(metrics_port: int, agent_port: int) -> str:
    """Both exporters, each second, with the labels of their pods."""
    jobs = {"kube-state-metrics": metrics_port, "nvidia-dcgm-exporter": agent_port}
    return yaml.safe_dump(
        {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [
                {
                    "job_name": job,
                    "honor_labels": True,
                    "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
                }
                for job, port in jobs.items()
            ],
        }
    )


def home_and_collector(
    world: World,
    admin: httpx.Client,
    samples: httpx.Client,
    clock: PushedClock,
    began_at: datetime,
    folder: Path,
) -> tuple[Home, CollectorProcess]:
    cluster_id = admin.get("/api/v1/namespaces/kube-system").json()["metadata"]["uid"]
    url = f"https://127.0.0.1:{world.plane.api_port}"
    settings = f"""
[thanos.local]
url = "{str(samples.base_url).rstrip("/")}"
cluster_matcher = ""

[clusters.{cluster_id}]
thanos = "local"

[clusters.{cluster_id}.kubernetes]
url = "{url}"
"""
    home = Home.create(folder / "home", settings)
    since = f"{began_at:%Y-%m-%dT%H:%M:%SZ}"
    tables = table("clusters", f"{cluster_id},real,{since},,both,1,1")
    tables |= table("rates", f",A100-40GB,whole,EUR,{PRICE},{since},,|,")
    for name, text in tables.items():
        (home.decisions / name).write_text(text)
    collector = CollectorProcess(
        folder,
        url,
        world.plane.token_file("collector"),
        world.plane.ca_file,
        cluster_id,
        str(home.path / "journal" / cluster_id),
        clock,
    )
    return home, collector


def live(
    players: Players, world: World, collector: CollectorProcess, samples: httpx.Client
) -> None:
    """Pods run side by side for some seconds; each ends with the time of its container."""
    for name, (resource, count) in PODS.items():
        world.apply(_pod(name, resource, count))
    for name in PODS:
        wait_for(lambda name=name: world.phase("team-a", name) == "Running")
    wait_for(lambda: scraped_pods(samples) == set(PODS))
    for name in reversed(PODS):
        players.fail("team-a", name)
        collector.wait_for_pod(name, "Failed")


def scraped_pods(samples: httpx.Client) -> set[str]:
    """The pods that have some samples of their devices in the Prometheus."""
    query = "count by (pod) (count_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE[5m]) > 3)"
    found = samples.get("/api/v1/query", params={"query": query}).json()["data"]["result"]
    return {series["metric"].get("pod", "") for series in found} & set(PODS)


def _pod(name: str, resource: str, count: int) -> dict[str, Any]:
    limits = {resource: str(count)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/train:1",
                    "resources": {"limits": limits, "requests": limits},
                }
            ],
        },
    }


def end_of_hour(collector: CollectorProcess, world: World) -> datetime:
    """Push the collector's clock past the hour, until its journal closes the hour."""
    clock = collector.clock
    now = clock.now()
    ends_at = hour_of(now) + HOUR

    def mark(name: str) -> None:
        world.apply(_pod(name, GPU, 9_999))
        collector.wait_for_pod(name)

    clock.push(int((ends_at - now).total_seconds()) + 5)
    mark("after-the-hour")
    clock.push(150)  # the collector waits two minutes for watches without events
    mark("later")
    collector.wait_for("hour_closed", hour=f"{hour_of(now):%Y-%m-%dT%H:%M:%SZ}")
    collector.stop()
    return ends_at


def pull(home: Home, collector: CollectorProcess, samples: httpx.Client, window: Interval) -> None:
    later = StoppedClock(window.ended_at + timedelta(minutes=10))
    opened = OpenHome(home, later)
    source = opened.thanos_source(collector.cluster_id, window.started_at)
    assert source is not None
    with ThanosClient(source.thanos.connection, AskedLater(later.now())) as client:
        pull_samples(source, window, opened.landing, home.runs, later, client)
    pull_journal(collector.cluster_id, window, collector.spool, opened.landing, later)
    steps.refresh(opened, BillingPeriod(f"{window.started_at:%Y-%m}"))


def seconds_between(begin: str, end: str) -> int:
    return int((parse_instant(end) - parse_instant(begin)).total_seconds())


def test_allocations_are_the_placements_to_the_second(billed: Billed) -> None:
    rows = billed.rows("""
        select pod_uid, node_name, resource, device_count, mig_profile,
            cast(sum(held_seconds) as bigint), cast(sum(running_seconds) as bigint)
        from marts.fct_pod_hours where tenant = 'team-a' group by all
    """)
    truth = {
        (
            uid,
            pod.node,
            *PODS[pod.name],
            "1g.5gb" if PODS[pod.name][0] == SLICE else "whole",
            seconds_between(pod.bound_at, pod.started_at),
            seconds_between(pod.started_at, pod.ended_at),
        )
        for uid, pod in billed.histories.items()
    }
    assert len(truth) == len(PODS)
    assert set(rows) == truth


def test_cost_is_running_time_by_weight_and_price(billed: Billed) -> None:
    """The weight of a slice 1g.5gb of an A100 with 40 GB is 1/7: its largest share of the card."""
    [(cost,)] = billed.rows("select sum(cost_nanos) from marts.fct_charges")
    exact = sum(
        Fraction(PRICE)
        / 3600
        * PODS[pod.name][1]
        * seconds_between(pod.started_at, pod.ended_at)
        * (Fraction(1, 7) if PODS[pod.name][0] == SLICE else 1)
        for pod in billed.histories.values()
    )
    # Each charge is rounded once.
    [(charges,)] = billed.rows("select count(*) from marts.fct_charges")
    assert abs(int(cost) - exact * 10**9) <= charges


def test_telemetry_has_the_devices_of_the_pods(billed: Billed) -> None:
    """The Prometheus scraped the agent: each pod's devices were busy."""
    rows = billed.rows("select distinct pod_uid from marts.fct_gpu_use where pod_uid <> ''")
    assert {uid for (uid,) in rows} == set(billed.histories), json.dumps(sorted(map(str, rows)))
