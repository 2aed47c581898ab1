"""kube-state-metrics' lines of objects, compared with the real exporter's lines of the same
objects.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from fake_gpu.exporters.kube_state_metrics.forms import prometheus_labels, quantity, unit_of
from fake_gpu.exporters.kube_state_metrics.metric_families import AllowLists, exposition, families
from tests.shared_data import shared_text

# Families of later versions than the 2.15 that made the capture.
NEWER = {"kube_pod_resourceclaim_info"}
# The capture has lines of namespaces, but not the namespace objects.
NO_OBJECTS = {"kube_namespace_created", "kube_namespace_labels", "kube_namespace_status_phase"}
CATALOGUE = {
    "kube_pod_container_resource_requests",
    "kube_pod_container_resource_limits",
    "kube_pod_init_container_resource_requests",
    "kube_pod_init_container_info",
    "kube_pod_status_phase",
    "kube_pod_info",
    "kube_pod_owner",
    "kube_replicaset_owner",
    "kube_pod_container_state_started",
    "kube_pod_start_time",
    "kube_pod_completion_time",
    "kube_pod_deletion_timestamp",
    "kube_pod_status_scheduled_time",
    "kube_node_status_capacity",
    "kube_node_status_allocatable",
    "kube_node_status_condition",
    "kube_node_role",
    "kube_node_spec_unschedulable",
    "kube_resourcequota",
}


def _objects() -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(shared_text("control-plane/objects.json"))["items"]
    return items


def _rows(text: str, names: set[str]) -> Counter[str]:
    def name(row: str) -> str:
        return row.split(" ")[2] if row.startswith("# ") else row.partition("{")[0]

    return Counter(row for row in text.splitlines() if name(row) in names)


def test_every_family_of_real_objects_equals_the_real_exporters() -> None:
    shown = families(AllowLists((), (), ()))
    ours = exposition(_objects(), shown)
    names = {family.head.name for family in shown} - NEWER - NO_OBJECTS
    assert names >= CATALOGUE
    real = _rows(shared_text("control-plane/kube-state-metrics.prom"), names)
    assert len(real) > 400
    assert _rows(ours, names) == real


def test_the_families_have_the_help_texts_of_the_real_exporter() -> None:
    real = shared_text("control-plane/kube-state-metrics.prom")
    for family in families():
        if family.head.name not in NEWER:
            assert family.head.text() in real


def test_a_kind_without_objects_has_no_header() -> None:
    nodes = [item for item in _objects() if item["kind"] == "Node"]
    page = exposition(nodes)
    # A family of nodes without samples has a header; one of pods has none.
    assert "# TYPE kube_node_deletion_timestamp gauge" in page
    assert "kube_pod_" not in page
    assert exposition([]) == ""


def test_a_series_appears_twice_if_two_names_become_one() -> None:
    ours = exposition(_objects())
    twice = [
        row for row in ours.splitlines() if "nvidia_com_mig_1g_24gb_me" in row and "inits2" in row
    ]
    assert Counter(twice).most_common(1)[0][1] == 2


def test_node_labels_become_series_labels_and_conflicts_are_numbered() -> None:
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
        "nvidia.com/gpu-product": "other",
        "camelCase": "x",
        "nvidia.com/H100": "1",
    }
    assert dict(prometheus_labels("label", labels)) == {
        "label_camel_case": "x",
        "label_nvidia_com_h100": "1",
        "label_nvidia_com_gpu_product_conflict1": "other",
        "label_nvidia_com_gpu_product_conflict2": "NVIDIA-A100-SXM4-40GB",
    }


def test_labels_are_shown_by_allow_list_only() -> None:
    nodes = [item for item in _objects() if item["kind"] == "Node"]
    everything = exposition(nodes, families(AllowLists(nodes=("*",))))
    assert (
        'kube_node_labels{node="gpu-0",label_nvidia_com_gpu_product="NVIDIA-A100-SXM4-40GB",'
        'label_type="kwok"} 1' in everything
    )
    some = exposition(nodes, families(AllowLists(nodes=("type",))))
    assert 'kube_node_labels{node="gpu-0",label_type="kwok"} 1' in some
    none = exposition(nodes, families(AllowLists(nodes=())))
    assert "kube_node_labels{" not in none


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("110", 110),
        ("500m", 0.5),
        ("1k", 1000),
        ("512Gi", 549755813888),
        ("959786032Ki", 982820896768),
        ("1e3", 1000),
    ],
)
def test_quantities_are_parsed(text: str, number: float) -> None:
    assert quantity(text) == number


@pytest.mark.parametrize(
    ("resource", "unit"),
    [
        ("cpu", "core"),
        ("memory", "byte"),
        ("ephemeral-storage", "byte"),
        ("hugepages-2Mi", "byte"),
        ("pods", "integer"),
        ("nvidia.com/mig-1g.5gb.me", "integer"),
        ("kubernetes.io/batch", ""),
        ("gpu", ""),
    ],
)
def test_a_resource_has_its_unit_or_is_omitted(resource: str, unit: str) -> None:
    assert unit_of(resource) == unit
