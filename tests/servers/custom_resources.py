"""Definitions of custom resources that manifests need, from their projects' published Go modules.

Put here: which file of which module, and applying it.
Not here: objects of these kinds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tests.servers.process import missing

OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.94.1"
OPERATOR_SUM = "h1:QEIb2wenPH+SdMN1xMf8l4Pmj00YYXXI6HlbLlQWkww="
FOLDER = "example/prometheus-operator-crd"
NAMES = ("servicemonitors", "prometheusrules")


def prometheus_operator(folder: Path) -> list[Path]:
    """The files that define ServiceMonitor and PrometheusRule."""
    if shutil.which("go") is None:
        missing("Go is not here: it downloads the definitions of custom resources")
    (folder / "go.mod").write_text("module definitions\n\ngo 1.24\n")
    command = ["go", "mod", "download", "-json", OPERATOR]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if ran.returncode:
        missing(f"{OPERATOR} cannot be downloaded: {ran.stderr[-300:]}")
    found = json.loads(ran.stdout)
    assert found["Sum"] == OPERATOR_SUM
    place = Path(found["Dir"]) / FOLDER
    return [place / f"monitoring.coreos.com_{name}.yaml" for name in NAMES]
