"""The alert rules about GPU health, checked and tested with promtool."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.servers.process import required

pytestmark = pytest.mark.servers

FOLDER = Path(__file__).parents[2] / "deploy" / "gpu-health"


@pytest.mark.parametrize(
    "command", [("check", "rules", "rules.yml"), ("test", "rules", "rules_test.yml")]
)
def test_promtool_accepts_the_rules(command: tuple[str, ...]) -> None:
    ran = subprocess.run(
        [str(required("promtool")), *command], cwd=FOLDER, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
