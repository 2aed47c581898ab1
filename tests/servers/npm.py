"""npm packages that tests read and that are not installed.

Put here: fetching and unpacking one.
Not here: the choice of packages, or their use.
"""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

from tests.servers.process import required


def npm_package(name: str, version: str, folder: Path) -> Path:
    """The unpacked files of a package, in a folder of its own."""
    packed = subprocess.run(
        [required("npm"), "pack", "--silent", f"{name}@{version}"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
        archive.extractall(folder, filter="data")
    return folder / "package"
