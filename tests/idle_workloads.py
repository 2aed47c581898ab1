"""Random workloads with known use, their samples with faults, and a Kubernetes API in memory.

Put here: the truth about devices, their samples after exporters and scrapes, and the objects that
a pruner reads and patches.
Not here: expectations (the tests beside this file).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import httpx

NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
INTERVAL = 30
Document = dict[str, Any]
Sample = tuple[float, str]


@dataclass
class TrueDevice:
    """One device of one pod: its activity at each scrape of the window (0 to 1)."""

    uuid: str
    instance: str
    pod: str
    namespace: str
    activity: list[float]
    node: str = "node-1"
    product: str = "NVIDIA A100-SXM4-40GB"

    @property
    def is_busy(self) -> bool:
        return any(self.activity)


@dataclass
class Samples:
    """The series of a Prometheus, by metric name; answers `/api/v1/query`."""

    series: dict[str, list[Document]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    status: int = 200

    def add(self, name: str, labels: dict[str, str], values: Sequence[Sample]) -> Document:
        series = {"metric": {**labels, "__name__": name}, "values": [list(v) for v in values]}
        self.series.setdefault(name, []).append(series)
        return series

    def answer(self, request: httpx.Request) -> httpx.Response:
        form = parse_qs(request.content.decode())
        name = form["query"][0].partition("[")[0].partition("{")[0]
        body: Document = {
            "status": "success",
            "data": {
                "resultType": "matrix",
                "result": [s for s in self.series.get(name, []) if s["values"]],
            },
        }
        if self.warnings:
            body["warnings"] = self.warnings
        return httpx.Response(self.status, json=body)


def scrape_times(now: datetime = NOW, minutes: int = 30) -> list[float]:
    end = now.timestamp()
    return [end - 5 - INTERVAL * n for n in range(minutes * 60 // INTERVAL)][::-1]


def samples_of(devices: Sequence[TrueDevice], *, is_new_dcgm: bool = False) -> Samples:
    """The samples of these devices with a working exporter and Prometheus."""
    samples = Samples()
    times = scrape_times()
    for node in sorted({device.node for device in devices}):
        target = {"job": "dcgm", "instance": f"{node}:9400"}
        samples.add("up", target, [(at, "1") for at in times])
    for device in devices:
        labels = {
            "job": "dcgm",
            "instance": f"{device.node}:9400",
            "UUID": device.uuid,
            "modelName": device.product,
            "exported_pod": device.pod,
            "exported_namespace": device.namespace,
            "pod": "dcgm-exporter-abc",
            "namespace": "nvidia-gpu-operator",
        }
        if device.instance:
            labels["GPU_I_ID"] = device.instance
        active = list(zip(times, device.activity, strict=True))
        names = NEW_NAMES if is_new_dcgm else OLD_NAMES
        samples.add(names["engine"], labels, [(at, f"{a:g}") for at, a in active])
        samples.add(names["memory"], labels, [(at, f"{a / 2:g}") for at, a in active])
        if not device.instance:
            percent = 1 if is_new_dcgm else 100
            utils = [(at, f"{round(a * 100) * percent / 100:g}") for at, a in active]
            samples.add(names["utilisation"], labels, utils)
        samples.add(names["power"], labels, [(at, f"{60 + 300 * a:g}") for at, a in active])
    return samples


OLD_NAMES = {
    "engine": "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "memory": "DCGM_FI_PROF_DRAM_ACTIVE",
    "utilisation": "DCGM_FI_DEV_GPU_UTIL",
    "power": "DCGM_FI_DEV_POWER_USAGE",
}
NEW_NAMES = {
    "engine": "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
    "memory": "DCGM_FI_PROF_DRAM_UTIL_RATIO",
    "utilisation": "DCGM_FI_DEV_GPU_UTIL_RATIO",
    "power": "DCGM_FI_DEV_BOARD_POWER_WATTS",
}

Fault = Callable[[random.Random, Samples], None]


def _every(samples: Samples) -> list[Document]:
    return [s for name, found in sorted(samples.series.items()) if name != "up" for s in found]


def lose_a_series(chance: random.Random, samples: Samples) -> None:
    series = chance.choice(_every(samples))
    series["values"] = []


def lose_the_busy_samples(chance: random.Random, samples: Samples) -> None:
    """Remove the samples that show use, from every metric of one device."""
    uuid = chance.choice(_every(samples))["metric"]["UUID"]
    for series in _every(samples):
        if series["metric"]["UUID"] == uuid:
            quiet = min((float(text) for _, text in series["values"]), default=0.0)
            series["values"] = [v for v in series["values"] if float(v[1]) == quiet]


def cut_the_window(chance: random.Random, samples: Samples) -> None:
    """The exporter was down for a part of the window: neither samples nor scrapes."""
    times = scrape_times()
    first = chance.randrange(len(times) - 10)
    last = first + chance.randrange(6, 30)
    away = set(times[first:last])
    for found in samples.series.values():
        for series in found:
            series["values"] = [v for v in series["values"] if v[0] not in away]


def fail_scrapes(chance: random.Random, samples: Samples) -> None:
    """`up` is 0 for a part of the window, and its samples are missing."""
    times = scrape_times()
    first = chance.randrange(len(times) - 10)
    away = set(times[first : first + chance.randrange(1, 30)])
    for series in samples.series["up"]:
        series["values"] = [[v[0], "0"] if v[0] in away else v for v in series["values"]]
    for series in _every(samples):
        series["values"] = [v for v in series["values"] if v[0] not in away]


def merge_instances(chance: random.Random, samples: Samples) -> None:
    """The label of MIG instances is dropped."""
    for series in _every(samples):
        series["metric"].pop("GPU_I_ID", None)


def lose_pod_labels(chance: random.Random, samples: Samples) -> None:
    series = chance.choice(_every(samples))
    for other in _every(samples):
        if other["metric"]["UUID"] == series["metric"]["UUID"]:
            other["metric"].pop("exported_pod", None)


def repeat_a_series(chance: random.Random, samples: Samples) -> None:
    series = chance.choice(_every(samples))
    name = series["metric"]["__name__"]
    labels = series["metric"] | {"prometheus_replica": "b"}
    samples.series[name].append(
        {"metric": labels, "values": [[v[0], "0"] for v in series["values"]]}
    )


def say_nothing_at_all(chance: random.Random, samples: Samples) -> None:
    for found in samples.series.values():
        for series in found:
            series["values"] = []


def stop_early(chance: random.Random, samples: Samples) -> None:
    """The last minutes are missing."""
    count = chance.randrange(3, 40)
    for found in samples.series.values():
        for series in found:
            series["values"] = series["values"][:-count]


def change_the_unit(chance: random.Random, samples: Samples) -> None:
    """A ratio under the name of a percentage, or a value that no device can have."""
    for series in samples.series.get("DCGM_FI_DEV_GPU_UTIL", []):
        series["values"] = [[v[0], f"{float(v[1]) / 100:g}"] for v in series["values"]]
    series = chance.choice(_every(samples))
    if series["values"] and chance.random() < 0.5:
        chance.choice(series["values"])[1] = chance.choice(["NaN", "+Inf", "-1", "900"])


def give_to_another_pod(chance: random.Random, samples: Samples) -> None:
    uuid = chance.choice(_every(samples))["metric"]["UUID"]
    for series in _every(samples):
        if series["metric"]["UUID"] == uuid:
            series["metric"]["exported_pod"] = "someone-elses-pod"


FAULTS: tuple[Fault, ...] = (
    lose_a_series,
    lose_the_busy_samples,
    cut_the_window,
    fail_scrapes,
    merge_instances,
    lose_pod_labels,
    repeat_a_series,
    say_nothing_at_all,
    stop_early,
    change_the_unit,
    give_to_another_pod,
)


RESOURCES = {
    "/api/v1": {"Pod": "pods", "Namespace": "namespaces", "Event": "events"},
    "/apis/apps/v1": {
        "Deployment": "deployments",
        "ReplicaSet": "replicasets",
        "StatefulSet": "statefulsets",
    },
    "/apis/batch/v1": {"Job": "jobs"},
    "/apis/autoscaling/v2": {"HorizontalPodAutoscaler": "horizontalpodautoscalers"},
    "/apis/rbac.authorization.k8s.io/v1": {"RoleBinding": "rolebindings"},
    "/apis/kubeflow.org/v1": {"Notebook": "notebooks"},
    "/apis/serving.kserve.io/v1beta1": {"InferenceService": "inferenceservices"},
}


class KubernetesInMemory:
    """Objects by path: GET, LIST, merge PATCH with preconditions, POST, access reviews."""

    def __init__(self) -> None:
        self.objects: dict[str, Document] = {}
        self.forbidden: set[str] = set()  # paths that a patch may not touch
        self.version = 1
        self.requests: list[tuple[str, str]] = []

    def add(self, path: str, document: Document) -> Document:
        meta = document.setdefault("metadata", {})
        meta.setdefault("name", path.rsplit("/", 1)[1])
        parts = path.split("/")
        if "namespaces" in parts[:-2]:
            meta.setdefault("namespace", parts[parts.index("namespaces") + 1])
        meta.setdefault("uid", f"uid-{len(self.objects)}")
        meta.setdefault("creationTimestamp", "2026-11-01T00:00:00Z")
        self._touch(document)
        self.objects[path] = document
        return document

    def _touch(self, document: Document) -> None:
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.requests.append((request.method, path))
        if request.method == "POST" and path.endswith("selfsubjectaccessreviews"):
            return httpx.Response(201, json={"status": {"allowed": not self.forbidden}})
        if request.method == "POST":
            return self._create(path, json.loads(request.content))
        if request.method == "PATCH":
            return self._patch(path, json.loads(request.content))
        if path in RESOURCES:
            resources = [{"kind": k, "name": n} for k, n in RESOURCES[path].items()]
            return httpx.Response(200, json={"resources": resources})
        if path in self.objects:
            return httpx.Response(200, json=self.objects[path])
        plural = path.rsplit("/", 1)[1]
        if any(plural in found.values() for found in RESOURCES.values()):
            group = path.removesuffix(f"/{plural}").partition("/namespaces/")[0]
            namespace = path.partition("/namespaces/")[2].partition("/")[0]
            found = [
                document
                for name, document in sorted(self.objects.items())
                if name.startswith(f"{group}/")
                and name.split("/")[-2] == plural
                and namespace in ("", document["metadata"].get("namespace"))
            ]
            return httpx.Response(200, json={"metadata": {}, "items": found})
        return _status(404, "NotFound")

    def _create(self, path: str, document: Document) -> httpx.Response:
        name = f"{path}/{document['metadata']['name']}"
        if name in self.objects:
            return _status(409, "AlreadyExists")
        return httpx.Response(201, json=self.add(name, document))

    def _patch(self, path: str, patch: Document) -> httpx.Response:
        if path not in self.objects:
            return _status(404, "NotFound")
        if path in self.forbidden:
            return _status(403, "Forbidden")
        document = self.objects[path]
        meta = patch.get("metadata", {})
        if meta.get("uid", document["metadata"]["uid"]) != document["metadata"]["uid"]:
            return _status(422, "Invalid")
        wanted = meta.get("resourceVersion", document["metadata"]["resourceVersion"])
        if wanted != document["metadata"]["resourceVersion"]:
            return _status(409, "Conflict")
        _merge(document, patch)
        self._touch(document)
        return httpx.Response(200, json=document)


def _merge(target: Document, patch: Document) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


def _status(code: int, reason: str) -> httpx.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": f"{reason} by the test"}
    return httpx.Response(code, json=body)


def pod(
    name: str,
    owner: tuple[str, str, str] | None,
    *,
    devices: int = 1,
    resource: str = "nvidia.com/gpu",
    phase: str = "Running",
    started: datetime = NOW - timedelta(hours=5),
    **metadata: Any,
) -> Document:
    """A pod with one container that requests devices."""
    meta: Document = {"name": name, "creationTimestamp": _time(started), **metadata}
    if owner:
        api_version, kind, owner_name = owner
        reference = {"apiVersion": api_version, "kind": kind, "name": owner_name}
        meta["ownerReferences"] = [reference | {"controller": True}]
    resources = {"limits": {resource: str(devices)}} if devices else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "resources": resources}]},
        "status": {
            "phase": phase,
            "startTime": _time(started),
            "containerStatuses": [
                {"name": "main", "state": {"running": {"startedAt": _time(started)}}}
            ],
        },
    }


def _time(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def random_devices(chance: random.Random) -> list[TrueDevice]:
    """The devices of one workload; in half of the cases at least one of them is used.

    A device works for at least two scrape intervals in a row: a single lost scrape is tolerated.
    """
    replicas, per_replica = chance.randrange(1, 4), chance.randrange(1, 4)
    is_mig, is_idle = chance.random() < 0.3, chance.random() < 0.5
    count = len(scrape_times())
    devices = []
    for replica in range(replicas):
        for number in range(per_replica):
            uuid = f"GPU-{replica}" if is_mig else f"GPU-{replica}-{number}"
            instance = str(7 + number) if is_mig else ""
            activity = [0.0] * count
            devices.append(TrueDevice(uuid, instance, f"pod-{replica}", "team-a", activity))
    if not is_idle:
        for device in chance.sample(devices, chance.randrange(1, len(devices) + 1)):
            length = chance.randrange(2, count)
            first = chance.randrange(count - length + 1)
            level = chance.choice([0.02, 0.3, 1.0])
            device.activity[first : first + length] = [level] * length
    return devices
