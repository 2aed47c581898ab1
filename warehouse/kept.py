"""The user's folder for what can be made again, so that another home on the machine has it too.

Put here: where it is, and what of it is thrown away.
Not here: what is kept there (`warehouse.parsed`, `orchestration.publishing`).
"""

from __future__ import annotations

import os
from pathlib import Path

CACHE = Path("gpu-ledger", "models")

VERSIONS_KEPT = 4
"""Two checkouts, or a version and the one before it, with and without a change that is tried."""


def kept_in(otherwise: Path) -> Path:
    """The folder; `otherwise` where there is none that can be written."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / CACHE
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home at all, as of many services
        return otherwise
    return folder if os.access(folder, os.W_OK) else otherwise


def keep(path: Path, body: bytes) -> None:
    """Write a file whole or not at all, and forget the oldest of its kind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_bytes(body)
    unfinished.replace(path)
    for older in _newest_first(path)[VERSIONS_KEPT:]:
        older.unlink(missing_ok=True)


def _newest_first(path: Path) -> list[Path]:
    found = []
    for one in path.parent.glob(f"*{path.suffix}"):
        try:
            found.append((one.stat().st_mtime_ns, one))
        except FileNotFoundError:  # another process has just forgotten it
            continue
    return [one for _, one in sorted(found, reverse=True)]
