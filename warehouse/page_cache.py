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
"""Enough for two versions of the models, each with and without a change."""


def find_cache_folder(fallback: Path) -> Path:
    """The folder of the cache, or `fallback` if it cannot be written."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / CACHE
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # a service without a home folder
        return fallback
    return folder if os.access(folder, os.W_OK) else fallback


UNFINISHED = ".unfinished"
UNFINISHED_SECONDS = 3600.0
"""Older unfinished files are from processes that were killed."""


def write_to_cache(path: Path, body: bytes) -> None:
    """Write a file whole or not at all, and remove the oldest files of its kind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(UNFINISHED, f".{path.name}.", path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
        Path(unfinished).replace(path)
    finally:
        Path(unfinished).unlink(missing_ok=True)
    _remove_old(path)


def _remove_old(path: Path) -> None:
    newest_first = sorted(_with_times(path.parent, f"*{path.suffix}"), reverse=True)
    older = [one for _, one in newest_first[VERSIONS_KEPT:]]
    limit = time.time() - UNFINISHED_SECONDS
    left = [one for at, one in _with_times(path.parent, f".*{UNFINISHED}") if at < limit]
    for one in (*older, *left):
        with contextlib.suppress(OSError):
            one.unlink()


def _with_times(folder: Path, pattern: str) -> Iterator[tuple[float, Path]]:
    for one in folder.glob(pattern):
        with contextlib.suppress(FileNotFoundError):  # another process has just removed it
            yield one.stat().st_mtime, one
