"""Manifests for an ACM hub forward every metric of the catalogue and remove none.

Put here: the manifests, parsed. Not here: a hub.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from ingestion.acm import (
    DEVICE_RESOURCES,
    FORWARDED_BY_DEFAULT,
    RAW_DEVICE_RESOURCES,
    admission_policy,
    allowlist,
    reader,
)
from ingestion.metric_catalogue import CATALOGUE


def forwarded() -> tuple[set[str], list[str]]:
    config_map = yaml.safe_load(allowlist())
    inner = yaml.safe_load(config_map["data"]["metrics_list.yaml"])
    return set(inner["names"]), inner["matches"]


def test_every_metric_of_the_catalogue_is_forwarded() -> None:
    names, matches = forwarded()
    for entry in CATALOGUE:
        listed = entry.metric in names | FORWARDED_BY_DEFAULT
        assert listed or any(f'"{entry.metric}"' in match for match in matches), entry.metric


def test_every_metric_of_a_dashboard_is_forwarded() -> None:
    """Those of the portal are scraped on the hub itself."""
    boards = Path(__file__).parents[2] / "deploy" / "dashboards" / "grafana"
    shown = {
        name
        for board in boards.glob("*.json")
        for panel in json.loads(board.read_text(encoding="utf-8"))["panels"]
        for target in panel["targets"]
        for name in re.findall(r"\b(?:DCGM|gpu|kube)_(?!ledger)\w+", target["expr"])
    }
    assert len(shown) > 30
    names, matches = forwarded()
    assert {
        name
        for name in shown
        if name not in names | FORWARDED_BY_DEFAULT and name not in str(matches)
    } == set()


def test_pod_labels_are_forwarded_only_if_the_settings_keep_some() -> None:
    assert "kube_pod_labels" not in forwarded()[0]
    inner = yaml.safe_load(allowlist(["team"]))["data"]["metrics_list.yaml"]
    assert "kube_pod_labels" in yaml.safe_load(inner)["names"]


def test_the_allowlist_has_no_duplicate_and_no_removal() -> None:
    names, _ = forwarded()
    assert not names & FORWARDED_BY_DEFAULT
    assert not [name for name in names if name.startswith("-")]


def test_requests_pass_the_filter_that_single_node_clusters_apply() -> None:
    """The metrics collector applies this expression and may drop the series that match it."""
    _, matches = forwarded()
    [requests] = [match for match in matches if "container_resource_requests" in match]
    assert re.search(r'__name__="([^,]*)"', requests) is None


def test_the_resources_of_known_vendors_match_in_both_spellings() -> None:
    for resource in ("nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "amd.com/gpu"):
        assert re.fullmatch(RAW_DEVICE_RESOURCES, resource)
        mangled = re.sub(r"[^a-zA-Z0-9_]", "_", resource)
        assert re.fullmatch(DEVICE_RESOURCES, mangled)
    assert not re.fullmatch(DEVICE_RESOURCES, "cpu")


def test_the_policy_denies_the_list_outside_the_hubs_namespaces() -> None:
    policy, binding = yaml.safe_load_all(admission_policy())
    assert policy["kind"] == "ValidatingAdmissionPolicy"
    assert (
        "observability-metrics-custom-allowlist"
        in policy["spec"]["matchConditions"][0]["expression"]
    )
    [rule] = policy["spec"]["validations"]
    allowed, *rest = rule["expression"].split(" || ")
    assert allowed == (
        "object.metadata.namespace in ['open-cluster-management-observability', "
        "'open-cluster-management-addon-observability']"
    )
    assert rest == ["!has(object.data)", "!('metrics_list.yaml' in object.data)"]
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]


def test_reader_reads_only_metrics_of_the_named_clusters() -> None:
    account, role, binding = yaml.safe_load_all(reader(["b", "a"]))
    assert role["rules"] == [
        {
            "apiGroups": ["cluster.open-cluster-management.io"],
            "resources": ["managedclusters"],
            "resourceNames": ["a", "b"],
            "verbs": ["metrics/*"],
        }
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == account["metadata"]["name"]
