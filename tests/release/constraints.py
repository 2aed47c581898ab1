"""Writes constraints.txt: the versions that were tested together, for users of pip.

Put here: writing that file.
Not here: the lock file of uv (`uv.lock`).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADER = """\
# For `pip install gpu-ledger -c constraints.txt`: every version that was tested together with pip.
# dbt-core stays below 1.12 here: later ones require a source package that downloads a binary while
# it is built, which pip cannot be told to leave out (uv can; see pyproject.toml).
# Written by `make constraints`.
"""


def main() -> None:
    """Resolve the package's own requirements like pip, without uv's override."""
    uv = Path(sys.executable).with_name("uv")
    with tempfile.TemporaryDirectory() as folder:
        project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        without_uv = re.sub(r"^\[tool\.uv\]\n(?:.+\n)*", "", project, flags=re.MULTILINE)
        Path(folder, "pyproject.toml").write_text(without_uv, encoding="utf-8")
        Path(folder, "below.txt").write_text("dbt-core<1.12\n", encoding="utf-8")
        command = [
            *(str(uv), "pip", "compile", "--quiet", "pyproject.toml", "--universal"),
            *("--python-version", "3.11", "-c", "below.txt", "--no-annotate", "--no-header"),
        ]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    (ROOT / "constraints.txt").write_text(HEADER + ran.stdout, encoding="utf-8")


if __name__ == "__main__":
    main()
