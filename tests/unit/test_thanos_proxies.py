"""A pull and the doctor through proxies in front of sample stores, over real HTTP.

Put here: ACM's rbac-query-proxy, Observatorium's paths, OpenShift's thanos-querier: requests that
they pass on or refuse, and users with restricted access.
Not here: TLS and client certificates (`test_thanos_connections`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from domain.interval import HOUR, Interval
from fake_gpu.clock import VirtualClock
from fake_gpu.scenario.load import read_scenario
from fake_gpu.serve import Running, serve
from ingestion.doctor_lines import DoctorLine
from ingestion.evidence.landing import Landing
from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.store_probe import probe
from tests.derived_rows import rows_of
from tests.query_proxies import QueryProxy, observatorium, proxied, rbac_query_proxy, thanos_querier
from warehouse.manifest import Attempt, Outcome, Sampling
from warehouse.store import FolderStore

MIDNIGHT = datetime(2026, 10, 5, tzinfo=UTC)
WINDOW = Interval(MIDNIGHT + HOUR, MIDNIGHT + 2 * HOUR)
NOW = MIDNIGHT + timedelta(hours=2, minutes=15)
TOKEN = "sha256~canary"
FLEET = """
name: proxied
story: Two clusters on one hub.
seed: 11
from: 2026-10-05T00:00:00Z
until: 2026-10-05T04:00:00Z
clusters:
  - name: near
    monitoring: {scrape_interval: 30s}
    nodes: [{name: a100, product: NVIDIA-A100-SXM4-80GB, cards: 8}]
    workloads: [{name: serve, namespace: chat, replicas: 3, requests: 1}]
  - name: far
    monitoring: {scrape_interval: 30s}
    nodes: [{name: b100, product: NVIDIA-A100-SXM4-80GB, cards: 8}]
    workloads: [{name: serve, namespace: search, replicas: 2, requests: 1}]
"""
YOUNG = "raw samples, 35 days"  # the fleet is two hours old


@dataclass(frozen=True)
class Hub:
    """The served hub, and a home that queries it at one of several URLs."""

    running: Running
    folder: Path

    def source(self, url: str, token: str) -> ClusterSource:
        path = self.folder / "token"
        path.write_text(token)
        connection = Connection(url, token_file=str(path) if token else "")
        cluster_id = self.running.fleet.clusters[0].cluster_id
        return ClusterSource(cluster_id, ThanosSettings("hub", connection), Sampling(30, 30))

    def pull(self, url: str, token: str = TOKEN, name: str = "proxied") -> Attempt:
        landing = Landing(FolderStore(self.folder / name / "landing"))
        runs, clock = self.folder / name / "runs", self.running.clock
        return pull_hours(self.source(url, token), WINDOW, landing, runs, clock)

    def rows(self, attempt: Attempt, table: str, name: str = "proxied") -> list[str]:
        rows = rows_of(self.folder / name / "runs", attempt.cluster_id, [attempt.attempt_id], table)
        return sorted(repr({**row, "attempt_id": ""}) for row in rows)

    def wrong(self, url: str, token: str = TOKEN) -> dict[str, DoctorLine]:
        lines = probe(self.source(url, token), self.running.clock)
        return {line.check: line for line in lines if not line.is_fine}


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with serve(read_scenario(FLEET, "proxied.yaml", None), VirtualClock(NOW)) as running:
        yield running


@pytest.fixture
def hub(served: Running, tmp_path: Path) -> Hub:
    return Hub(served, tmp_path)


KINDS: dict[str, Callable[[], QueryProxy]] = {
    "rbac-query-proxy": lambda: rbac_query_proxy(TOKEN, "near"),
    "observatorium": lambda: observatorium(TOKEN),
    "thanos-querier": lambda: thanos_querier(TOKEN),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_pull_through_a_proxy_equals_a_direct_one(hub: Hub, kind: str) -> None:
    direct = hub.pull(hub.running.thanos_url, token="", name="direct")
    with proxied(hub.running.thanos_url, KINDS[kind]()) as url:
        attempt = hub.pull(url)
    assert attempt.outcome is direct.outcome is Outcome.OK
    assert [h.by_metric for h in attempt.hours] == [h.by_metric for h in direct.hours]
    for table in ("runs", "telemetry"):
        assert hub.rows(attempt, table) == hub.rows(direct, table, "direct")
    # No proxy passes on the list of stores, so this fact is missing.
    assert "stores" in direct.draft.facts
    assert "stores" not in attempt.draft.facts


@pytest.mark.parametrize("kind", KINDS)
def test_the_doctor_through_a_proxy_finds_the_same_and_checks_telemetry(
    hub: Hub, kind: str
) -> None:
    proxy = KINDS[kind]()
    with proxied(hub.running.thanos_url, proxy) as url:
        lines = {line.check: line for line in probe(hub.source(url, TOKEN), hub.running.clock)}
    assert {check for check, line in lines.items() if not line.is_fine} == {YOUNG}
    assert lines["device telemetry of nvidia.com"].seen.startswith("22 of 30 metrics")
    refused = {path for path, status in proxy.asked if status == "404"}
    assert refused <= {"/api/v1/label/__name__/values"}  # telemetry was counted instead


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("token", ["", "expired"])
def test_without_a_known_token_every_query_is_refused(hub: Hub, kind: str, token: str) -> None:
    with proxied(hub.running.thanos_url, KINDS[kind]()) as url:
        attempt = hub.pull(url, token)
        told = hub.wrong(url, token)
    assert attempt.outcome is Outcome.REFUSED
    assert "status 401" in attempt.hours[0].reason
    assert list(told) == ["hub answers"]
    assert "renew token_file" in told["hub answers"].remedy


def test_a_url_outside_the_tenants_path_is_named(hub: Hub) -> None:
    with proxied(hub.running.thanos_url, observatorium(TOKEN)) as url:
        told = hub.wrong(url.removesuffix("/api/metrics/v1/default"))
    assert "status 404" in told["hub answers"].seen
    assert "without /api/v1" in told["hub answers"].remedy


@pytest.mark.parametrize(
    "proxy",
    [
        rbac_query_proxy(TOKEN),  # a user without a managed cluster: an empty success
        rbac_query_proxy(TOKEN, "far"),
        # A tenant's access: series of nodes and targets are in no namespace of a tenant.
        replace(rbac_query_proxy(TOKEN, "near"), namespaces=("chat",)),
        replace(rbac_query_proxy(TOKEN, "near"), namespaces=()),
    ],
    ids=["no cluster", "another cluster", "a tenant", "a tenant without namespaces"],
)
def test_restricted_access_sees_no_sentinel_and_lands_no_hour(hub: Hub, proxy: QueryProxy) -> None:
    with proxied(hub.running.thanos_url, proxy) as url:
        attempt = hub.pull(url)
        told = hub.wrong(url)
    [hour] = attempt.hours
    assert {answer.outcome for answer in attempt.answers} == {Outcome.OK}
    assert (hour.outcome, hour.reason) == (Outcome.EMPTY, "no sample of up, kube_node_info")
    assert {"up", "kube_node_info"} <= set(told)


def test_no_token_is_ever_landed(hub: Hub) -> None:
    with proxied(hub.running.thanos_url, rbac_query_proxy(TOKEN, "near")) as url:
        hub.pull(url)
        hub.pull(url, "other")
    landed = [path for path in (hub.folder / "proxied").rglob("*") if path.is_file()]
    assert len(landed) > 10
    assert not [path for path in landed if TOKEN.encode() in path.read_bytes()]
