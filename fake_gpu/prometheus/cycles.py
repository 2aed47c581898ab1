"""When Python's cycle collector rests.

Put here: the pause around work that makes very many small values and no cycles.
Not here: its use in a process that only serves (`fake_gpu.serve.settle`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Without the cycle collector, which would look through a whole answer, in vain.

    An answer makes tens of thousands of small values and no cycle; all of them have gone when its
    text is written.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
