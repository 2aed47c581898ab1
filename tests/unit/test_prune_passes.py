"""Passes of the pruner over a cluster in memory: notice, stop, restore, refusals, limits."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient
from clients.prometheus import PrometheusClient
from domain.clock import StoppedClock
from domain.errors import FileDamaged
from idle_pruner.actions import NotRestored
from idle_pruner.cluster import CLUSTER_ROLE, FIELD_MANAGER, ObjectName
from idle_pruner.pruner import RESTORE_FINALIZER, Pruner
from idle_pruner.records import Records
from idle_pruner.settings import PruneSettings
from tests.idle_workloads import NOW, KubernetesInMemory, Samples, TrueDevice, pod, samples_of
from tests.idle_workloads import scrape_times as times

NAMESPACES = "/api/v1/namespaces"
DEPLOYMENTS = "/apis/apps/v1/namespaces/team-a/deployments"
MODEL = ObjectName("apps/v1", "Deployment", "team-a", "model")
SERVING = "/apis/serving.kserve.io/v1beta1/namespaces/team-a/inferenceservices"
NOTEBOOKS = "/apis/kubeflow.org/v1/namespaces/team-a/notebooks"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/team-a/rolebindings"


class World:
    """A cluster with one namespace that opted in, a clock, and a pruner."""

    def __init__(self, folder: Path) -> None:
        self.kubernetes = KubernetesInMemory()
        self.devices: list[TrueDevice] = []
        self.clock = StoppedClock(NOW)
        self.records = Records(folder / "idle-pruner.jsonl")
        self.settings: dict[str, Any] = {"scales_down": True}
        self.kubernetes.add(f"{NAMESPACES}/team-a", {"kind": "Namespace"})
        self.opt_in()

    def opt_in(self) -> None:
        binding = {"roleRef": {"kind": "ClusterRole", "name": CLUSTER_ROLE}}
        binding["metadata"] = {"finalizers": [RESTORE_FINALIZER]}  # type: ignore[assignment]
        self.kubernetes.add(f"{BINDINGS}/idle-pruner", binding)

    def pod(self, name: str, owner: tuple[str, str, str] | None, activity: float = 0.0,
            **changes: Any) -> None:  # fmt: skip
        self.kubernetes.add(f"{NAMESPACES}/team-a/pods/{name}", pod(name, owner, **changes))
        active = [activity] * len(times())
        self.devices.append(TrueDevice(f"GPU-{name}", "", name, "team-a", active))

    def deployment(self, replicas: int = 2, **changes: Any) -> dict[str, Any]:
        """Deployment `model` with its ReplicaSet and idle pods."""
        document = self.kubernetes.add(
            f"{DEPLOYMENTS}/model", {"spec": {"replicas": replicas}, **changes}
        )
        owner = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "model",
                  "controller": True}]  # fmt: skip
        self.kubernetes.add(
            "/apis/apps/v1/namespaces/team-a/replicasets/model-1",
            {"metadata": {"ownerReferences": owner}, "spec": {"replicas": replicas}},
        )
        for number in range(replicas):
            self.pod(f"model-1-{number}", ("apps/v1", "ReplicaSet", "model-1"))
        return document

    def end_pods(self) -> None:
        """Do the work of controllers and kubelets after a scale to zero."""
        for path in [path for path in self.kubernetes.objects if "/pods/" in path]:
            del self.kubernetes.objects[path]
        self.devices.clear()

    def _samples(self, request: httpx.Request) -> httpx.Response:
        """The samples of the devices in the window before the clock."""
        samples: Samples = samples_of(self.devices)
        later = self.clock.now().timestamp() - NOW.timestamp()
        for found in samples.series.values():
            for series in found:
                series["values"] = [[v[0] + later, v[1]] for v in series["values"]]
        return samples.answer(request)

    def _kubernetes(self, request: httpx.Request) -> httpx.Response:
        answer = self.kubernetes.answer(request)
        stopped = request.method == "PATCH" and answer.status_code == 200
        if stopped and b'"replicas":0' in request.content:
            self.end_pods()
        return answer

    @property
    def pruner(self) -> Pruner:
        return Pruner(
            KubernetesClient(
                ServerAccess("http://kubernetes.example"), httpx.MockTransport(self._kubernetes)
            ),
            PrometheusClient(
                ServerAccess("http://prometheus.example"),
                transport=httpx.MockTransport(self._samples),
            ),
            self.records,
            PruneSettings(**self.settings),
            self.clock,
        )

    def after(self, minutes: float) -> dict[str, str]:
        """Run a pass later; the action and the reasons by workload."""
        self.clock.instant += timedelta(minutes=minutes)
        results = self.pruner.run_pass().results
        return {str(r.workload): f"{r.action}: {' '.join(r.reasons)}" for r in results}

    def events(self) -> list[str]:
        return [
            document["reason"]
            for path, document in self.kubernetes.objects.items()
            if "/events/" in path
        ]

    def recorded(self) -> list[str]:
        return [record.event for record in self.records.read()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_an_idle_deployment_is_announced_then_stopped_then_restored(world: World) -> None:
    model = world.deployment(replicas=2)
    assert world.after(0)[str(MODEL)].startswith("noticed")
    assert model["spec"]["replicas"] == 2
    assert world.after(4)[str(MODEL)].startswith("noticed")  # the grace period is five minutes
    assert world.after(2)[str(MODEL)].startswith("stopped")
    assert model["spec"]["replicas"] == 0
    assert json.loads(model["metadata"]["annotations"]["gpu-ledger.io/previous-state"]) == {
        "replicas": 2
    }
    assert world.recorded() == ["idle", "noticed", "stopped", "gone"]
    assert world.events() == ["GpuWorkloadIdle", "GpuWorkloadStopped"]
    [stop] = world.records.stops()
    assert (stop.stopped.device_count, len(stop.stopped.pods)) == (2, 2)
    assert len(stop.stopped.evidence["readings"]) == 2 * 4  # two devices, four metrics

    world.pruner.restore(MODEL, "It was requested.")
    assert model["spec"]["replicas"] == 2
    assert set(model["metadata"]["annotations"]) == {"gpu-ledger.io/restored-at"}
    [stop] = world.records.stops()
    assert stop.restored is not None


def test_a_dry_run_changes_nothing(world: World) -> None:
    world.settings["scales_down"] = False
    world.deployment()
    assert world.after(0)[str(MODEL)].startswith("would stop")
    written = [method for method, path in world.kubernetes.requests
               if method != "GET" and "accessreviews" not in path]  # fmt: skip
    assert written == []


def test_use_after_the_notice_keeps_the_workload(world: World) -> None:
    world.deployment()
    world.after(0)
    world.devices[0].activity[-10:] = [0.4] * 10
    assert world.after(6)[str(MODEL)].startswith("none")
    assert world.recorded() == ["idle", "noticed", "active"]


def test_an_old_notice_is_repeated(world: World) -> None:
    """The time since the notice was not measured: it may contain use before the window."""
    model = world.deployment()
    world.after(0)
    assert world.after(36)[str(MODEL)].startswith("noticed")
    assert model["spec"]["replicas"] == 2


def test_a_workload_that_changes_between_decision_and_stop_is_kept(world: World) -> None:
    model = world.deployment()
    world.after(0)
    answer = world.kubernetes._patch

    def changed_meanwhile(path: str, patch: dict[str, Any]) -> httpx.Response:
        if patch.get("spec") == {"replicas": 0}:
            world.kubernetes._touch(model)
        return answer(path, patch)

    world.kubernetes._patch = changed_meanwhile  # type: ignore[method-assign]
    assert world.after(6)[str(MODEL)].startswith("refused")
    assert model["spec"]["replicas"] == 2
    assert world.recorded()[-2:] == ["stopped", "not_stopped"]
    assert world.records.stops() == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}}, "Kueue manages it"),
        (
            {
                "metadata": {
                    "managedFields": [
                        {
                            "manager": "argocd-controller",
                            "fieldsV1": {"f:spec": {"f:replicas": {}}},
                        }
                    ]
                }
            },
            "argocd-controller sets its replicas",
        ),
        (
            {"metadata": {"annotations": {"gpu-ledger.io/keep-until": "2026-11-02T20:00:00Z"}}},
            "It is kept until 2026-11-02T20:00:00Z",
        ),
        (
            {"metadata": {"annotations": {"gpu-pruner.io/ack-until": "2026-11-02T13:00:00+00:00"}}},
            "It is kept until 2026-11-02T13:00:00Z",
        ),
    ],
)
def test_workloads_of_others_and_protected_ones_are_only_reported(
    world: World, changes: dict[str, Any], reason: str
) -> None:
    world.deployment(**changes)
    found = world.after(0)[str(MODEL)]
    assert found.startswith("report only")
    assert reason in found


def test_an_expired_acknowledgement_is_ignored(world: World) -> None:
    ended = {"annotations": {"gpu-ledger.io/keep-until": "2026-11-02T11:59:59Z"}}
    world.deployment(metadata=ended)
    assert world.after(0)[str(MODEL)].startswith("noticed")


def test_a_workload_of_an_autoscaler_is_only_reported(world: World) -> None:
    world.deployment()
    world.kubernetes.add(
        "/apis/autoscaling/v2/namespaces/team-a/horizontalpodautoscalers/model",
        {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "model"}}},
    )
    assert "HorizontalPodAutoscaler model scales it" in world.after(0)[str(MODEL)]


def test_a_namespace_without_opt_in_is_only_reported(world: World) -> None:
    world.deployment()
    del world.kubernetes.objects[f"{BINDINGS}/idle-pruner"]
    assert "has not opted in" in world.after(0)[str(MODEL)]


def test_without_the_right_to_patch_it_is_only_reported(world: World) -> None:
    world.deployment()
    world.kubernetes.forbidden.add(f"{DEPLOYMENTS}/model")
    assert "may not patch Deployment" in world.after(0)[str(MODEL)]


def test_a_job_is_reported_with_the_command_to_stop_it(world: World) -> None:
    world.kubernetes.add("/apis/batch/v1/namespaces/team-a/jobs/train", {})
    world.pod("train-0", ("batch/v1", "Job", "train"))
    found = world.after(0)["Job team-a/train"]
    assert 'kubectl -n team-a patch job train -p \'{"spec":{"suspend":true}}\'' in found


def test_system_namespaces_are_never_read(world: World) -> None:
    document = pod("dns-0", None)
    world.kubernetes.add(f"{NAMESPACES}/openshift-dns/pods/dns-0", document)
    assert world.after(0) == {}


def test_the_kill_switch_prevents_every_stop(world: World, tmp_path: Path) -> None:
    switch = tmp_path / "kill"
    world.settings["kill_switch"] = switch
    world.deployment()
    world.after(0)
    switch.write_text("on")
    assert "kill switch" in world.after(6)[str(MODEL)]
    switch.write_text("off\n")
    assert world.after(1)[str(MODEL)].startswith("stopped")


def test_the_number_of_stops_is_limited(world: World) -> None:
    world.settings["stops_per_hour"] = 1
    for name in ("a", "b"):
        world.kubernetes.add(
            f"/apis/apps/v1/namespaces/team-a/statefulsets/{name}", {"spec": {"replicas": 1}}
        )
        world.pod(f"{name}-0", ("apps/v1", "StatefulSet", name))
    world.after(0)
    found = world.after(6)
    assert sorted(action.split(":")[0] for action in found.values()) == ["noticed", "stopped"]
    assert any("limit of 5 stops per pass or 1 per hour" in action for action in found.values())


def test_a_notebook_is_stopped_and_restarted_with_fresh_activity(world: World) -> None:
    notebook = world.kubernetes.add(f"{NOTEBOOKS}/lab", {"spec": {}})
    world.kubernetes.add(
        "/apis/apps/v1/namespaces/team-a/statefulsets/lab",
        {"metadata": {"ownerReferences": [{"apiVersion": "kubeflow.org/v1", "kind": "Notebook",
                                           "name": "lab", "controller": True}]}},
    )  # fmt: skip
    world.pod("lab-0", ("apps/v1", "StatefulSet", "lab"))
    world.after(0)
    assert world.after(6)["Notebook team-a/lab"].startswith("stopped")
    stopped_at = notebook["metadata"]["annotations"]["kubeflow-resource-stopped"]
    assert stopped_at == "2026-11-02T12:06:00Z"
    # Its pods stay, because no controller of this cluster acts on the annotation.
    assert world.recorded()[-1] == "not_gone"
    world.pruner.restore(
        ObjectName("kubeflow.org/v1", "Notebook", "team-a", "lab"), "It was requested."
    )
    left = notebook["metadata"]["annotations"]
    assert "kubeflow-resource-stopped" not in left
    assert left["notebooks.kubeflow.org/last-activity"] > stopped_at


def test_an_inference_service_is_stopped_by_its_annotation(world: World) -> None:
    service = world.kubernetes.add(f"{SERVING}/chat", {"spec": {}})
    world.deployment(
        metadata={
            "ownerReferences": [
                {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
                 "name": "chat", "controller": True}
            ]
        }
    )  # fmt: skip
    world.after(0)
    assert world.after(6)["InferenceService team-a/chat"].startswith("stopped")
    assert service["metadata"]["annotations"]["serving.kserve.io/stop"] == "true"


def test_a_manually_scaled_workload_is_not_restored(world: World) -> None:
    model = world.deployment()
    world.after(0)
    world.after(6)
    model["spec"]["replicas"] = 1
    with pytest.raises(NotRestored, match="1 replicas instead of 0"):
        world.pruner.restore(MODEL, "It was requested.")
    assert model["spec"]["replicas"] == 1


def test_removing_the_opt_in_restores_and_allows_removing_the_binding(world: World) -> None:
    model = world.deployment()
    world.after(0)
    world.after(6)
    binding = world.kubernetes.objects[f"{BINDINGS}/idle-pruner"]
    binding["metadata"]["deletionTimestamp"] = "2026-11-02T12:10:00Z"
    assert "opt-in was removed" in world.after(6)[str(MODEL)]
    assert model["spec"]["replicas"] == 2
    assert "finalizers" not in binding["metadata"]


def test_an_opt_out_while_stopped_restores(world: World) -> None:
    model = world.deployment()
    world.after(0)
    world.after(6)
    model["metadata"]["annotations"]["gpu-ledger.io/keep-until"] = "2026-11-03T00:00:00Z"
    assert world.after(6)[str(MODEL)].startswith("restored")
    assert model["spec"]["replicas"] == 2


def test_a_restored_workload_is_young_again(world: World) -> None:
    world.deployment()
    world.after(0)
    world.after(6)
    world.pruner.restore(MODEL, "It was requested.")
    for number in range(2):
        started = world.clock.now() - timedelta(hours=1)  # although its pods look old
        world.pod(f"model-1-{number}", ("apps/v1", "ReplicaSet", "model-1"), started=started)
    assert "The workload changed" in world.after(6)[str(MODEL)]


def test_the_pruners_own_changes_do_not_make_a_workload_young(world: World) -> None:
    fields = [{"manager": FIELD_MANAGER, "time": "2026-11-02T11:59:00Z"}]
    world.deployment(metadata={"managedFields": fields})
    assert world.after(0)[str(MODEL)].startswith("noticed")
    fields[0]["manager"] = "kubectl-edit"
    assert "The workload changed" in world.after(0)[str(MODEL)]


def test_a_truncated_record_is_skipped_and_a_damaged_one_named(tmp_path: Path) -> None:
    records = Records(tmp_path / "records.jsonl")
    records.path.write_bytes(b'{"at":"2026-11-02T12:00:00Z","event":"idle","kind":"Depl')
    assert records.read() == []
    world = World(tmp_path)
    world.records = records
    world.deployment()
    world.after(0)
    assert world.recorded() == ["idle", "noticed"]
    records.path.write_bytes(b'{"something":"else"}\n' + records.path.read_bytes())
    with pytest.raises(FileDamaged, match="line 1"):
        records.read()
