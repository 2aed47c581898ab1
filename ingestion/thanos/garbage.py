"""Python's garbage collector, off while an answer becomes very many small objects.

Put here: switching it off and on, whoever else does so at the same time.
Not here: what is done meanwhile.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pauses:
    """How many pauses are under way, in whatever threads."""

    lock = threading.Lock()
    count = 0
    was_enabled = True  # before the first of them


@contextmanager
def collector_paused() -> Iterator[None]:
    """Python's garbage collector off: it walks every new object, and costs two to four times.

    It is on again when the last of several threads has left.
    """
    with _Pauses.lock:
        if not _Pauses.count:
            _Pauses.was_enabled = gc.isenabled()
            gc.disable()
        _Pauses.count += 1
    try:
        yield
    finally:
        with _Pauses.lock:
            _Pauses.count -= 1
            if not _Pauses.count and _Pauses.was_enabled:
                gc.enable()
