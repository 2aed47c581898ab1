"""A cache in the user's folder, shared by all homes on the machine.

Put here: its place, and removing old files.
Not here: the content (`orchestration.publishing`).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CACHE = Path("gpu-ledger", "models")

VERSIONS_KEPT = 4
"""Two checkouts, or a version and the one before it, with and without a change that is tried."""


def find_cache_folder(otherwise: Path) -> Path:
    """The folder; `otherwise` where there is none that can be written."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / CACHE
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home at all, as of many services
        return otherwise
    return folder if os.access(folder, os.W_OK) else otherwise


UNFINISHED = ".unfinished"
UNFINISHED_SECONDS = 3600.0
"""Older files were left by a process that was killed, or by a machine that went down."""


def write_to_cache(path: Path, body: bytes) -> None:
    """Write a file whole or not at all, and forget the oldest of its kind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(UNFINISHED, f".{path.name}.", path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
        Path(unfinished).replace(path)
    finally:
        Path(unfinished).unlink(missing_ok=True)
    _forget(path)


def _forget(path: Path) -> None:
    newest_first = sorted(_with_times(path.parent, f"*{path.suffix}"), reverse=True)
    older = [one for _, one in newest_first[VERSIONS_KEPT:]]
    limit = time.time() - UNFINISHED_SECONDS
    left = [one for at, one in _with_times(path.parent, f".*{UNFINISHED}") if at < limit]
    for one in (*older, *left):
        with contextlib.suppress(OSError):
            one.unlink()


def _with_times(folder: Path, pattern: str) -> Iterator[tuple[float, Path]]:
    for one in folder.glob(pattern):
        with contextlib.suppress(FileNotFoundError):  # another process has just forgotten it
            yield one.stat().st_mtime, one
