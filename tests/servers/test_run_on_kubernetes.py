"""The page for Kubernetes, followed on a real control plane with its controllers.

Put here: the page's files and commands as they stand, and the pods that come of them.
Not here: each manifest alone (`test_deployment`). There is no kubelet: no container runs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from tests.how_to import of
from tests.servers.control_plane import control_plane, controller_manager
from tests.servers.process import required, wait_for

pytestmark = pytest.mark.servers

DEPLOY = Path(__file__).parents[2] / "deploy"
PAGE = "how-to/run-on-kubernetes.md"
REGISTRY = "registry.example.com/gpu-ledger"


def test_the_page_installs_pods_that_are_admitted(tmp_path: Path) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    (tmp_path / "my-ledger").mkdir()
    [kustomization], [config] = of(PAGE, "yaml"), of(PAGE, "toml")
    (tmp_path / "my-ledger" / "kustomization.yaml").write_text(kustomization)
    (tmp_path / "my-ledger" / "config.toml").write_text(config)
    (tmp_path / "thanos-token").write_text("token\n")
    certificate, key = Authority(tmp_path).issue("portal.gpu-ledger.svc", folder=tmp_path)
    for made, name in ((certificate, "tls.crt"), (key, "tls.key")):
        if made.name != name:
            shutil.copy(made, tmp_path / name)
    [install] = [text for text in of(PAGE, "sh") if "-k my-ledger" in text]

    with (
        control_plane(tmp_path / "plane", disabled_plugins="ServiceAccount") as plane,
        controller_manager(plane, tmp_path / "controllers"),
    ):
        environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
        environment["PATH"] = f"{required('kubectl').parent}:{environment['PATH']}"

        def run(script: str) -> str:
            command = ["bash", "-euo", "pipefail", "-c", script]
            ran = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True
            )
            assert ran.returncode == 0, ran.stdout + ran.stderr
            return ran.stdout

        def listed(kinds: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = json.loads(
                run(f"kubectl -n gpu-ledger get {kinds} -o json")
            )["items"]
            return found

        run(install)
        run(install.splitlines()[-1])  # applying again changes nothing
        # Admission takes the pod of every workload: pod security, limits, priorities.
        wait_for(lambda: len(listed("pods")) == 3, "a pod of each workload")
        pods = {pod["metadata"]["name"].partition("-")[0]: pod["spec"] for pod in listed("pods")}
        assert set(pods) == {"ledger", "portal", "postgresql"}
        images = {name: pod["containers"][0]["image"] for name, pod in pods.items()}
        assert images["ledger"] == f"{REGISTRY}/ledger:0.1.0"
        assert images["portal"] == f"{REGISTRY}/portal:0.1.0"

        # A kubelet finds all that they mount.
        there = {(one["kind"], one["metadata"]["name"]) for one in listed("secrets,configmaps,pvc")}
        for name, pod in pods.items():
            for volume in pod["volumes"]:
                mounted = {
                    ("Secret", volume.get("secret", {}).get("secretName")),
                    ("ConfigMap", volume.get("configMap", {}).get("name")),
                    (
                        "PersistentVolumeClaim",
                        volume.get("persistentVolumeClaim", {}).get("claimName"),
                    ),
                }
                is_optional = any(
                    volume.get(kind, {}).get("optional") for kind in ("secret", "configMap")
                )
                wanted = {(kind, named) for kind, named in mounted if named}
                assert is_optional or wanted <= there, f"{name}: {volume}"
        [settings] = [
            one
            for one in listed("configmaps")
            if one["metadata"]["name"].startswith("gpu-ledger-config")
        ]
        assert settings["data"]["config.toml"] == config
