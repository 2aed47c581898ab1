"""Writes to the simulated Kubernetes API change pods and truth from the next second on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient
from clients.prometheus import PrometheusClient
from fake_gpu.clock import VirtualClock
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.export import plain_rows
from fake_gpu.fleet.model import instant
from fake_gpu.scenario.load import read_scenario
from fake_gpu.serve import Running, serve
from fake_gpu.truth.ledger import ledger
from idle_pruner.cluster import ObjectName
from idle_pruner.pruner import Pruner
from idle_pruner.records import Records
from idle_pruner.settings import PruneSettings

OPT_IN = Path(__file__).parents[2] / "deploy" / "idle-pruner" / "opt-in.yaml"
START = datetime(2026, 10, 5, tzinfo=UTC)
SCENARIO = """\
name: writes
from: 2026-10-05T00:00:00Z
until: 2026-10-06T00:00:00Z
clusters:
  - name: one
    nodes: [{name: n1, product: Tesla-T4, cards: 8}]
    workloads:
      - {name: model, namespace: team-a, replicas: 3, requests: 1, stopping: 5s}
      - {name: lab, namespace: team-a, kind: StatefulSet, requests: 1, stopping: 5s,
         owners: [{kind: Notebook, api: kubeflow.org/v1, name: lab}]}
      - {name: train, namespace: team-a, kind: Job, requests: 1, arrivals: {every: 4h}}
"""
APPS = "/apis/apps/v1/namespaces/team-a"
MERGE = {"content-type": "application/merge-patch+json"}
Document = dict[str, Any]


class Api:
    def __init__(self, running: Running) -> None:
        self.running = running
        [url] = running.kubernetes_urls.values()
        self.http = httpx.Client(base_url=url, timeout=30)

    def patch(self, path: str, body: Document, status: int = 200) -> Document:
        answer = self.http.patch(path, json=body, headers=MERGE)
        assert answer.status_code == status, answer.text
        found: Document = answer.json()
        return found

    def get(self, path: str) -> Document:
        found: Document = self.http.get(path).json()
        return found

    def after(self, seconds: int) -> list[str]:
        """Names of the pods that have not ended, some seconds later."""
        self.running.advance_to(self.running.clock.now() + timedelta(seconds=seconds))
        items = self.get("/api/v1/namespaces/team-a/pods")["items"]
        names = [pod["metadata"]["name"] for pod in items if pod["metadata"]["name"][0] != "t"]
        return sorted(name.partition("-")[0] for name in names)


@pytest.fixture
def api() -> Iterator[Api]:
    clock = VirtualClock(START + timedelta(hours=1), "driven")
    with serve(read_scenario(SCENARIO, "test", None), clock) as running:
        yield Api(running)


def test_a_scale_ends_pods_and_the_truth_agrees(api: Api) -> None:
    assert api.after(60) == ["lab", "model", "model", "model"]
    before = api.get(f"{APPS}/deployments/model")
    identity = {name: before["metadata"][name] for name in ("uid", "resourceVersion")}
    body = {"spec": {"replicas": 0}, "metadata": identity | {"annotations": {"a.b/c": "d"}}}
    changed = api.patch(f"{APPS}/deployments/model", body)
    assert (changed["spec"]["replicas"], changed["metadata"]["generation"]) == (0, 2)
    assert api.after(10) == ["lab"]
    now = api.get(f"{APPS}/deployments/model")
    assert (now["metadata"]["annotations"], now["spec"]["replicas"]) == ({"a.b/c": "d"}, 0)
    # Brute force: each of three pods ran from its start until 6 s after the second of the patch.
    rows = httpx.get(f"{api.running.control_url}/-/truth", params={"grain": "allocations"}).json()
    ended = {row["ended_at"] for row in rows if row["workload_name"] == "model"}
    assert ended == {"2026-10-05T01:01:06Z"}
    api.patch(f"{APPS}/deployments/model/scale", {"spec": {"replicas": 2}})
    assert api.after(60) == ["lab", "model", "model"]


def test_the_same_scenario_written_from_the_start_has_the_same_truth(api: Api) -> None:
    api.patch(f"{APPS}/deployments/model", {"spec": {"replicas": 1}})
    text = SCENARIO.replace(
        "replicas: 3,", "replicas: 3, changes: [{at: 2026-10-05T01:00:01Z, replicas: 1}],"
    )
    written = build_fleet(read_scenario(text, "test", None))
    for grain in ("allocations", "node-hours", "tenant-periods"):
        assert ledger(plain_rows(api.running.fleet), grain) == ledger(plain_rows(written), grain)


def test_the_annotation_of_a_notebook_stops_and_restarts_its_pods(api: Api) -> None:
    path = "/apis/kubeflow.org/v1/namespaces/team-a/notebooks/lab"
    stopped = {"metadata": {"annotations": {"kubeflow-resource-stopped": "2026-10-05T01:00:00Z"}}}
    api.patch(path, stopped)
    assert api.after(30) == ["model", "model", "model"]
    api.patch(path, {"metadata": {"annotations": {"kubeflow-resource-stopped": None}}})
    assert api.after(90) == ["lab", "model", "model", "model"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("deployments/model", {"metadata": {"resourceVersion": "1"}}, 409),
        ("deployments/model", {"metadata": {"uid": "x"}}, 422),
        ("deployments/model", {"metadata": {"labels": {"a": "b"}}}, 422),
        ("deployments/model", {"spec": {"paused": True}}, 422),
        ("deployments/model", {"spec": {"replicas": -1}}, 422),
        ("deployments/none", {"spec": {"replicas": 0}}, 404),
        ("statefulsets/lab", {"spec": {"replicas": 100_000}}, 422),
    ],
)
def test_other_changes_are_refused(api: Api, path: str, body: Document, status: int) -> None:
    assert api.patch(f"{APPS}/{path}", body, status)["code"] == status
    assert api.after(60) == ["lab", "model", "model", "model"]


def test_events_and_role_bindings_are_kept_and_listed(api: Api) -> None:
    events = "/api/v1/namespaces/team-a/events"
    event = {"metadata": {"name": "model.1"}, "reason": "GpuWorkloadIdle", "message": "m"}
    assert api.http.post(events, json=event).status_code == 201
    assert api.http.post(events, json=event).status_code == 409
    assert "GpuWorkloadIdle" in {item["reason"] for item in api.get(events)["items"]}
    bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/team-a/rolebindings"
    binding = {"metadata": {"name": "b", "finalizers": ["x/y"]}, "roleRef": {"name": "r"}}
    assert api.http.post(bindings, json=binding).status_code == 201
    api.patch(f"{APPS}/deployments/model", {"spec": {"replicas": 2}})  # accepted
    assert api.http.delete(f"{bindings}/b").json()["metadata"]["deletionTimestamp"]
    assert len(api.get(bindings)["items"]) == 1
    api.patch(f"{bindings}/b", {"metadata": {"finalizers": None}})
    assert api.get(bindings)["items"] == []


class DrivingClock:
    """A clock whose waiters advance the fleet."""

    def __init__(self, running: Running) -> None:
        self.running = running

    def now(self) -> datetime:
        return self.running.clock.now()

    def wait_until(self, when: datetime) -> None:
        self.running.advance_to(when)


def test_the_pruner_stops_and_restores_an_idle_workload(tmp_path: Path) -> None:
    text = SCENARIO.replace("replicas: 3,", "replicas: 3, utilisation: idle,")
    clock = VirtualClock(START + timedelta(hours=3), "driven")
    with serve(read_scenario(text, "test", None), clock) as running:
        api = Api(running)
        [url] = running.kubernetes_urls.values()
        [binding] = yaml.safe_load_all(OPT_IN.read_text(encoding="utf-8"))
        path = "/apis/rbac.authorization.k8s.io/v1/namespaces/team-a/rolebindings"
        assert api.http.post(path, json=binding).status_code == 201
        driving = DrivingClock(running)
        pruner = Pruner(
            KubernetesClient(ServerAccess(url)),
            PrometheusClient(ServerAccess(running.thanos_url)),
            Records(tmp_path / "records.jsonl"),
            PruneSettings(scales_down=True),
            driving,
        )

        def actions() -> dict[str, str]:
            return {str(r.workload): r.action for r in pruner.run_pass().results}

        model = "Deployment team-a/model"
        assert actions()[model] == "noticed"
        driving.wait_until(driving.now() + timedelta(minutes=6))
        assert actions()[model] == "stopped"
        assert api.after(1) == ["lab"]
        events = api.get("/api/v1/namespaces/team-a/events")["items"]
        reasons = {item["reason"] for item in events}
        assert {"GpuWorkloadIdle", "GpuWorkloadStopped"} <= reasons
        pruner.restore(ObjectName("apps/v1", "Deployment", "team-a", "model"), "It is wanted.")
        assert api.after(120) == ["lab", "model", "model", "model"]
    recorded = [record.event for record in Records(tmp_path / "records.jsonl").read()]
    assert recorded == ["idle", "noticed", "stopped", "gone", "restored"]


def test_a_fixed_clock_accepts_no_change() -> None:
    clock = VirtualClock(START + timedelta(hours=1), "fixed")
    with serve(read_scenario(SCENARIO, "test", None), clock) as running:
        assert instant(running.fleet.started_at) == START
        refused = Api(running).patch(f"{APPS}/deployments/model", {"spec": {"replicas": 0}}, 405)
    assert "--live or --driven" in refused["message"]
