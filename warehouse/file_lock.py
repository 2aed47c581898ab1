"""An exclusive lock of the operating system, on a file.

Put here: taking such a lock, and waiting for it.
Not here: the work under the lock, or the lease of a record (`warehouse.lease`), whose writers may
be on several machines and need a number that shows which of them was overtaken.

The lock ends with the process that holds it, however that process ends.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from domain.errors import LedgerError
from warehouse.store import make_folder

_POLL_SECONDS = 0.1


def try_lock(file: BinaryIO | int) -> bool:
    """Lock an open file, or return False while another process holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def hold_lock(
    path: Path, wait_seconds: float, refused: Callable[[], LedgerError]
) -> Iterator[None]:
    """Hold the lock of the file `path`; raises the error of `refused` after `wait_seconds`."""
    make_folder(path.parent)
    deadline = time.monotonic() + wait_seconds
    with path.open("wb") as file:
        while not try_lock(file):
            if time.monotonic() >= deadline:
                raise refused()
            time.sleep(_POLL_SECONDS)
        yield
