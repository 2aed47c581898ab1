"""Claims that share a card, allocated by a real scheduler: the journal, and the facts from it.

Put here: consumable capacity on a real API server and scheduler.
Not here: whole devices (`test_fake_equals_api_server`), or the cost of shares
(`tests/scenarios/test_evidence_by_hand.py`).

Kubernetes has consumable capacity by default since 1.36. No feature gate is set here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient
from domain.gpu import claimed_resource
from fake_gpu.fleet.build import build_fleet
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.scenario.load import load_scenario
from ingestion.kubernetes.collector import Collector, CollectorSettings
from ingestion.kubernetes.journal import parse_lines, segments
from ingestion.kubernetes.journal_lines import Line
from ingestion.kubernetes.lifecycle_rows import rows_of
from tests.servers.collecting import PushedClock
from tests.servers.control_plane import ControlPlane, control_plane, scheduler
from tests.servers.process import PATIENCE_SECONDS, wait_for
from tests.servers.test_collector_follows_real_cluster import may_read
from warehouse.store import FolderStore

pytestmark = pytest.mark.servers

DRA = "/apis/resource.k8s.io/v1"
POLICY = {"default": "1Mi", "validRange": {"min": "1Mi", "step": "1Mi"}}
DRIVER = "gpu.nvidia.com"
Document = dict[str, Any]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest.fixture(scope="module")
def admin(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A node with one card of 40 GiB that claims can share, and a scheduler."""
    folder = tmp_path_factory.mktemp("s")
    with plane.client() as admin, scheduler(plane, folder, "default-scheduler"):
        may_read(admin)
        for name in ("vision", "speech"):
            create(admin, "/api/v1/namespaces", "v1", "Namespace", name)
        offered = {"cpu": "64", "memory": "1Ti", "pods": "100"}
        create(admin, "/api/v1/nodes", "v1", "Node", "dra",
             status={"capacity": offered, "allocatable": offered})  # fmt: skip
        selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        create(admin, f"{DRA}/deviceclasses", "resource.k8s.io/v1", "DeviceClass", DRIVER,
             spec={"selectors": [selector]})  # fmt: skip
        device = {
            "name": "gpu-0",
            "allowMultipleAllocations": True,
            "attributes": {"productName": {"string": "NVIDIA A100-SXM4-40GB"}},
            "capacity": {"memory": {"value": "40Gi", "requestPolicy": POLICY}},
        }
        create(admin, f"{DRA}/resourceslices", "resource.k8s.io/v1", "ResourceSlice", "dra-gpus",
             spec={"driver": DRIVER, "nodeName": "dra", "devices": [device],
                   "pool": {"name": "dra", "generation": 1, "resourceSliceCount": 1}},
        )  # fmt: skip
        yield admin


def create(
    admin: httpx.Client, path: str, version: str, kind: str, name: str, **parts: Any
) -> Document:
    document = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **parts}
    answer = admin.post(path, json=document)
    assert answer.status_code == 201, answer.text
    found: Document = answer.json()
    return found


def pod_with_claim(admin: httpx.Client, namespace: str, name: str, memory: str) -> None:
    exactly = {"deviceClassName": DRIVER, "capacity": {"requests": {"memory": memory}}}
    create(admin, f"{DRA}/namespaces/{namespace}/resourceclaims", "resource.k8s.io/v1",
         "ResourceClaim", name,
         spec={"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}})  # fmt: skip
    container = {"name": "main", "image": "registry.example/x:1",
                 "resources": {"claims": [{"name": "gpu"}]}}  # fmt: skip
    create(admin, f"/api/v1/namespaces/{namespace}/pods", "v1", "Pod", name,
         spec={"containers": [container],
               "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]})  # fmt: skip


def claim(admin: httpx.Client, namespace: str, name: str) -> Document:
    found: Document = admin.get(f"{DRA}/namespaces/{namespace}/resourceclaims/{name}").json()
    return found


def is_bound(admin: httpx.Client, namespace: str, name: str) -> bool:
    pod = admin.get(f"/api/v1/namespaces/{namespace}/pods/{name}").json()
    return bool(pod["spec"].get("nodeName"))


def waits(admin: httpx.Client, namespace: str, name: str) -> bool:
    pod = admin.get(f"/api/v1/namespaces/{namespace}/pods/{name}").json()
    reasons = [c.get("reason") for c in pod.get("status", {}).get("conditions", ())]
    return "Unschedulable" in reasons


@pytest.fixture(scope="module")
def lines(
    plane: ControlPlane, admin: httpx.Client, tmp_path_factory: pytest.TempPathFactory
) -> list[Line]:
    """The journal for two tenants that share a card, and a third for which there is no capacity."""
    pod_with_claim(admin, "vision", "large", "20Gi")
    pod_with_claim(admin, "speech", "small", "10Gi")
    for namespace, name in (("vision", "large"), ("speech", "small")):
        wait_for(lambda at=namespace, of=name: is_bound(admin, at, of), f"{name} is not bound")
    pod_with_claim(admin, "speech", "too-much", "11Gi")
    wait_for(lambda: waits(admin, "speech", "too-much"), "nothing is said of too-much")
    return collected(plane, admin, tmp_path_factory.mktemp("spool"))


def collected(plane: ControlPlane, admin: httpx.Client, folder: Path) -> list[Line]:
    system = admin.get("/api/v1/namespaces/kube-system").json()["metadata"]["uid"]
    client = KubernetesClient(
        ServerAccess(plane.url, plane.ca_file, token_file=plane.token_file("collector"))
    )
    spool, stop = FolderStore(folder), threading.Event()
    clock = PushedClock(folder / "ahead")
    collector = Collector(client, spool, clock, CollectorSettings(system, flush_seconds=1))
    thread = collector.run_in_thread(stop)
    wait_for(lambda: bool(list(segments(spool, system))), "the journal stays empty")
    stop.set()
    thread.join(PATIENCE_SECONDS)
    return [
        line
        for one in segments(spool, system)
        for line in parse_lines(one.key, spool.read(one.key))
    ]


def rows(lines: list[Line], resource: str) -> list[dict[str, Any]]:
    told = [x for x in lines if x["line"] == "object" and x["resource"] == resource]
    return [row for line in told for _, row in rows_of(line)]


def test_the_journal_has_every_share_that_the_scheduler_gave(
    admin: httpx.Client, lines: list[Line]
) -> None:
    [offered] = rows(lines, "resourceslices")
    assert offered["allows_multiple_allocations"] is True
    assert dict(offered["capacity"]) == {"memory": "40Gi"}
    found = {row["claim_name"]: row for row in rows(lines, "resourceclaims")}
    assert set(found) == {"large", "small"}, "a claim without a device has no row"
    for name, namespace, part in (("large", "vision", "1/2"), ("small", "speech", "1/4")):
        [result] = claim(admin, namespace, name)["status"]["allocation"]["devices"]["results"]
        row = found[name]
        assert row["share_id"] == result["shareID"]
        assert dict(row["consumed_capacity"]) == result["consumedCapacity"]
        resource = claimed_resource(
            row["driver"], row["device"], dict(row["consumed_capacity"]), dict(offered["capacity"])
        )
        assert resource == f"{DRIVER}/gpu-0:{part}"
    assert found["large"]["share_id"] != found["small"]["share_id"]


def test_the_time_of_allocation_of_a_share_is_kept(admin: httpx.Client, lines: list[Line]) -> None:
    told = [x["object"] for x in lines if x.get("resource") == "resourceclaims" and "object" in x]
    allocated = [each for each in told if each["results"]]
    assert len(allocated) == 2
    for each in allocated:
        began = datetime.fromisoformat(each["allocatedAt"])
        assert abs((datetime.now(UTC) - began).total_seconds()) < 3600


def test_the_fake_writes_shares_as_the_real_server_does(
    admin: httpx.Client, lines: list[Line]
) -> None:
    """A claim and a slice have the same keys at every depth."""
    (cluster,) = build_fleet(load_scenario("shared_devices")).clusters
    history = ObjectHistory(cluster)
    at = cluster.claims[0].created_at + 3600
    fake_claim = history.objects_at("ResourceClaim", at)[0]
    real_claim = claim(admin, "vision", "large")
    assert keys(fake_claim["spec"]) == keys(real_claim["spec"])
    assert keys(fake_claim["status"]["allocation"]["devices"]) == keys(
        real_claim["status"]["allocation"]["devices"]
    )
    [real_slice] = admin.get(f"{DRA}/resourceslices").json()["items"]
    [fake_slice] = history.objects_at("ResourceSlice", at)
    of_fake, of_real = (each["spec"]["devices"][0] for each in (fake_slice, real_slice))
    assert keys(of_fake["capacity"]) == keys(of_real["capacity"])
    assert of_fake["allowMultipleAllocations"] == of_real["allowMultipleAllocations"]


def keys(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: keys(value) for name, value in document.items()}
    return [keys(item) for item in document] if isinstance(document, list) else type(document)
