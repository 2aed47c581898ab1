"""A home of each release is backed up, restored into an empty place, and closes its next month.

Put here: homes as released versions wrote them (`tests/home_of_release`), used by this version, by
the scripts of `deploy/backup`.
Not here: each damage of a backup (`tests/unit/test_billing_backup`), or homes of unknown layouts
(`tests/unit/test_home`).

By hand, at 1.00 an hour for an A30: October has 2.5 hours and is closed; November has 1.25.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.home_of_release import HOMES
from warehouse.home import LAYOUT, Home

pytestmark = [pytest.mark.deep, pytest.mark.engines]

DEPLOY = Path(__file__).parents[2] / "deploy"
Run = Callable[..., str]


def script(name: str) -> str:
    """The shell script of a Job or a CronJob."""
    document = next(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))
    spec = document["spec"].get("jobTemplate", document)["spec"]
    [container] = spec["template"]["spec"]["containers"]
    assert container["command"] == ["sh", "-ec"]
    [text] = container["args"]
    return str(text)


@pytest.mark.parametrize("archive", sorted(HOMES.glob("*.tar.xz")), ids=lambda path: path.name)
def test_a_released_home_is_restored_and_closes_the_next_month(
    archive: Path, tmp_path: Path
) -> None:
    home, backups = tmp_path / "home", tmp_path / "backup"
    backups.mkdir()
    with tarfile.open(archive) as packed:
        packed.extractall(home, filter="data")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GPU_LEDGER_HOME": str(home),
        "GPU_LEDGER_NOW": "2026-12-05T00:00:00Z",
    }

    def run(*command: str) -> str:
        ran = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def ledger(*command: str) -> Any:
        return json.loads(run("gpu-ledger", *command, "-o", "json"))

    run("sh", "-ec", script("backup/backup.yaml").replace("/backup", str(backups)))
    shutil.rmtree(home)
    run("sh", "-ec", script("backup/restore/restore.yaml").replace("/backup", str(backups)))
    assert Home.open(home).layout == LAYOUT
    run("gpu-ledger", "restore", "--by", "Ada Example", "--and", "Bob Example")

    run("gpu-ledger", "landing", "verify")
    assert ledger("recount", "2026-10")["corrections"] == []
    closed = ledger("close", "2026-11", "--issue", "--no-recheck")
    assert closed["closed"], closed
    [invoice] = closed["invoices"]
    assert (invoice["tenant"], invoice["billed"]) == ("vision", "1.25")
    assert [row["billed"] for row in ledger("close", "2026-10")["invoices"]] == ["2.50"]
