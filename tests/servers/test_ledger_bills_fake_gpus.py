"""Simulated GPUs of a real control plane, billed by the ledger: the placements, to the second.

A real scheduler places pods on whole, shared and MIG devices that the agent offers. A Deployment is
scaled, a pod is evicted, and its card gets another layout. The files of the design documents are
applied as they stand: their pod in the namespace `nvidia` is billed like any other. A collector
watches the API server; a real Prometheus scrapes a real kube-state-metrics and the agent. Expected
values are the versions of the pods that etcd stored.
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
from ingestion.thanos.attempt_client import AttemptClient
from ingestion.thanos.pull import pull_hours as pull_samples
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
from tests.servers.test_pull_from_live_prometheus import LaterResponseTime
from warehouse.connection import connected
from warehouse.home import Home

pytestmark = pytest.mark.servers

HOUR = timedelta(hours=1)
GPU, SLICE, HALF = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"
EXAMPLES = Path(__file__).parents[1] / "design_examples"
NODES = """\
  whole:
    gpu-product: A100-SXM4-40GB
    gpus: [{id: GPU-w0}, {id: GPU-w1}, {id: GPU-w2}, {id: GPU-w3}, {id: GPU-w4}]
  cut: {gpu-product: A100-SXM4-40GB, gpus: [{id: GPU-c0}]}
  shared: {gpu-product: A100-SXM4-40GB, replicas: 4, gpus: [{id: GPU-s0}]}
  single: {gpu-product: A100-SXM4-40GB, mig-strategy: single, gpus: [{id: GPU-s1}]}
"""
"""Besides the node of the design document's topology."""
PRICE = "3.60"  # 0.001 per second


@dataclass(frozen=True)
class Placement:
    """The devices of a pod, and the weight of each: its largest share of a card."""

    node: str
    resource: str
    count: int
    profile: str = "whole"
    weight: Fraction = Fraction(1)
    namespace: str = "team-a"


PODS = {
    "two": Placement("whole", GPU, 2),
    "one": Placement("whole", GPU, 1),
    "scaled": Placement("whole", GPU, 1),
    "share": Placement("shared", GPU, 1, weight=Fraction(1, 4)),
    "slice": Placement("cut", SLICE, 1, "1g.5gb", Fraction(1, 7)),
    "slices": Placement("cut", SLICE, 3, "1g.5gb", Fraction(1, 7)),
    "half": Placement("cut", HALF, 1, "3g.20gb", Fraction(1, 2)),
    "cuda-vectoradd": Placement("single", GPU, 1, "1g.5gb", Fraction(1, 7), "nvidia"),
}
EXAMPLE = "cuda-vectoradd"  # the pod of the design documents
FIRST = ("two", "one", "share", "slice", "slices")
HELD_BACK = "example.com/until-its-end-is-written"
"""A finalizer: before a deleted pod is gone, a kubelet writes ends of containers; kwok does not."""


def placement_of(pod: str) -> Placement | None:
    """The placement of a pod; pods of the Deployment have generated names."""
    return PODS.get("scaled" if pod.startswith("scaled-") else pod)


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
        world = stack.enter_context(
            fake_gpu_world(folder, ("node-a", "whole", "cut", "shared", "single"))
        )
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
        run_workloads(Players(admin), world, collector, samples)
        over = len([p for p in observer.pods.values() if p.ended_at])
        assert over == len(PODS) + 1  # two pods of the Deployment
        pull(home, collector, samples, Interval(began_at, end_of_hour(collector, world)))
        named = {uid: pod for uid, pod in observer.pods.items() if placement_of(pod.name)}
        yield Billed(home, named)


def offer(world: World) -> None:
    """Five whole cards, one in four replicas, two in seven slices, and two K80."""
    world.configure((EXAMPLES / "mock-topology.yml").read_text("utf-8") + NODES)
    wait_for(lambda: world.allocatable("whole").get(GPU) == "5")
    wait_for(lambda: world.allocatable("shared").get(GPU) == "4")
    wait_for(lambda: world.allocatable("node-a").get(GPU) == "2")
    world.apply((EXAMPLES / "mig-parted-configmap.yaml").read_text("utf-8"))
    for node in ("cut", "single"):
        world.kubectl("label", "node", node, "nvidia.com/mig.config=all-1g.5gb")
    wait_for(lambda: world.allocatable("cut").get(SLICE) == "7")
    wait_for(lambda: world.allocatable("single").get(GPU) == "7")
    world.kubectl("create", "namespace", "team-a")
    world.apply((EXAMPLES / "gpu-quota.yaml").read_text("utf-8"))
    wait_for(lambda: "hard" in world.get("-n", "nvidia", "resourcequota", "gpu-quota")["status"])


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


def run_workloads(
    players: Players, world: World, collector: CollectorProcess, samples: httpx.Client
) -> None:
    """Pods run for some seconds; the end of each is the time of its container."""
    for name in FIRST:
        world.apply(_pod(name))
    world.apply((EXAMPLES / "cuda-vectoradd.yaml").read_text("utf-8"), "-n", "nvidia")
    world.apply(_deployment(1))
    wait_for(lambda: len(running_pods(world)) == len(FIRST) + 1)
    wait_for(lambda: len(scraped_pods(samples)) == len(FIRST) + 2)
    end(players, collector, EXAMPLE)
    world.apply(_deployment(2))
    wait_for(lambda: len(running_pods(world)) == len(FIRST) + 2)
    end(players, collector, "slice")
    evict(players, world, collector, "slices")
    world.kubectl("label", "node", "cut", "nvidia.com/mig.config=all-3g.20gb", "--overwrite")
    wait_for(lambda: world.allocatable("cut").get(HALF) == "2")
    world.apply(_pod("half"))
    wait_for(lambda: world.phase("team-a", "half") == "Running")
    scaled = [name for name in running_pods(world) if name.startswith("scaled-")]
    wait_for(lambda: {"half", *scaled} <= scraped_pods(samples))
    world.apply(_deployment(0))
    for name in scaled:
        leave(players, world, collector, name)
    for name in ("share", "one", "two", "half"):
        end(players, collector, name)


def end(players: Players, collector: CollectorProcess, name: str) -> None:
    placed = placement_of(name)
    assert placed is not None
    players.fail(placed.namespace, name)
    collector.wait_for_pod(name, "Failed")


def evict(players: Players, world: World, collector: CollectorProcess, name: str) -> None:
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "team-a"},
    }
    path = f"/api/v1/namespaces/team-a/pods/{name}/eviction"
    world.kubectl("create", "--raw", path, "-f", "-", text=json.dumps(eviction))
    leave(players, world, collector, name)


def leave(players: Players, world: World, collector: CollectorProcess, name: str) -> None:
    """A pod that is being deleted ends, and is gone."""
    wait_for(lambda: "deletionTimestamp" in players.read("team-a", name)["metadata"])
    end(players, collector, name)
    patch = json.dumps({"metadata": {"finalizers": None}})
    world.kubectl("-n", "team-a", "patch", "pod", name, "--type=merge", "-p", patch)


def running_pods(world: World) -> list[str]:
    pods = world.get("-n", "team-a", "pods")["items"]
    return [p["metadata"]["name"] for p in pods if p["status"].get("phase") == "Running"]


def scraped_pods(samples: httpx.Client) -> set[str]:
    """The pods that have some samples of their devices in the Prometheus."""
    query = "count by (pod) (count_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE[5m]) > 3)"
    found = samples.get("/api/v1/query", params={"query": query}).json()["data"]["result"]
    return {p for series in found if placement_of(p := series["metric"].get("pod", ""))}


def _pod(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a", "finalizers": [HELD_BACK]},
        "spec": {"restartPolicy": "Never", **_spec(PODS[name])},
    }


def _spec(placement: Placement) -> dict[str, Any]:
    limits = {placement.resource: str(placement.count)}
    return {
        "nodeSelector": {"kubernetes.io/hostname": placement.node},
        "containers": [
            {
                "name": "main",
                "image": "registry.example/train:1",
                "resources": {"limits": limits, "requests": limits},
            }
        ],
    }


def _deployment(replicas: int) -> dict[str, Any]:
    labels = {"app": "scaled"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "scaled", "namespace": "team-a"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "finalizers": [HELD_BACK]},
                "spec": _spec(PODS["scaled"]),
            },
        },
    }


def end_of_hour(collector: CollectorProcess, world: World) -> datetime:
    """Push the collector's clock past the hour, until its journal closes the hour."""
    clock = collector.clock
    now = clock.now()
    ends_at = hour_of(now) + HOUR

    def mark(name: str) -> None:
        pending = {"metadata": {"name": name, "namespace": "team-a"}}
        spec = _spec(Placement("whole", GPU, 9_999))
        world.apply({"apiVersion": "v1", "kind": "Pod", **pending, "spec": spec})
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
    with AttemptClient(source.thanos.connection, LaterResponseTime(later.now())) as client:
        pull_samples(source, window, opened.landing, home.runs, later, client)
    pull_journal(collector.cluster_id, window, collector.spool, opened.landing, later)
    steps.refresh(opened, BillingPeriod(f"{window.started_at:%Y-%m}"))


def seconds_between(begin: str, end: str) -> int:
    return int((parse_instant(end) - parse_instant(begin)).total_seconds())


def test_allocations_are_the_placements_to_the_second(billed: Billed) -> None:
    rows = billed.rows("""
        select pod_uid, node_name, resource, device_count, mig_profile,
            cast(sum(held_seconds) as bigint), cast(sum(running_seconds) as bigint)
        from marts.fct_pod_hours where tenant = namespace group by all
    """)
    truth = {
        (
            uid,
            pod.node,
            placed.resource,
            placed.count,
            placed.profile,
            seconds_between(pod.bound_at, pod.started_at),
            seconds_between(pod.started_at, pod.ended_at),
        )
        for uid, pod in billed.histories.items()
        if (placed := placement_of(pod.name))
    }
    assert len(truth) == len(PODS) + 1
    assert set(rows) == truth


@pytest.mark.parametrize("tenant", ["team-a", "nvidia"])
def test_cost_is_running_time_by_weight_and_price(billed: Billed, tenant: str) -> None:
    """`nvidia` is a tenant as any namespace that is not the cluster's own."""
    of_tenant = f"where tenant = '{tenant}' and belongs_to = 'tenant'"
    [(cost, charges)] = billed.rows(
        f"select coalesce(sum(cost_nanos), 0), count(*) from marts.fct_charges {of_tenant}"
    )
    exact = sum(
        Fraction(PRICE)
        / 3600
        * placed.count
        * placed.weight
        * seconds_between(pod.started_at, pod.ended_at)
        for pod in billed.histories.values()
        if (placed := placement_of(pod.name)) and placed.namespace == tenant
    )
    assert exact > 0
    # Each charge is rounded once.
    assert abs(int(cost) - exact * 10**9) <= charges
    [(billed_cost,)] = billed.rows(
        f"select sum(cost_nanos) from marts.fct_tenant_periods {of_tenant}"
    )
    assert billed_cost == cost


def test_no_other_namespace_is_billed(billed: Billed) -> None:
    rows = billed.rows("select distinct tenant, belongs_to from marts.fct_charges")
    assert set(rows) == {("team-a", "tenant"), ("nvidia", "tenant")}


def test_the_quota_of_the_example_counts_its_pod(billed: Billed) -> None:
    """It allows one GPU, and the pod requested one."""
    rows = billed.rows("""
        select resource, max(hard_count), max(used_count), max(allocated_count_max)
        from marts.fct_quotas where tenant = 'nvidia' group by all
    """)
    assert rows == [("nvidia.com/gpu", 1, 1, 1)]


def test_telemetry_has_the_devices_of_the_pods(billed: Billed) -> None:
    """The Prometheus scraped the agent: each pod's devices were busy."""
    rows = billed.rows("select distinct pod_uid from marts.fct_gpu_use where pod_uid <> ''")
    assert {uid for (uid,) in rows} == set(billed.histories), json.dumps(sorted(map(str, rows)))
