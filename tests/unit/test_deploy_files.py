"""The files of `deploy/` are valid YAML, and some equal the output of a command.

Put here: checks without a server.
Not here: Kubernetes' validation (`tests/servers/test_deployment.py`).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ingestion.acm import allowlist
from ingestion.kubernetes.collector_manifests import CollectorPlace, collector_manifests

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = sorted(path.relative_to(DEPLOY).as_posix() for path in DEPLOY.rglob("*.yaml"))


@pytest.mark.parametrize("name", FILES)
def test_every_file_has_objects(name: str) -> None:
    documents = yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8"))
    assert all("apiVersion" in document or "spec" in document for document in documents if document)


def test_resources_of_containers_name_their_measurement_or_are_estimates() -> None:
    """The page of the collector has its sizes: its manifest is the output of a command."""
    for name in set(FILES) - {"collector/collector.yaml"}:
        text = (DEPLOY / name).read_text(encoding="utf-8")
        for above in re.findall(r"(.*)\n *resources:(?: &\w+)?\n *requests:\s*[{]?\s*cpu", text):
            assert re.search(r"# .*(MiB|GiB|Estimate|performance\.md)", above), f"{name}: {above}"


def test_the_collectors_base_equals_the_output_of_init() -> None:
    text = collector_manifests(CollectorPlace("CLUSTER-ID", "gpu-ledger-collector"))
    assert (DEPLOY / "collector" / "collector.yaml").read_text(encoding="utf-8") == text


def test_the_hubs_allowlist_equals_the_output_of_init() -> None:
    path = DEPLOY / "overlays" / "acm-hub" / "allowlist.yaml"
    assert path.read_text(encoding="utf-8") == allowlist()
