"""`gpu-ledger init` writes files for clusters and hubs, and changes no existing file.

Put here: the names and contents of the files.
Not here: servers that apply them (`tests/servers`), each object (`test_acm`,
`test_collector_manifests`).
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from orchestration.cli.init import init
from orchestration.images import GPU_OPERATORS
from tests.release.image_context import components

CLUSTER_ID = "6f1c1f0a-0b5e-4d7c-9d3a-0c9b6a3e2f11"


DEPLOY = Path(__file__).parents[2] / "deploy"


def written(folder: Path, *options: str) -> str:
    ran = CliRunner().invoke(init, [str(folder), *options], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.output


def objects(path: Path) -> dict[str, dict[str, Any]]:
    return {d["kind"]: d for d in yaml.safe_load_all(path.read_text(encoding="utf-8"))}


def test_a_collector_is_written_with_its_cluster_and_bucket(
    tmp_path: Path,
) -> None:
    options = ("--journal", "s3://spool/prod", "--namespace", "metering", "--api-port", "443")
    written(tmp_path, "--collector", CLUSTER_ID, "--image", "mirror.example/l:1", *options)
    found = objects(tmp_path / f"deploy/collector-{CLUSTER_ID}.yaml")
    [container] = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "mirror.example/l:1"
    assert container["args"][:2] == ["collect", CLUSTER_ID]
    region = {"configMapRef": {"name": "gpu-ledger-journal", "optional": True}}
    assert container["envFrom"] == [region]
    volumes = found["Deployment"]["spec"]["template"]["spec"]["volumes"]
    keys = {"secretName": "gpu-ledger-journal", "optional": True}
    assert {"name": "bucket", "secret": keys} in volumes
    assert found["Deployment"]["metadata"]["namespace"] == "metering"
    assert "PersistentVolumeClaim" not in found
    config = tomllib.loads(found["ConfigMap"]["data"]["config.toml"])
    assert config["clusters"][CLUSTER_ID]["kubernetes"]["journal"] == "s3://spool/prod"


def test_without_a_bucket_a_volume_is_claimed_and_no_secret_mounted(
    tmp_path: Path,
) -> None:
    written(tmp_path, "--collector", CLUSTER_ID)
    found = objects(tmp_path / f"deploy/collector-{CLUSTER_ID}.yaml")
    assert "PersistentVolumeClaim" in found
    [container] = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert "envFrom" not in container
    assert container["image"].startswith("registry.example.com/gpu-ledger/collector:")


def test_without_an_image_the_remedy_names_the_placeholder(tmp_path: Path) -> None:
    said = written(tmp_path, "--collector", CLUSTER_ID)
    assert "No --image: replace registry.example.com/gpu-ledger/collector:" in said
    assert "No --image" not in written(tmp_path / "b", "--collector", CLUSTER_ID, "--image", "a/b")
    assert "No --image" not in written(tmp_path / "c")


def test_the_bucket_endpoint_is_allowed_and_has_no_password(tmp_path: Path) -> None:
    options = ("--collector", CLUSTER_ID, "--journal", "s3://spool/prod")
    written(tmp_path, *options, "--journal-endpoint", "https://minio.storage.svc:9000")
    found = objects(tmp_path / f"deploy/collector-{CLUSTER_ID}.yaml")
    egress = found["NetworkPolicy"]["spec"]["egress"]
    assert 9000 in {port["port"] for port in egress[0]["ports"]}
    refused = CliRunner().invoke(
        init, [str(tmp_path / "b"), *options, "--journal-endpoint", "https://u:canary@minio:9000"]
    )
    assert refused.exit_code == 2
    assert "canary" not in refused.output
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("options", "wanting"),
    [
        (("--journal", "s3://spool/prod"), "--collector CLUSTER_ID"),
        (("--journal-endpoint", "https://minio:9000"), "--collector CLUSTER_ID"),
        (("--from-acm", "--managed-cluster", "a", "--image", "a/b"), "--collector CLUSTER_ID"),
        (("--api-port", "6443"), "--collector CLUSTER_ID"),
        (("--openshift",), "--collector CLUSTER_ID"),
        (("--namespace", "metering"), "--collector CLUSTER_ID"),
        (("--collector", CLUSTER_ID, "--managed-cluster", "prod-us"), "--from-acm"),
    ],
)
def test_options_without_a_file_to_write_are_refused_first(
    tmp_path: Path, options: tuple[str, ...], wanting: str
) -> None:
    refused = CliRunner().invoke(init, [str(tmp_path / "home"), *options])
    assert refused.exit_code == 2
    words = " ".join(refused.output.replace("│", "").split())
    assert f"has no effect without {wanting}" in words
    assert not (tmp_path / "home").exists()


def test_an_endpoint_of_the_environment_is_not_used_for_collectors(tmp_path: Path) -> None:
    endpoint = {"AWS_ENDPOINT_URL": "https://minio:9000"}
    ran = CliRunner().invoke(init, [str(tmp_path / "home")], env=endpoint)
    assert ran.exit_code == 0, ran.output


def test_a_bucket_with_a_password_is_refused(tmp_path: Path) -> None:
    options = ("--collector", CLUSTER_ID, "--journal", "s3://u:canary@spool")
    refused = CliRunner().invoke(init, [str(tmp_path / "home"), *options])
    assert refused.exit_code == 2
    assert "canary" not in refused.output
    assert not (tmp_path / "home").exists()


def test_a_hub_gets_its_allowlist_reader_and_cluster_policy(tmp_path: Path) -> None:
    written(tmp_path, "--from-acm", "--managed-cluster", "prod-us")
    decided = tmp_path / "decisions/clusters.csv"
    row = "c1,prod-eu,2026-10-01T00:00:00Z,,both,300,30,measured,A Person,2026-09-30,\n"
    decided.write_text(decided.read_text(encoding="utf-8") + row, encoding="utf-8")
    (tmp_path / "deploy/acm/2-hub-reader.yaml").unlink()
    written(tmp_path, "--from-acm", "--managed-cluster", "prod-us")
    reader = objects(tmp_path / "deploy/acm/2-hub-reader.yaml")
    assert reader["ClusterRole"]["rules"][0]["resourceNames"] == ["prod-eu", "prod-us"]
    listed = objects(tmp_path / "deploy/acm/1-hub-allowlist.yaml")["ConfigMap"]
    assert "kube_pod_status_phase" in listed["data"]["metrics_list.yaml"]
    policy = objects(tmp_path / "deploy/acm/3-every-cluster-admission-policy.yaml")
    assert "ValidatingAdmissionPolicyBinding" in policy


def test_pod_labels_of_the_home_are_set_for_hub_and_collector(
    tmp_path: Path,
) -> None:
    written(tmp_path)
    (tmp_path / "config.toml").write_text('[pull]\npod_labels = ["team", "x.io/cost"]\n', "utf-8")
    written(tmp_path, "--from-acm", "--managed-cluster", "prod-us", "--collector", CLUSTER_ID)
    listed = objects(tmp_path / "deploy/acm/1-hub-allowlist.yaml")["ConfigMap"]
    assert "- kube_pod_labels\n" in listed["data"]["metrics_list.yaml"]
    collector = objects(tmp_path / f"deploy/collector-{CLUSTER_ID}.yaml")["ConfigMap"]
    config = tomllib.loads(collector["data"]["config.toml"])
    assert config["pull"] == {"pod_labels": ["team", "x.io/cost"]}


def test_a_manually_changed_manifest_is_kept_and_named(tmp_path: Path) -> None:
    written(tmp_path, "--collector", CLUSTER_ID)
    path = tmp_path / f"deploy/collector-{CLUSTER_ID}.yaml"
    path.write_text("mine\n", encoding="utf-8")
    output = written(tmp_path, "--collector", CLUSTER_ID)
    assert path.read_text(encoding="utf-8") == "mine\n"
    assert f"{path}: exists, unchanged" in output


def test_a_mirror_lists_every_image_of_the_manifests(tmp_path: Path) -> None:
    written(tmp_path, "--mirror", "registry.example.com:5000/m/")
    listed = (tmp_path / "deploy/mirror/images.txt").read_text(encoding="utf-8")
    for component in components():
        assert f"registry.example.com:5000/m/gpu-ledger/{component}:0.1.0\n" in listed
    named = {
        f"{image['newName']}:{image['newTag']}"
        for path in DEPLOY.rglob("kustomization.yaml")
        for image in yaml.safe_load(path.read_text(encoding="utf-8")).get("images", [])
        if "newName" in image and not image["newName"].startswith("gpu-ledger/")
    }
    assert named
    assert all(image in listed for image in named)
    sets = list(yaml.safe_load_all((tmp_path / "deploy/mirror/mirror-sets.yaml").read_text()))
    assert [one["kind"] for one in sets] == ["ImageTagMirrorSet", "ImageDigestMirrorSet"]
    sources = {entry["source"] for entry in sets[0]["spec"]["imageTagMirrors"]}
    page = (DEPLOY.parent / "docs/how-to/run-on-kubernetes.md").read_text(encoding="utf-8")
    for image in GPU_OPERATORS:
        assert f"# {image} registry.example.com:5000/m/{image.partition('/')[2]}\n" in listed
        assert f"`{image}`" in page
    assert all(
        any(image.startswith(f"{source}/") for source in sources)
        for image in (*named, *GPU_OPERATORS)
    )
    refused = CliRunner().invoke(init, [str(tmp_path / "b"), "--mirror", "https://x"])
    assert refused.exit_code == 2
