"""Pages with commands but without their output: reading and running their blocks.

Put here: reading `sh`, `yaml` and `toml` blocks, and a shell with replacements for programs that
a test does not have (kubectl, oc, promtool, a pager).
Not here: pages with output (`tests.transcripts`), or the list of pages.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.written_pages import DOCS

FENCED = re.compile(r"^```([a-z]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = 300
CLUSTER_ID = "6f1c1f0a-0b5e-4d7c-9d3a-0c9b6a3e2f11"

STAND_INS = {
    "kubectl": f'[ "$1" = get ] && echo {CLUSTER_ID} && exit; test -s "$3"',  # apply -f FILE
    "oc": '[ "$1 $2" = "create token" ] && echo a-token',
    "less": 'test -s "$1"',
    "promtool": 'test -s "$4" && mkdir -p "$5"',  # tsdb create-blocks-from openmetrics FILE DATA
}


def blocks(page: str) -> list[tuple[str, str]]:
    """Every fenced block of a page below docs: its language and its text."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [(found.group(1), found.group(2)) for found in FENCED.finditer(text)]


def of(page: str, language: str) -> list[str]:
    return [text for kind, text in blocks(page) if kind == language]


def commands_in(text: str) -> list[list[str]]:
    """The commands, word by word, without comments."""
    whole = text.replace("\\\n", " ")
    return [words for line in whole.splitlines() if (words := shlex.split(line, comments=True))]


def typed(folder: Path, script: str, variables: Mapping[str, str] | None = None) -> str:
    """Run a script, each line of which must succeed; returns its output."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    for name, body in STAND_INS.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    environment = {**os.environ, **(variables or {}), "NO_COLOR": "1"}
    here = f"{programs}:{Path(sys.executable).parent}"
    environment["PATH"] = f"{here}:{environment['PATH']}"
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert ran.returncode == 0, f"{script}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout
