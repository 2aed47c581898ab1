"""The build context of an image is reproducible, and its SBOM lists the installed packages.

Put here: the folder that `image_context.py` writes.
Not here: the content of the wheel (`test_wheel.py`), or images themselves.
"""

from __future__ import annotations

import json
import re

import pytest

from tests.release.image_context import write_context

pytestmark = pytest.mark.deep

SMALL = "amd-exporter"


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    """The files of two contexts of one component, by name."""
    written = []
    for number in range(2):
        folder = tmp_path_factory.mktemp(f"context-{number}")
        write_context(SMALL, folder)
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    return written


def test_two_contexts_of_one_commit_have_the_same_bytes(contexts: list[dict[str, bytes]]) -> None:
    assert [re.sub(r"-.*\.whl", "", name) for name in sorted(contexts[0])] == [
        "gpu_ledger",
        "requirements.txt",
        "sbom.json",
    ]
    assert contexts[0] == contexts[1]


def test_the_sbom_lists_the_locked_requirements(contexts: list[dict[str, bytes]]) -> None:
    required = re.findall(r"^([\w.-]+)==([^\s;]+)", contexts[0]["requirements.txt"].decode(), re.M)
    listed = json.loads(contexts[0]["sbom.json"])["components"]
    assert {"grpcio", "prometheus-client", "protobuf"} <= {name for name, _ in required}
    assert sorted((one["name"], one["version"]) for one in listed) == sorted(required)
