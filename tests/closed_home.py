"""The home that the demo of `thin_line` closed, made once on this machine for a state of the code.

Put here: the copy of it for a test.
Not here: the amounts of that month (`scenarios/test_thin_line`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from domain.clock import StoppedClock
from domain.interval import format_instant, parse_instant
from orchestration.demo.closed_month import run_demo
from orchestration.open_home import OpenHome

ROOT = Path(__file__).parents[1]
KEPT = "gpu-ledger-closed-"


def copy_closed_home(place: Path) -> OpenHome:
    """A copy of the home at this place, with a clock that stands at the end of the demo."""
    temporary = Path(tempfile.gettempdir())
    kept = temporary / f"{KEPT}{_sha256_of_code()[:16]}"
    with (temporary / f"{KEPT}home.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_dir():
            for older in temporary.glob(f"{KEPT}*/"):
                shutil.rmtree(older)
            unfinished = temporary / f"{KEPT}{os.getpid()}"
            with run_demo("thin_line", unfinished / "home", _no_bar, lambda text: None) as result:
                now = result.opened.clock.now()
            (unfinished / "now").write_text(format_instant(now))
            unfinished.rename(kept)
        shutil.copytree(kept / "home", place)
        now = parse_instant((kept / "now").read_text())
    return OpenHome.at(place, StoppedClock(now))


def _sha256_of_code() -> str:
    """The hash of every package, of the models and of the locked versions."""
    folders = [ROOT / "dbt", *(path.parent for path in ROOT.glob("*/__init__.py"))]
    files = [ROOT / "uv.lock"]
    for folder in folders:
        if folder.name != "tests":
            files += [path for path in folder.rglob("*") if path.is_file()]
    found = hashlib.sha256()
    for path in sorted(path for path in files if "__pycache__" not in path.parts):
        found.update(f"{path.relative_to(ROOT)} {path.stat().st_size}\n".encode())
        found.update(path.read_bytes())
    return found.hexdigest()


@contextlib.contextmanager
def _no_bar(_: str) -> Iterator[Callable[[int, int, str], None]]:
    yield lambda done, total, what: None
