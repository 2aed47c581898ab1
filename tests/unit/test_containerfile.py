"""The collector's image, as it is written: nothing builds one here.

Put here: what the file of the image and the manifests that name it must agree on.
Not here: the manifests themselves (`test_collector_manifests`), or installing the wheel
(`tests.release.clean_machine`).
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from ingestion.kubernetes.manifests import (
    GROUP,
    HEALTH_PORT,
    CollectorPlace,
    collector_manifests,
)
from orchestration.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy" / "Containerfile"


def instructions() -> list[tuple[str, str]]:
    """Each instruction and what follows it, with continued lines joined and comments left out."""
    text = re.sub(r"^\s*#.*\n", "", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    parts = [line.split(maxsplit=1) for line in lines if line.strip()]
    return [(word, rest.strip()) for word, rest in parts]


def last(word: str) -> str:
    return [rest for name, rest in instructions() if name == word][-1]


@pytest.fixture
def pod() -> dict[str, Any]:
    documents = yaml.safe_load_all(collector_manifests(CollectorPlace("c1")))
    [deployment] = [one for one in documents if one["kind"] == "Deployment"]
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return found


def test_its_user_is_a_number_that_is_not_root_with_the_group_of_the_volume(
    pod: dict[str, Any],
) -> None:
    """Where only a name stands, a cluster cannot see that it is not root, and refuses the pod."""
    user, _, group = last("USER").partition(":")
    assert int(user) > 0
    assert int(group) == GROUP == pod["securityContext"]["fsGroup"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert "runAsUser" not in pod["securityContext"]


def test_what_the_manifest_starts_is_what_the_image_has(pod: dict[str, Any]) -> None:
    [container] = pod["containers"]
    assert json.loads(last("ENTRYPOINT")) == ["gpu-ledger"]
    assert "command" not in container  # the image's own entry point, with these arguments
    assert container["args"][0] in COMMANDS
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "gpu-ledger" in project["scripts"]
    assert "PATH=/opt/gpu-ledger/bin:$PATH" in last("ENV")
    [port] = container["ports"]
    assert int(last("EXPOSE")) == HEALTH_PORT == port["containerPort"]


def test_nothing_but_the_journal_is_written(pod: dict[str, Any]) -> None:
    [container] = pod["containers"]
    home = last("WORKDIR")
    assert f"HOME={home}" in last("ENV")
    assert container["args"][container["args"].index("--home") + 1] == home
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert "PYTHONDONTWRITEBYTECODE=1" in last("ENV")
    writable = [one["mountPath"] for one in container["volumeMounts"] if not one.get("readOnly")]
    assert writable == [f"{home}/journal"]
