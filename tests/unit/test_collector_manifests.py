"""Manifests of a collector: read access only, and the strictest pod security."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from ingestion.kubernetes.collector_manifests import (
    GROUP,
    HEALTH_PORT,
    CollectorPlace,
    collector_manifests,
)
from ingestion.kubernetes.watched_resources import OWNER_PLURALS, PATHS

CLUSTER_ID = "6f1c1f0a-0b5e-4d7c-9d3a-0c9b6a3e2f11"


def objects(**parts: Any) -> dict[str, dict[str, Any]]:
    text = collector_manifests(CollectorPlace(CLUSTER_ID, **parts))
    return {d["kind"]: d for d in yaml.safe_load_all(text)}


def test_the_manifests_are_complete_and_deterministic() -> None:
    assert list(objects()) == [
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "PersistentVolumeClaim",
        "NetworkPolicy",
        "Deployment",
    ]
    place = CollectorPlace(CLUSTER_ID)
    assert collector_manifests(place) == collector_manifests(place)


def test_the_role_allows_exactly_the_reads_of_the_collector() -> None:
    allowed: dict[tuple[str, str], set[str]] = {}
    for rule in objects()["ClusterRole"]["rules"]:
        assert set(rule) == {"apiGroups", "resources", "verbs"}
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                allowed[group, resource] = set(rule["verbs"])
    reading = {"get", "list", "watch"}
    assert allowed == {
        ("", "pods"): reading,
        ("", "nodes"): reading,
        ("", "namespaces"): reading,
        ("", "resourcequotas"): reading,
        ("gpu-ledger.io", "gpubudgets"): reading,
        ("resource.k8s.io", "resourceclaims"): reading,
        ("resource.k8s.io", "resourceslices"): reading,
    } | {(group, plural): {"get"} for (group, _), plural in OWNER_PLURALS.items()}
    assert len(allowed) == len(PATHS) + len(OWNER_PLURALS)
    assert allowed["apps", "replicasets"] == allowed["serving.kserve.io", "inferenceservices"]
    assert not {resource for _, resource in allowed} & {"secrets", "*"}


def test_the_binding_gives_the_role_to_this_account_alone() -> None:
    made = objects(namespace="billing")
    binding, account = made["ClusterRoleBinding"], made["ServiceAccount"]
    assert binding["roleRef"]["name"] == made["ClusterRole"]["metadata"]["name"]
    assert binding["subjects"] == [
        {
            "kind": "ServiceAccount",
            "name": account["metadata"]["name"],
            "namespace": "billing",
        }
    ]


def test_pod_meets_the_restricted_pod_security_standard() -> None:
    """Every rule of the standard that applies to a pod without exceptions."""
    made = objects()
    labels = made["Namespace"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    spec = made["Deployment"]["spec"]["template"]["spec"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    allowed = {"configMap", "emptyDir", "persistentVolumeClaim", "projected"}
    assert all(volume.keys() - {"name"} <= allowed for volume in spec["volumes"])
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["readOnlyRootFilesystem"] is True
        assert all("hostPort" not in port for port in container["ports"])
        assert "env" not in container
        assert "limits" in container["resources"]


def test_memory_request_equals_the_measured_need() -> None:
    """It includes the 50 MiB of lines that may wait in memory while the store refuses them."""
    page = Path(__file__).parents[2] / "docs/explanation/performance.md"
    row = re.search(r"peak memory of the process \| (\d+) MiB", page.read_text(encoding="utf-8"))
    assert row is not None
    [container] = objects()["Deployment"]["spec"]["template"]["spec"]["containers"]
    asked, allowed = (
        int(container["resources"][how]["memory"].removesuffix("Mi"))
        for how in ("requests", "limits")
    )
    assert int(row[1]) + 50 <= asked < allowed


def test_the_token_is_short_lived_and_mounted_once() -> None:
    made = objects()
    spec = made["Deployment"]["spec"]["template"]["spec"]
    assert made["ServiceAccount"]["automountServiceAccountToken"] is False
    assert spec["automountServiceAccountToken"] is False
    sources = next(v for v in spec["volumes"] if v["name"] == "api-access")["projected"]["sources"]
    assert sources[0]["serviceAccountToken"]["expirationSeconds"] <= 3600


def test_network_policy_allows_probes_in_and_api_and_dns_out() -> None:
    made = objects(api_port=6443)
    policy = made["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == [{"ports": [{"port": HEALTH_PORT, "protocol": "TCP"}]}]
    assert {p["port"] for rule in policy["egress"] for p in rule["ports"]} == {443, 6443, 53, 5353}
    pod_labels = made["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= pod_labels.items()


@pytest.mark.parametrize(
    ("endpoint", "ports"),
    [
        ("", {443, 6443}),
        ("https://minio.storage.svc:9000", {443, 6443, 9000}),
        ("http://minio.storage.svc", {80, 443, 6443}),
        ("https://objects.example.com", {443, 6443}),
    ],
)
def test_network_policy_allows_the_port_of_the_bucket_endpoint(
    endpoint: str, ports: set[int]
) -> None:
    made = objects(journal="s3://spool/prod-us", endpoint=endpoint)
    egress = made["NetworkPolicy"]["spec"]["egress"]
    assert {p["port"] for p in egress[0]["ports"]} == ports
    [container] = made["Deployment"]["spec"]["template"]["spec"]["containers"]
    values = {one["name"]: one["value"] for one in container["env"]}
    keys_file = values.pop("AWS_SHARED_CREDENTIALS_FILE")
    assert values == ({"AWS_ENDPOINT_URL": endpoint} if endpoint else {})
    folder = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}["bucket"]
    assert keys_file == f"{folder}/credentials"


def test_the_bucket_endpoint_is_ignored_without_a_bucket() -> None:
    assert objects(endpoint="https://minio.storage.svc:9000") == objects()


def test_on_openshift_the_manifests_set_no_volume_group() -> None:
    """Its restricted rules refuse a group that does not belong to the namespace."""
    plain, own = (
        made["Deployment"]["spec"]["template"]["spec"]["securityContext"]
        for made in (objects(), objects(is_openshift=True))
    )
    assert plain.pop("fsGroup") == GROUP
    assert plain.pop("fsGroupChangePolicy") == "OnRootMismatch"
    assert plain == own


def test_the_configuration_names_the_cluster_and_files_and_no_secret() -> None:
    config = tomllib.loads(objects()["ConfigMap"]["data"]["config.toml"])
    kubernetes = config["clusters"][CLUSTER_ID]["kubernetes"]
    assert kubernetes == {
        "url": "https://kubernetes.default.svc",
        "token_file": "/var/run/secrets/gpu-ledger/token",
        "ca_file": "/var/run/secrets/gpu-ledger/ca.crt",
    }


def test_configured_files_equal_mounted_files() -> None:
    spec = objects()["Deployment"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    assert mounts["api-access"] == "/var/run/secrets/gpu-ledger"
    assert set(mounts) == {volume["name"] for volume in spec["volumes"]}
    home = container["args"][container["args"].index("--home") + 1]
    assert mounts["config"] == f"{home}/config.toml"
    assert mounts["journal"] == f"{home}/journal"


def test_with_a_bucket_there_is_no_volume() -> None:
    made = objects(journal="s3://gpu-ledger-spool/prod-us")
    assert "PersistentVolumeClaim" not in made
    config = tomllib.loads(made["ConfigMap"]["data"]["config.toml"])
    assert (
        config["clusters"][CLUSTER_ID]["kubernetes"]["journal"] == "s3://gpu-ledger-spool/prod-us"
    )


@pytest.mark.parametrize("word", ["secrets", "pods/exec", "'*'", "create", "delete", "patch"])
def test_the_role_lacks_dangerous_permissions(word: str) -> None:
    rules = yaml.safe_dump(objects()["ClusterRole"]["rules"])
    assert word not in rules
