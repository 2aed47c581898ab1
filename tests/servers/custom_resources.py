"""Custom resource definitions for manifests, from the Go modules of their projects.

Put here: file and module of each definition, and applying it.
Not here: objects of these kinds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import yaml

from tests.servers.control_plane import ControlPlane
from tests.servers.process import missing, wait_for

PROMETHEUS_OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.94.1"
OPENSHIFT = "github.com/openshift/api@v0.0.0-20251214014457-bfa868a22401"
SUMS = {
    PROMETHEUS_OPERATOR: "h1:QEIb2wenPH+SdMN1xMf8l4Pmj00YYXXI6HlbLlQWkww=",
    OPENSHIFT: "h1:goMf6pBtRFSQaVElFk6K+GIAqnv7O84p7PJHH6pDz/E=",
}
MONITORING = "example/prometheus-operator-crd/monitoring.coreos.com"
SECURITY = "security/v1/zz_generated.crd-manifests/0000_03_config-operator_01"


def prometheus_operator(folder: Path) -> list[Path]:
    """The files that define ServiceMonitor and PrometheusRule."""
    names = ("servicemonitors", "prometheusrules")
    return _files(folder, PROMETHEUS_OPERATOR, [f"{MONITORING}_{name}.yaml" for name in names])


def alertmanager_config(folder: Path) -> list[Path]:
    """The file that defines AlertmanagerConfig, also in the version v1beta1."""
    full = MONITORING.replace("operator-crd", "operator-crd-full")
    return _files(folder, PROMETHEUS_OPERATOR, [f"{full}_alertmanagerconfigs.yaml"])


def security_context_constraints(folder: Path) -> list[Path]:
    """The file that defines OpenShift's SecurityContextConstraints."""
    return _files(folder, OPENSHIFT, [f"{SECURITY}_securitycontextconstraints.crd.yaml"])


def routes(folder: Path) -> list[Path]:
    """The file that defines OpenShift's Route."""
    return _files(folder, OPENSHIFT, ["route/v1/zz_generated.crd-manifests/routes.crd.yaml"])


def define_gpu_budgets(plane: ControlPlane) -> None:
    """Apply the definition of our own resource, and wait until the server serves it."""
    file = Path(__file__).parents[2] / "deploy" / "budgets" / "definition.yaml"
    definition = yaml.safe_load(file.read_text(encoding="utf-8"))
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    with plane.client() as admin:
        assert admin.post(path, json=definition).status_code == 201
        served = "/apis/gpu-ledger.io/v1/gpubudgets"
        wait_for(lambda: admin.get(served).status_code == 200, "the definition of GpuBudgets")


def _files(folder: Path, module: str, names: list[str]) -> list[Path]:
    if shutil.which("go") is None:
        missing("Go is not here: it downloads the definitions of custom resources")
    (folder / "go.mod").write_text("module definitions\n\ngo 1.24\n")
    command = ["go", "mod", "download", "-json", module]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if ran.returncode:
        missing(f"{module} cannot be downloaded: {ran.stderr[-300:]}")
    found = json.loads(ran.stdout)
    assert found["Sum"] == SUMS[module]
    return [Path(found["Dir"]) / name for name in names]
