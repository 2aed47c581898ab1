"""The FOCUS validator in an environment of its own, because its libraries are older than ours.

Put here: creating that environment once per pinned version, running it, reading its report.
Not here: the validated files.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.servers import build
from tests.servers.process import required

PINNED = ("focus-validator==2.2.1", "pyarrow<20")
SPECIFICATION = "1.2"

CONTRADICTORY = frozenset({"InvoiceId-C-004-C"})
"""Requires InvoiceId to be null, while C-005 forbids that, so every row fails one of them."""

_TOTAL = re.compile(r"Total: (\d+) \| Pass: (\d+) \| Fail: (\d+) \| Skipped: (\d+)")
_FAILED = re.compile(r"(\S+): FAIL ")


@dataclass(frozen=True)
class Report:
    """The numbers of the validator's report, and the failed rules."""

    total: int
    passed: int
    failed_rules: frozenset[str]


def installed() -> Path:
    """The environment's folder, created if it is absent."""
    folder = build.cache_folder() / "focus-validator-2.2.1"
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        python = required("python3.12", f"{Path.home()}/.pyenv/versions/3.12*/bin/python3.12")
        uv = Path(sys.executable).with_name("uv")
        folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([uv, "venv", "-q", "--python", python, folder], check=True)
        command = [uv, "pip", "install", "-q", "--python", folder / "bin" / "python", *PINNED]
        subprocess.run(command, check=True)
        (folder / ".complete").write_text("")
    return folder


def validate(csv: Path) -> Report:
    """Check a file against the rules of the validator, without a network."""
    folder = installed()
    # It reads its list of currencies relative to its working directory.
    [packages] = (folder / "lib").glob("python3*/site-packages")
    ran = subprocess.run(
        [folder / "bin" / "focus-validator", "--data-file", csv, "--block-download",
         "--validate-version", SPECIFICATION],
        cwd=packages, capture_output=True, text=True, check=False,
    )  # fmt: skip
    counted = _TOTAL.search(ran.stdout)
    assert counted, ran.stdout[-2000:] + ran.stderr[-2000:]
    total, passed, failed, _ = map(int, counted.groups())
    rules = frozenset(_FAILED.findall(ran.stdout))
    assert len(rules) == failed
    return Report(total, passed, rules)
