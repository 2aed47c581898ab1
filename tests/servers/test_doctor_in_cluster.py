"""`gpu-ledger doctor --in-cluster` on a real kube-apiserver: its patches repair the rights.

Put here: the command with the account of the ledger, before and after each patch.
Not here: storage, allowlist and routes (`tests/unit/test_deployment_checks`).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from orchestration.cli.main import cli
from tests.servers.control_plane import ControlPlane, control_plane
from tests.servers.process import required, wait_for
from warehouse.home import Home

pytestmark = pytest.mark.servers

DEPLOY = Path(__file__).parents[2] / "deploy"
LEDGER = "system:serviceaccount:gpu-ledger:ledger"
PARTS = ("overlays/kubernetes", "collector", "idle-pruner", "fake-gpu/overlays/kwok")
KINDS = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


@dataclass
class Site:
    plane: ControlPlane
    home: Path

    def kubectl(self, *arguments: str, given: str = "") -> str:
        command = [str(required("kubectl")), f"--kubeconfig={self.plane.kubeconfig()}", *arguments]
        ran = subprocess.run(command, input=given, capture_output=True, text=True)
        assert ran.returncode == 0, f"{arguments}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def apply(self, text: str) -> None:
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=text)

    def install(self) -> None:
        """The namespaces, accounts and rights of every component."""
        for part in PARTS:
            found = yaml.safe_load_all(self.kubectl("kustomize", str(DEPLOY / part)))
            self.apply("---\n".join(yaml.safe_dump(d) for d in found if d["kind"] in KINDS))

    def doctor(self, output: str) -> str:
        arguments = ["doctor", "--in-cluster", "--all", "-o", output, "--home", str(self.home)]
        path = self.home.parent / "kubeconfig"  # without a colon, which separates files
        path.write_bytes(self.plane.kubeconfig(LEDGER).read_bytes())
        return CliRunner().invoke(cli, arguments, env={"KUBECONFIG": str(path)}).stdout

    def lacking(self) -> set[str]:
        rows = self.lines().items()
        return {name for name, row in rows if name.startswith("rights") and not row["fine"]}

    def lines(self) -> dict[str, dict[str, Any]]:
        return {row["check"]: row for row in json.loads(self.doctor("json"))}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with control_plane(tmp_path_factory.mktemp("plane")) as plane:
        yield Site(plane, Home.create(tmp_path_factory.mktemp("site") / "home").path)


def test_the_doctor_asks_for_its_own_rights_and_then_names_what_is_missing(site: Site) -> None:
    refused = site.lines()["rights of portal"]
    assert not refused["fine"]
    site.apply(refused["patch"])
    wait_for(lambda: site.lines()["rights of portal"]["fine"], "the rights of the doctor")
    assert "not installed" in site.lines()["rights of portal"]["seen"]

    site.install()
    checks = ("ledger", "portal", "collector", "idle-pruner", "fake-gpus")
    wait_for(
        lambda: all("every right" in site.lines()[f"rights of {name}"]["seen"] for name in checks),
        "the rights of every component",
    )
    assert site.lines()["clocks agree"]["fine"]
    assert site.lines()["home can be written"]["fine"]

    site.kubectl("delete", "clusterrolebinding", "gpu-ledger-portal-reviews")
    rule = '[{"op": "replace", "path": "/rules/0/resources", "value": ["pods"]}]'
    site.kubectl("patch", "clusterrole", "gpu-ledger-collector", "--type=json", "-p", rule)
    site.kubectl("-n", "gpu-ledger-fake-gpus", "delete", "rolebinding", "fake-gpus")
    broken = {f"rights of {name}" for name in ("portal", "collector", "fake-gpus")}
    wait_for(lambda: site.lacking() == broken, "the missing rights")
    lines = site.lines()
    assert "create tokenreviews.authentication.k8s.io" in lines["rights of portal"]["seen"]
    assert "list nodes" in lines["rights of collector"]["seen"]

    shown = site.doctor("table")
    patch = shown[shown.index("# patch.yaml") :]
    site.apply(patch)
    wait_for(lambda: not site.lacking(), "the rights after the patch")
