"""Where the real captures lie that tests compare with, and a clear word when they do not.

Put here: reading files of the data folder beside the repository.
Not here: copies of them; they are not part of the project.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_text(name: str) -> str:
    """The text of one file; a missing one fails the test that needs it."""
    path = FOLDER / name
    assert path.is_file(), (
        f"{path} is missing: this test compares with a real capture that is not part of the "
        "repository; put the data folder beside it"
    )
    return path.read_text("utf-8")
