"""Every fault of the catalogue, in one scenario, affects a client.

Put here: a client with the queries of a collector and a puller, through two days.
Not here: the effect of each fault on a response (the tests of the views).
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta

import httpx
import pytest

from fake_gpu.clock import driven, epoch
from fake_gpu.faults.fault_catalogue import CATALOGUE
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Fleet, instant
from fake_gpu.scenario.load import load_scenario
from fake_gpu.serve import Running, serve

QUERIES = (
    '{__name__=~"kube_pod_container_resource_requests|kube_pod_status_phase|kube_pod_info|up"}[30m]',
    '{__name__=~"DCGM_FI_DEV_GPU_UTIL|DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION|gpu_gfx_activity"}[30m]',
    '{__name__=~"kube_node_info|kube_pod_owner|kube_pod_phase|kube_pod_labels"}[30m]',
    "kube_pod_status_phase",
    # Long enough to include deleted series.
    'up{job="kube-state-metrics"}[6h]',
)


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return build_fleet(load_scenario("everything_at_once"))


def test_the_scenario_has_every_fault_of_the_catalogue(fleet: Fleet) -> None:
    assert sorted(CATALOGUE) == sorted(fault.kind for fault in fleet.faults)


def stops(fleet: Fleet) -> list[datetime]:
    """The middle and the end of every fault, when the puller queries."""
    middles = {(fault.from_at + fault.until_at) // 2 for fault in fleet.faults}
    ends = {min(fault.until_at, fleet.ended_at) for fault in fleet.faults}
    return [instant(second) for second in sorted(middles | ends)]


@pytest.mark.deep
def test_every_fault_fires_and_is_counted(fleet: Fleet) -> None:
    with serve(fleet, driven(epoch(fleet.started_at))) as running, watching(running) as client:
        for when in stops(fleet):
            running.advance_to(when)
            ask(running, client, when)
        running.ledger.require_fired(fleet.faults)
        assert all(running.ledger.count(fault.fault_id) for fault in fleet.faults)


def ask(running: Running, client: httpx.Client, when: datetime) -> None:
    """The queries of a puller and a collector at each step; responses are not checked."""
    for query in QUERIES:
        quietly(client, f"{running.thanos_url}/api/v1/query", {"query": query})
    quietly(client, f"{running.thanos_url}/api/v1/status/buildinfo", {})
    # A range with steps, which shows look-back and intermittent responses.
    parameters = {
        "query": "kube_pod_status_phase",
        "start": str((when - timedelta(hours=1)).timestamp()),
        "end": str(when.timestamp()),
        "step": "60",
    }
    quietly(client, f"{running.thanos_url}/api/v1/query_range", parameters)
    for url in running.kubernetes_urls.values():
        token = quietly(client, f"{url}/api/v1/pods", {"limit": "5"})
        for _ in range(3):
            if not token:
                break
            token = quietly(client, f"{url}/api/v1/pods", {"limit": "5", "continue": token})
        quietly(client, f"{url}/api/v1/pods", {})
        quietly(client, f"{url}/api/v1/events", {})


def quietly(client: httpx.Client, url: str, parameters: dict[str, str]) -> str:
    """Query; faults may break any response. Returns the token of the next page, if there is one."""
    with contextlib.suppress(httpx.HTTPError, ValueError, AttributeError):
        metadata = client.get(url, params=parameters).json().get("metadata", {})
        return str(metadata.get("continue", ""))
    return ""


@contextlib.contextmanager
def watching(running: Running) -> Iterator[httpx.Client]:
    """A watch of pods on every cluster, resumed whenever it ends."""
    stop = threading.Event()
    threads = [
        threading.Thread(target=keep_watching, args=(url, stop), daemon=True)
        for url in running.kubernetes_urls.values()
    ]
    for thread in threads:
        thread.start()
    with httpx.Client(timeout=60) as client:
        yield client
    stop.set()


def keep_watching(url: str, stop: threading.Event) -> None:
    version = "0"
    with httpx.Client(timeout=httpx.Timeout(5, read=2)) as client:
        while not stop.is_set():
            parameters = {
                "watch": "1",
                "allowWatchBookmarks": "true",
                "resourceVersion": version,
                "timeoutSeconds": "864000",
            }
            with contextlib.suppress(httpx.HTTPError):
                version = follow(client, f"{url}/api/v1/pods", parameters, version)


def follow(client: httpx.Client, url: str, parameters: dict[str, str], version: str) -> str:
    with client.stream("GET", url, params=parameters) as answer:
        if answer.status_code != 200:
            return "0"
        with contextlib.suppress(httpx.ReadTimeout):
            for line in answer.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return "0"
                version = event["object"]["metadata"]["resourceVersion"]
    return version
