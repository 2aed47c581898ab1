"""The folder of real captures for comparisons, and a clear error if it is missing.

Put here: reading files of the data folder beside the repository.
Not here: copies of them; they are not part of the project.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_text(name: str) -> str:
    """The text of one file. If it is missing, CI fails and other machines skip the test."""
    path = FOLDER / name
    if not path.is_file():
        text = (
            f"{path} is missing: this test compares with a real capture that is not part of the "
            "repository; put the data folder beside it"
        )
        if os.environ.get("CI"):
            pytest.fail(text)
        pytest.skip(text)
    return path.read_text("utf-8")
