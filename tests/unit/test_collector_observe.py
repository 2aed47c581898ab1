"""Fields of an object that are kept: enough to count, no secrets, limited lengths."""

from __future__ import annotations

import json
from typing import Any

import pytest

from domain.gpu import may_be_a_device
from domain.request import effective_request_of_pod
from ingestion.kubernetes import projections as observe
from ingestion.kubernetes.lifecycle_rows import rows_of
from ingestion.kubernetes.pod_times import read_facts
from tests.kubernetes_by_hand import pod, text
from tests.shared_data import shared_text

CANARY = "s3cr3t-c4n4ry"


def pod_requesting(*resources: str) -> dict[str, Any]:
    document = pod("u", 1, gpus=0)
    requests = dict.fromkeys(resources, "1")
    document["spec"]["containers"] = [{"name": "main", "resources": {"requests": requests}}]
    return document


# --- which pods matter ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/H100_SXM5_80GB",
        "amd.com/gpu",
        "amd.com/cpx_nps4",
        "gpu.intel.com/i915",
        "habana.ai/gaudi",
        "example.com/gpu",
        "acme.io/mig-small",
        "vendor.example/xpu-2",
    ],
)
def test_a_pod_with_a_device_of_any_vendor_is_recorded(resource: str) -> None:
    assert observe.matters(pod_requesting(resource))


@pytest.mark.parametrize(
    "resource", ["cpu", "memory", "hugepages-2Mi", "rdma/hca_shared", "example.com/licence"]
)
def test_a_pod_without_a_device_is_not_recorded(resource: str) -> None:
    assert not observe.matters(pod_requesting(resource))


def test_a_request_of_zero_is_no_request() -> None:
    document = pod_requesting("nvidia.com/gpu")
    document["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "0"
    assert not observe.matters(document)


def test_a_limit_and_an_init_container_count_as_requests() -> None:
    document = pod("u", 1, gpus=0)
    document["spec"]["containers"] = [{"resources": {"limits": {"nvidia.com/gpu": 2}}}]
    assert observe.matters(document)
    assert observe.pod(document)["spec"]["containers"][0]["requests"] == {"nvidia.com/gpu": "2"}
    first = pod("u", 1, gpus=0)
    first["spec"]["initContainers"] = [{"resources": {"requests": {"amd.com/gpu": "1"}}}]
    assert observe.matters(first)


def test_a_pod_with_a_claim_or_an_extended_resource_claim_is_recorded() -> None:
    claiming = pod("u", 1, gpus=0)
    claiming["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "mine"}]
    assert observe.matters(claiming)
    extended = pod("u", 1, gpus=0)
    extended["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "made"}
    assert observe.matters(extended)
    assert observe.pod(extended)["status"]["extendedResourceClaim"] == "made"


# --- kept fields ----------------------------------------------------------------------------------


def test_possible_secrets_are_not_kept() -> None:
    document = pod("u", 1)
    document["metadata"] |= {
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": CANARY},
        "managedFields": [{"manager": CANARY}],
        "labels": {"app": "train", "password": CANARY},
    }
    document["spec"] |= {
        "volumes": [{"secret": {"secretName": CANARY}}],
        "imagePullSecrets": [{"name": CANARY}],
    }
    document["spec"]["containers"][0] |= {
        "env": [{"name": "TOKEN", "value": CANARY}],
        "args": ["--token", CANARY],
        "command": [CANARY],
        "image": f"registry/{CANARY}",
    }
    document["status"] |= {"message": CANARY}
    document["status"]["containerStatuses"][0]["state"] = {
        "terminated": {"message": CANARY, "exitCode": 1, "finishedAt": text(5)}
    }
    kept = json.dumps(observe.pod(document))
    assert CANARY not in kept
    assert '"app": "train"' in kept


def test_no_kind_keeps_an_unlisted_annotation_or_label() -> None:
    document = {
        "metadata": {
            "name": "x",
            "uid": "u",
            "resourceVersion": "1",
            "labels": {"team-secret": CANARY, "nvidia.com/gpu.product": "NVIDIA-H100-NVL"},
            "annotations": {"note": CANARY},
        },
        "spec": {"note": CANARY},
        "status": {"note": CANARY},
    }
    for name, project in observe.PROJECTIONS.items():
        assert CANARY not in json.dumps(project(document)), name


def test_hostile_text_is_cut_and_kept_as_data() -> None:
    document = pod("u", 1, name='=cmd|"/c calc"!A1')
    document["metadata"]["labels"] = {"app": "\u202eevil\0\ud800" + "x" * 262_144}
    kept = observe.pod(document)
    assert kept["metadata"]["name"] == '=cmd|"/c calc"!A1'
    label = kept["metadata"]["labels"]["app"]
    assert len(label) == observe.TEXT_LIMIT
    assert "\0" not in label
    label.encode()


def test_the_number_of_requests_is_limited() -> None:
    asked = {f"nvidia.com/gpu-{n}": "1" for n in range(10_000)}
    kept = observe.extended_requests({"resources": {"requests": asked}})
    assert len(kept) == observe.LIST_LIMIT


def test_the_length_of_lists_is_limited() -> None:
    document = pod("u", 1)
    document["spec"]["containers"] *= 10_000
    assert len(observe.pod(document)["spec"]["containers"]) == observe.LIST_LIMIT


@pytest.mark.parametrize("broken", [None, 5, "text", [], {"metadata": 5}, {"spec": [1]}])
@pytest.mark.parametrize("kind", sorted(observe.PROJECTIONS))
def test_a_document_of_any_shape_is_read_without_an_error(kind: str, broken: object) -> None:
    document: dict[str, Any] = {"metadata": broken, "spec": broken, "status": broken}
    observe.PROJECTIONS[kind](document)
    assert isinstance(observe.matters(document), bool)


def test_a_time_in_another_format_is_no_time() -> None:
    assert observe.time_or_empty("2026-10-01T00:00:00Z") == "2026-10-01T00:00:00Z"
    not_times = ("2026-10-01T00:00:00+02:00", "yesterday", 5, None, "2026-10-01T00:00:00Z\n")
    for other in (*not_times, "2026-02-30T00:00:00Z", "9999-99-99T99:99:99Z"):
        assert observe.time_or_empty(other) == ""


def test_a_node_keeps_the_fields_that_identify_its_devices() -> None:
    kept = observe.node(
        {
            "metadata": {
                "name": "n",
                "uid": "u",
                "labels": {
                    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
                    "nvidia.com/gfd.timestamp": "1790812800",
                    "node-role.kubernetes.io/worker": "",
                    "secret": CANARY,
                },
            },
            "spec": {"unschedulable": True},
            "status": {
                "capacity": {"cpu": "64", "nvidia.com/gpu": "8"},
                "allocatable": {"nvidia.com/gpu": "7"},
                "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": text(5)}],
            },
        }
    )
    assert kept["metadata"]["labels"] == {
        "node-role.kubernetes.io/worker": "",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
    }
    assert (kept["capacity"], kept["allocatable"]) == ({"nvidia.com/gpu": "8"},
                                                       {"nvidia.com/gpu": "7"})  # fmt: skip
    assert kept["unschedulable"] is True
    assert "lastHeartbeatTime" not in json.dumps(kept)


def test_a_claim_keeps_its_pods_and_devices() -> None:
    kept = observe.claim(
        {
            "metadata": {"name": "c", "namespace": "team-a", "uid": "u"},
            "spec": {
                "devices": {
                    "requests": [
                        {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
                    ]
                }
            },
            "status": {
                "allocation": {
                    "devices": {
                        "results": [
                            {"driver": "gpu.nvidia.com", "pool": "node-a", "device": "gpu-0",
                             "request": "gpu"}
                        ]
                    }
                },
                "reservedFor": [
                    {"resource": "pods", "name": "p", "uid": "pod-uid"},
                    {"resource": "others", "name": "q", "uid": "no-pod"},
                ],
            },
        }
    )  # fmt: skip
    line = {"line": "object", "resource": "resourceclaims", "via": "added", "at": text(0),
            "position": 0, "object": kept}  # fmt: skip
    ((table, row),) = list(rows_of(line))
    assert table == "claim_observations"
    assert row["pod_uids"] == ["pod-uid"]
    assert (row["driver"], row["pool"], row["device"]) == ("gpu.nvidia.com", "node-a", "gpu-0")
    assert (row["device_class"], row["request_name"]) == ("gpu.nvidia.com", "gpu")


def test_a_share_of_a_device_keeps_its_id_and_consumed_capacity() -> None:
    """Only this field holds the parts of claims that share a device, and the API has no history."""
    kept = observe.claim(
        {
            "metadata": {"name": "c", "namespace": "team-a", "uid": "u"},
            "spec": {"devices": {"requests": [{
                "name": "gpu",
                "firstAvailable": [
                    {"name": "ten", "deviceClassName": "gpu.nvidia.com",
                     "allocationMode": "ExactCount", "count": 1,
                     "capacity": {"requests": {"memory": "10Gi"}}},
                    {"name": "any", "deviceClassName": "mig.nvidia.com"},
                ],
            }]}},
            "status": {"allocation": {
                "allocationTimestamp": "2026-10-01T00:00:00Z",
                "devices": {"results": [
                    {"driver": "gpu.nvidia.com", "pool": "node-a", "device": "gpu-0",
                     "request": "gpu/ten", "shareID": "4b1f7f3c-1b1e-4b0e-9d5a-1f1f2f3f4f5f",
                     "consumedCapacity": {"memory": "10Gi", "example.com/lanes": 2}},
                ], "config": [{"opaque": {"parameters": {"token": CANARY}}}]},
            }},
        }
    )  # fmt: skip
    (request,), (result,) = kept["requests"], kept["results"]
    assert [a["deviceClassName"] for a in request["firstAvailable"]] == [
        "gpu.nvidia.com", "mig.nvidia.com"]  # fmt: skip
    assert request["firstAvailable"][0]["capacity"] == {"memory": "10Gi"}
    assert kept["allocatedAt"] == "2026-10-01T00:00:00Z"
    assert result["shareID"] == "4b1f7f3c-1b1e-4b0e-9d5a-1f1f2f3f4f5f"
    assert result["consumedCapacity"] == {"example.com/lanes": "2", "memory": "10Gi"}
    assert CANARY not in json.dumps(kept)
    line = {"line": "object", "resource": "resourceclaims", "via": "added", "at": text(0),
            "position": 0, "object": kept}  # fmt: skip
    ((_, row),) = list(rows_of(line))
    assert row["share_id"] == "4b1f7f3c-1b1e-4b0e-9d5a-1f1f2f3f4f5f"
    assert dict(row["consumed_capacity"]) == {"example.com/lanes": "2", "memory": "10Gi"}


def sliced(device: dict[str, Any], counters: list[Any] | None = None) -> dict[str, Any]:
    return {
        "metadata": {"name": "s", "uid": "u"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "node-a",
            "pool": {"name": "node-a", "generation": 1},
            "devices": [device] if device else [],
            "sharedCounters": counters or [],
        },
    }


SHARED_DEVICE = {
    "name": "gpu-0",
    "allowMultipleAllocations": True,
    "attributes": {
        "productName": {"string": "NVIDIA A100-SXM4-40GB"},
        "driverVersion": {"version": "580.65.6"},
        "minor": {"int": 0},
        "example.com/ready": {"bool": True},
    },
    "capacity": {
        "memory": {
            "value": "40Gi",
            "requestPolicy": {"default": "10Gi",
                              "validRange": {"min": "5Gi", "max": "40Gi", "step": "5Gi"}},
        },
        "lanes": {"value": "8", "requestPolicy": {"default": "1", "validValues": ["1", "2", 4]}},
    },
    "consumesCounters": [
        {"counterSet": "gpu-0-counter-set", "counters": {"memory-slice-0": {"value": "1"}}}
    ],
    "taints": [
        {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoExecute",
         "timeAdded": "2026-10-01T00:00:00Z"},
    ],
}  # fmt: skip


def test_a_device_keeps_its_sharing_partitions_and_taints() -> None:
    kept = observe.resource_slice(sliced(SHARED_DEVICE))
    (device,) = kept["devices"]
    assert device["attributes"] == {
        "driverVersion": "580.65.6",
        "example.com/ready": "true",
        "minor": "0",
        "productName": "NVIDIA A100-SXM4-40GB",
    }
    assert device["allowMultipleAllocations"] is True
    assert device["capacity"] == {
        "lanes": {"value": "8",
                  "requestPolicy": {"default": "1", "validValues": ["1", "2", "4"],
                                    "validRange": {}}},
        "memory": {"value": "40Gi",
                   "requestPolicy": {"default": "10Gi", "validValues": [],
                                     "validRange": {"min": "5Gi", "max": "40Gi", "step": "5Gi"}}},
    }  # fmt: skip
    assert device["consumesCounters"] == [
        {"counterSet": "gpu-0-counter-set", "counters": {"memory-slice-0": "1"}}
    ]
    assert device["taints"] == SHARED_DEVICE["taints"]
    line = {"line": "object", "resource": "resourceslices", "via": "added", "at": text(0),
            "position": 0, "object": kept}  # fmt: skip
    ((table, row),) = list(rows_of(line))
    assert (table, row["memory"], row["tainted"]) == ("slice_devices", "40Gi", True)
    assert row["allows_multiple_allocations"] is True
    assert dict(row["capacity"]) == {"lanes": "8", "memory": "40Gi"}


def test_a_slice_of_shared_counters_keeps_them() -> None:
    """Since Kubernetes 1.35, counters and devices are in separate slices."""
    counters = [{"name": "gpu-0-counter-set", "counters": {"memory-slice-0": {"value": "1"}}}]
    kept = observe.resource_slice(sliced({}, counters))
    assert kept["sharedCounters"] == [
        {"name": "gpu-0-counter-set", "counters": {"memory-slice-0": "1"}}
    ]


def test_a_taint_without_effect_does_not_withdraw_the_device() -> None:
    taints = [{"key": "gpu.nvidia.com/unmonitored", "effect": "None"}]
    kept = observe.resource_slice(sliced(SHARED_DEVICE | {"taints": taints}))
    line = {"line": "object", "resource": "resourceslices", "via": "added", "at": text(0),
            "position": 0, "object": kept}  # fmt: skip
    ((_, row),) = list(rows_of(line))
    assert row["tainted"] is False


# --- objects of a real control plane -------------------------------------------------------------


def real_pods() -> dict[str, dict[str, Any]]:
    items = json.loads(shared_text("control-plane/objects.json"))["items"]
    return {i["metadata"]["name"]: observe.pod(i) for i in items if i["kind"] == "Pod"}


def test_real_pods_have_the_times_of_scheduler_and_kubelet() -> None:
    pods = real_pods()
    times = {}
    for name, projection in pods.items():
        facts = read_facts(projection)
        times[name] = (facts.bound_at[11:19], facts.started_at[11:19], facts.ended_at[11:19])
    assert times["toolarge"] == ("", "", "")
    assert times["train-7749487fbd-pzpdz"] == ("08:47:20", "08:47:48", "")
    assert times["done-l6r8k"] == ("08:53:12", "08:53:50", "08:53:50")
    assert times["inits"] == ("08:53:12", "08:53:21", "")  # evicted, without a time in its status
    assert times["inits2"] == ("08:54:27", "08:54:28", "")


def test_a_real_pods_effective_request_equals_the_schedulers() -> None:
    """init 2, sidecar 1, main 1 → 2, as in the metric of the real scheduler."""
    spec = real_pods()["inits2"]["spec"]
    wrapped = {
        kind: [
            {"resources": {"requests": c["requests"]}, "restartPolicy": c.get("restartPolicy")}
            for c in spec[kind]
        ]
        for kind in ("containers", "initContainers")
    }
    assert effective_request_of_pod(wrapped, may_be_a_device) == {
        "nvidia.com/gpu": 2,
        "nvidia.com/mig-1g.24gb-me": 1,
        "nvidia.com/mig-1g.24gb.me": 1,
    }
