"""What counts as a device is one question: the samples, the journal and the count answer it alike.

Put here: names of resources as vendors' device plugins give them, and each place that chooses.
Not here: what each device is (`test_gpu_classify_*`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from domain.gpu import Reason, Unclassified, classify, may_be_a_device, parse_catalogue
from domain.gpu.names import DEVICE_DOMAINS, VENDOR_DOMAINS
from ingestion.kubernetes import projections as observe
from ingestion.kubernetes.journal_lines import object_line
from ingestion.kubernetes.lifecycle_rows import rows_of
from ingestion.metric_catalogue import ALLOCATION_ENTRIES, NATIVE_RESOURCES
from warehouse.project import seed_text

COUNTED = (
    "nvidia.com/gpu",
    "nvidia.com/mig-1g.5gb",
    "nvidia.com/GH100_H100_SXM5_80GB",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "habana.ai/gaudi",
)
NOT_YET_COUNTED = (
    "aliyun.com/gpu-mem",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "cambricon.com/mlu370",
    "cloud-tpus.google.com/v3",
    "enflame.com/gcu",
    "furiosa.ai/rngd",
    "furiosa.ai/warboy",
    "google.com/tpu",
    "huawei.com/Ascend910",
    "huawei.com/npu-core",
    "hygon.com/dcunum",
    "npu.intel.com/accel",
    "qualcomm.com/qaic",
    "rebellions.ai/ATOM",
    "tenstorrent.com/n300",
)
NOT_DEVICES = (
    "devices.kubevirt.io/kvm",
    "example.com/licence",
    "rdma/hca_shared_devices_a",
    "vpc.amazonaws.com/pod-eni",
)
NATIVE = (
    *("cpu", "memory", "pods", "storage", "ephemeral-storage"),
    *("hugepages-2Mi", "attachable-volumes-aws-ebs"),
)


def in_samples(resource: str) -> str:
    """As kube-state-metrics writes it."""
    return re.sub(r"[^A-Za-z0-9_]", "_", resource)


def is_sampled(resource: str) -> bool:
    """A Prometheus matches the whole value, or not at all."""
    return not re.fullmatch(NATIVE_RESOURCES, in_samples(resource))


def is_journalled(resource: str) -> bool:
    """Of a pod that asks for it, and of a node that has it."""
    asking = {"name": "main", "resources": {"requests": {resource: "1"}}}
    of_pod = observe.matters({"spec": {"containers": [asking]}})
    assert of_pod is (resource in of_node(resource))
    return of_pod


def of_node(resource: str) -> set[str]:
    offered = {"capacity": {resource: "2", "cpu": "64"}, "allocatable": {resource: "2"}}
    node: dict[str, Any] = {"metadata": {"name": "n", "uid": "u"}, "status": offered}
    line = object_line("nodes", "list", datetime(2026, 10, 1, tzinfo=UTC), observe.node(node))
    rows = rows_of(line | {"position": 0}, b"", {})
    return {row["resource"] for table, row in rows if table == "node_resources"}


@pytest.mark.parametrize("resource", COUNTED + NOT_YET_COUNTED)
def test_a_device_is_sampled_journalled_and_looked_at(resource: str) -> None:
    assert is_sampled(resource)
    assert is_journalled(resource)
    assert may_be_a_device(resource)
    assert may_be_a_device(in_samples(resource))


@pytest.mark.parametrize("resource", NOT_DEVICES)
def test_what_is_no_device_is_one_in_neither(resource: str) -> None:
    """It is sampled, as nobody knows all names; but it counts for nothing."""
    assert is_sampled(resource)
    assert not is_journalled(resource)
    assert not may_be_a_device(resource)
    assert not may_be_a_device(in_samples(resource))


@pytest.mark.parametrize("resource", NATIVE)
def test_what_is_kubernetes_own_is_nowhere(resource: str) -> None:
    assert not is_sampled(resource)
    assert not is_journalled(resource)
    assert not may_be_a_device(resource)


@pytest.mark.parametrize("resource", NOT_YET_COUNTED)
def test_a_device_that_the_catalogue_cannot_name_is_said_to_be_unknown(resource: str) -> None:
    """So that it blocks a close, instead of being free."""
    catalogue = parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles"), "")
    for name in (resource, in_samples(resource)):
        found = classify(name, {}, catalogue)
        assert isinstance(found, Unclassified)
        assert found.reason is Reason.UNKNOWN_RESOURCE


def test_everything_that_counts_devices_is_asked_with_the_one_selector() -> None:
    asked = {e.metric for e in ALLOCATION_ENTRIES if NATIVE_RESOURCES in e.matchers}
    assert asked == {
        *("kube_pod_container_resource_requests", "kube_pod_init_container_resource_requests"),
        *("kube_node_status_capacity", "kube_node_status_allocatable"),
        "kube_pod_resource_request",
    }


def test_the_labels_of_every_vendor_are_kept_of_a_node() -> None:
    labels = {f"{domain}/product": "x" for domain in DEVICE_DOMAINS}
    node = {"metadata": {"name": "n", "labels": labels | {"example.com/product": "x"}}}
    assert observe.node(node)["metadata"]["labels"] == labels
    assert set(VENDOR_DOMAINS) < set(DEVICE_DOMAINS)
