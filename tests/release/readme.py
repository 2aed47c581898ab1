"""The README's first command in a fresh clone, and its output in the README.

Put here: `python -m tests.release.readme`, which runs `make demo` in this clone.
Not here: the demo without a network and from the wheel alone (`clean_machine`).

The README shows some lines of the output: each of them must occur, in this order.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHOWN = re.compile(r"its\s+output:\n\n```\w*\n(.*?)```", re.DOTALL)


def main() -> None:
    began = time.monotonic()
    ran = subprocess.run(
        ["make", "demo"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert ran.returncode == 0, ran.stdout
    missing = missing_lines(
        lines_of_readme((ROOT / "README.md").read_text(encoding="utf-8")), ran.stdout
    )
    assert not missing, f"the README shows, and `make demo` does not say: {missing}\n{ran.stdout}"
    print(f"make demo: {time.monotonic() - began:.0f} s, and it says what the README shows")


def lines_of_readme(readme: str) -> list[str]:
    """The lines of the output in the README, without their layout."""
    found = SHOWN.search(readme)
    assert found, "the README shows no screen"
    return [line for text in found.group(1).splitlines() if (line := " ".join(text.split()))]


def missing_lines(wanted: Sequence[str], said: str) -> list[str]:
    """The first line that the output does not have in this order, and all lines after it."""
    lines = iter([" ".join(line.split()) for line in said.splitlines()])
    for number, line in enumerate(wanted):
        if not any(line in one for one in lines):
            return list(wanted[number:])
    return []


if __name__ == "__main__":
    main()
