"""The files of `deploy/` are YAML, and those that a command also writes are what it writes.

Put here: what needs no server.
Not here: what Kubernetes says of them (`tests/servers/test_deployment.py`).
"""

from __future__ import annotations

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


def test_the_collectors_base_is_what_init_writes() -> None:
    text = collector_manifests(CollectorPlace("CLUSTER-ID", "gpu-ledger-collector"))
    assert (DEPLOY / "collector" / "collector.yaml").read_text(encoding="utf-8") == text


def test_the_hubs_allowlist_is_what_init_writes() -> None:
    path = DEPLOY / "overlays" / "acm-hub" / "allowlist.yaml"
    assert path.read_text(encoding="utf-8") == allowlist()
