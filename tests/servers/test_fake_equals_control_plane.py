"""A real control plane accepts, shows and exposes the simulated fleet exactly as the simulator
does.

Several instants of whole scenarios are written into a real kube-apiserver. Its documents, the page
of a real kube-state-metrics and the metrics of a real scheduler must equal those of the simulator.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from domain.interval import parse_instant
from fake_gpu.exporters.kube_state_metrics.metric_families import exposition, families
from fake_gpu.exporters.scheduler import exposition as scheduler_exposition
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import SimulatedCluster
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.scenario.load import load_scenario
from ingestion.metric_catalogue import ALLOCATION_ENTRIES
from tests.servers import replay
from tests.servers.control_plane import (
    ControlPlane,
    control_plane,
    kube_state_metrics,
    scheduler,
    token_of,
)
from tests.servers.custom_resources import define_gpu_budgets

pytestmark = pytest.mark.servers

# The time in which an exporter receives the last write, on a machine under load.
HEARING_SECONDS = 60.0
# A family that kube-state-metrics 2.15 does not have; it is compared with version 2.20.
NEWER = {"kube_pod_resourceclaim_info"}
# Queried metrics from other exporters: Prometheus itself, and the scheduler.
FROM_ELSEWHERE = {"up", "kube_pod_resource_request"}
# Namespaces that a real server creates and no fleet has.
OWN_NAMESPACES = {"kube-node-lease"}


@dataclass(frozen=True)
class Moment:
    """One instant of a scenario, and a line that proves that its subject is present."""

    scenario: str
    cluster: str
    at: str
    shows: str

    def __str__(self) -> str:
        return f"{self.scenario}-{self.cluster}-{self.at}"


MOMENTS = (
    Moment("thin_line", "east", "2026-09-30T19:00:00Z", "kube_node_info{"),
    Moment("thin_line", "east", "2026-10-01T01:45:15Z", 'reason="CrashLoopBackOff"} 1'),
    Moment("thin_line", "east", "2026-10-01T02:25:05Z", 'phase="Succeeded"} 1'),
    Moment("thin_line", "east", "2026-10-01T04:15:43Z", "kube_pod_deletion_timestamp{"),
    Moment("demo", "alpha", "2026-10-14T12:00:00Z", 'created_by_kind="PyTorchJob"'),
    Moment("demo", "alpha", "2026-10-15T14:22:00Z", 'node="alpha-mig"'),
    Moment("demo", "beta", "2026-10-12T10:00:00Z", 'resource="nvidia_com_gpu",unit="integer"} 7'),
    Moment("demo", "beta", "2026-10-20T06:30:00Z", 'unschedulable{node="beta-h100"} 1'),
    Moment("demo", "gamma", "2026-10-05T12:00:00Z", 'resource="amd_com_gpu"'),
    Moment("every_way_to_share", "shared", "2026-10-05T06:00:00Z", "nvidia_com_mig_1g_24gb_me"),
    Moment("init_and_sidecars", "lab", "2026-10-05T05:03:00Z", 'restart_policy="Always"} 1'),
    Moment("init_and_sidecars", "lab", "2026-10-05T06:30:00Z", 'resource="nvidia_com_gpu"'),
    Moment("quota_and_queue", "full", "2026-10-05T03:47:56Z", "kube_pod_status_unschedulable{"),
    Moment("evicted_without_an_end", "lab", "2026-10-05T07:00:00Z", 'reason="Evicted"} 1'),
    Moment("node_without_heartbeat", "prod", "2026-10-05T07:30:00Z", 'status="unknown"} 1'),
    Moment("namespace_recreated", "lab", "2026-10-05T09:00:05Z", 'phase="Terminating"} 1'),
)


@dataclass(frozen=True)
class Written:
    """An instant whose objects are in the real API server."""

    plane: ControlPlane
    moment: Moment
    documents: list[dict[str, Any]]
    folder: Path

    @property
    def pods(self) -> list[dict[str, Any]]:
        return [document for document in self.documents if document["kind"] == "Pod"]


@cache
def _cluster(scenario: str, name: str) -> tuple[SimulatedCluster, ObjectHistory]:
    fleet = build_fleet(load_scenario(scenario))
    [cluster] = [c for c in fleet.clusters if c.name == name]
    return cluster, ObjectHistory(cluster, fleet.faults)


def _documents(moment: Moment) -> list[dict[str, Any]]:
    _, history = _cluster(moment.scenario, moment.cluster)
    second = int(parse_instant(moment.at).timestamp())
    return [d for kind in history.kinds for d in history.objects_at(kind, second)]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane(tmp_path_factory.mktemp("plane")) as plane:
        define_gpu_budgets(plane)
        yield plane


@pytest.fixture(scope="module")
def scheduler_metrics(
    plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """One scheduler for all moments. A kube-state-metrics would keep objects of the last one: it
    identifies them by a UID that is not their first here."""
    with scheduler(plane, tmp_path_factory.mktemp("scheduler")) as url:
        yield url


@pytest.fixture(scope="module", params=MOMENTS, ids=str)
def written(
    request: pytest.FixtureRequest,
    plane: ControlPlane,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Written]:
    moment: Moment = request.param
    documents = _documents(moment)
    replay.write_all(plane, [d for d in documents if d["kind"] in replay.SERVED])
    yield Written(plane, moment, documents, tmp_path_factory.mktemp("exporters"))
    replay.wipe(plane)


# --- documents -----------------------------------------------------------------------------------

# Defaults that a server writes into specs and that do not concern devices.
DEFAULTS_LEFT_OUT = {
    "CronJob.spec.failedJobsHistoryLimit",
    "CronJob.spec.jobTemplate.metadata",
    "CronJob.spec.successfulJobsHistoryLimit",
    "CronJob.spec.suspend",
    "Deployment.spec.progressDeadlineSeconds",
    "Deployment.spec.revisionHistoryLimit",
    "Deployment.spec.strategy",
    "StatefulSet.spec.persistentVolumeClaimRetentionPolicy",
    "StatefulSet.spec.podManagementPolicy",
    "StatefulSet.spec.revisionHistoryLimit",
    "StatefulSet.spec.updateStrategy",
}


def _differences(real: Any, fake: Any, at: str) -> Iterator[str]:
    """The differences between two documents, as `Kind.spec.field: real | fake`."""
    if isinstance(real, dict) and isinstance(fake, dict):
        for name in sorted(real.keys() | fake.keys()):
            yield from _differences(real.get(name), fake.get(name), f"{at}.{name}")
    elif isinstance(real, list) and isinstance(fake, list) and len(real) == len(fake):
        for one, other in zip(real, fake, strict=True):
            yield from _differences(one, other, f"{at}[]")
    elif real != fake and at not in DEFAULTS_LEFT_OUT:
        yield f"{at}: {real!r} | {fake!r}"


def test_the_server_takes_every_object_and_shows_it_as_the_fake_does(written: Written) -> None:
    with written.plane.client() as admin:
        for document in written.documents:
            if document["kind"] not in replay.SERVED:
                continue
            real = replay.read_back(admin, document)
            version = {"resourceVersion": document["metadata"]["resourceVersion"]}
            real["metadata"] |= version
            assert list(_differences(real, document, document["kind"])) == []


# --- exporters -----------------------------------------------------------------------------------


def _rows(text: str) -> Counter[str]:
    """The lines of all families of the simulator, without namespaces of the server."""
    ours = {family.head.name for family in families()} - NEWER

    def wanted(row: str) -> bool:
        name = row.split(" ")[2] if row.startswith("# ") else row.partition("{")[0]
        return name in ours and not any(f'namespace="{own}"' in row for own in OWN_NAMESPACES)

    return Counter(row for row in text.splitlines() if wanted(row))


def _settled(read: Callable[[], Any], expected: Any) -> Any:
    """The value as soon as it equals the expected one; the last value after a limit of time."""
    deadline = time.monotonic() + HEARING_SECONDS
    while (found := read()) != expected and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def test_the_real_kube_state_metrics_exposes_what_the_fake_exposes(written: Written) -> None:
    fake = _rows(exposition(written.documents))
    with kube_state_metrics(written.plane, written.folder) as url:
        real = _settled(lambda: _rows(httpx.get(url).text), fake)
    assert (real - fake, fake - real) == (Counter(), Counter())
    assert any(written.moment.shows in row for row in real), written.moment.shows


def _queried_samples(text: str) -> Counter[str]:
    """The samples of every metric in the pull's queries, with claims."""
    asked = {entry.metric for entry in ALLOCATION_ENTRIES} - FROM_ELSEWHERE
    return Counter(
        row
        for row in text.splitlines()
        if row.partition("{")[0] in asked
        and not any(f'namespace="{own}"' in row for own in OWN_NAMESPACES)
    )


def test_a_newer_kube_state_metrics_exposes_the_same_queried_metrics(written: Written) -> None:
    """Version 2.20 has claims, and omits reasons that a pod does not have."""
    fake = _queried_samples(exposition(written.documents))
    program = "kube-state-metrics-2.20"
    with kube_state_metrics(written.plane, written.folder, program) as url:
        real = _settled(lambda: _queried_samples(httpx.get(url).text), fake)
    assert (real - fake, fake - real) == (Counter(), Counter())
    claims = any(pod["spec"].get("resourceClaims") for pod in written.pods)
    assert any(row.startswith("kube_pod_resourceclaim_info{") for row in real) == claims


def test_every_queried_metric_has_a_line_at_some_instant() -> None:
    """A metric without lines would be equal on both sides without a comparison."""
    rows = [row for moment in MOMENTS for row in _rows(exposition(_documents(moment)))]
    told = {row.partition("{")[0] for row in rows if not row.startswith("#")}
    asked = {entry.metric for entry in ALLOCATION_ENTRIES} - FROM_ELSEWHERE
    assert asked - told == NEWER


def test_the_real_scheduler_counts_what_the_fake_counts(
    written: Written, scheduler_metrics: str
) -> None:
    fake = scheduler_exposition(written.pods)
    allowed = {"Authorization": f"Bearer {token_of('admin')}"}
    real = _settled(lambda: httpx.get(scheduler_metrics, verify=False, headers=allowed).text, fake)
    assert real == fake
    assert ("kube_pod_resource_request{" in real) == bool(written.pods)
