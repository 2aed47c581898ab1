"""On a read-only home, readers work, and writers name the file that they could not write.

Put here: the installed command line, as an account without write access.
Not here: a full disk (`test_landing_crashes`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.marts_by_hand import Pod, World, at

pytestmark = [pytest.mark.deep, pytest.mark.engines]

READERS = (
    ("gaps", "2026-10"),
    ("landing", "verify"),
    ("invoice", "2026-10"),
    ("decisions", "check"),
)
WRITERS = (
    ("check", "2026-10"),
    ("refresh", "--period", "2026-10"),
    ("close", "2026-10", "--issue"),
    ("publish",),
    ("rebuild",),
    ("up", "--prepare-only"),
)


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-read-only-", dir="/tmp") as folder:
        world = World(Path(folder) / "home")
        world.pods = [Pod("team-a", "train", at("09 10:00"), at("09 11:30"))]
        world.write()
        made = [world.path, *world.path.rglob("*")]
        for path in made:
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield world.path
        for path in made:
            path.chmod(0o700)


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run as an account that file modes restrict, such as root without these capabilities."""
    program = [str(Path(sys.executable).with_name("gpu-ledger"))]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv (util-linux) is not here: no mode holds root")
        program = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *program]
    return subprocess.run(
        [*program, *arguments, "--home", str(home)],
        capture_output=True,
        text=True,
        cwd="/tmp",
        env={**os.environ, "HOME": "/nonexistent", "TMPDIR": "/tmp"},
    )


def contents(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_a_read_only_home_is_read_and_every_writer_names_its_file(home: Path) -> None:
    before = contents(home)
    for arguments in READERS:
        ran = run(home, *arguments)
        assert ran.returncode == 0, ran.stderr
    for arguments in WRITERS:
        ran = run(home, *arguments)
        assert "Traceback" not in ran.stderr, ran.stderr
        assert (ran.returncode, "Permission denied" in ran.stderr) == (3, True), (
            arguments,
            ran.stderr,
        )
        assert str(home) in ran.stderr
    assert contents(home) == before
