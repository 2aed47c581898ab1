"""Samples, journal and facts use the same definition of a device.

Put here: resource names of vendors' device plugins, and each place that selects devices.
Not here: the class of each device (`test_gpu_classify_*`).
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
    """The resource as kube-state-metrics writes it."""
    return re.sub(r"[^A-Za-z0-9_]", "_", resource)


def is_sampled(resource: str) -> bool:
    """Whether the regular expression matches the whole value, as in Prometheus."""
    return not re.fullmatch(NATIVE_RESOURCES, in_samples(resource))


def is_journalled(resource: str) -> bool:
    """Whether a pod that requests it and a node that offers it are recorded."""
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
def test_a_device_is_sampled_journalled_and_counted(resource: str) -> None:
    assert is_sampled(resource)
    assert is_journalled(resource)
    assert may_be_a_device(resource)
    assert may_be_a_device(in_samples(resource))


@pytest.mark.parametrize("resource", NOT_DEVICES)
def test_another_extended_resource_is_neither_journalled_nor_counted(resource: str) -> None:
    """It is sampled, because the list of device names is open, but it is not counted."""
    assert is_sampled(resource)
    assert not is_journalled(resource)
    assert not may_be_a_device(resource)
    assert not may_be_a_device(in_samples(resource))


@pytest.mark.parametrize("resource", NATIVE)
def test_a_native_resource_is_nowhere(resource: str) -> None:
    assert not is_sampled(resource)
    assert not is_journalled(resource)
    assert not may_be_a_device(resource)


@pytest.mark.parametrize("resource", NOT_YET_COUNTED)
def test_a_device_without_a_product_is_reported_as_unknown(resource: str) -> None:
    """An unknown device blocks a close; otherwise it would be free."""
    catalogue = parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles"), "")
    for name in (resource, in_samples(resource)):
        found = classify(name, {}, catalogue)
        assert isinstance(found, Unclassified)
        assert found.reason is Reason.UNKNOWN_RESOURCE


def test_every_query_of_device_counts_uses_the_same_selector() -> None:
    asked = {e.metric for e in ALLOCATION_ENTRIES if NATIVE_RESOURCES in e.matchers}
    assert asked == {
        *("kube_pod_container_resource_requests", "kube_pod_init_container_resource_requests"),
        *("kube_node_status_capacity", "kube_node_status_allocatable"),
        "kube_pod_resource_request",
    }


def test_node_labels_of_every_vendor_are_kept() -> None:
    labels = {f"{domain}/product": "x" for domain in DEVICE_DOMAINS}
    node = {"metadata": {"name": "n", "labels": labels | {"example.com/product": "x"}}}
    assert observe.node(node)["metadata"]["labels"] == labels
    assert set(VENDOR_DOMAINS) < set(DEVICE_DOMAINS)
