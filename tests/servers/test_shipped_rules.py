"""The alert rules of deploy/ and their cases, by promtool of both versions of Prometheus."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.servers.prometheus import programs
from tests.shipped_rules import RULES, write

pytestmark = pytest.mark.servers


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("folder", RULES)
def test_promtool_accepts_the_rules_and_their_cases(
    folder: str, version: int, tmp_path: Path
) -> None:
    write(folder, tmp_path)
    for command in ("check rules rules.yml", "test rules rules_test.yml"):
        ran = subprocess.run(
            [str(programs(version).promtool), *command.split()],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
