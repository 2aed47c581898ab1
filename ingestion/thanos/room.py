"""How many large answers are in memory at once: one.

Put here: who may hold a large body, and for how long.
Not here: how large an answer may be at all (`ingestion.thanos.client`).

Answers are fetched ahead while another one is decoded, and nobody knows how large one is before it
has come. So whoever holds more than a little of one waits until no other large one is in memory;
small ones pass by.
"""

from __future__ import annotations

import time
from threading import Lock, local

LARGE_BYTES = 24 << 20
"""Answers of an hour of ten thousand cards are smaller; those of a large cluster's day are not."""


def is_large(byte_count: int) -> bool:
    """Whether so many bytes of one body need the room for themselves."""
    return byte_count > LARGE_BYTES


class Room:
    """For one large body at a time. A thread is inside from `with room:` to its end."""

    def __init__(self) -> None:
        self._large = Lock()
        self._mine = local()

    def __enter__(self) -> Room:
        self._mine.inside, self._mine.taken = True, False
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
        self._mine.inside = False

    def leave(self) -> None:
        """Make room for others while this thread waits to ask again."""
        if getattr(self._mine, "taken", False):
            self._mine.taken = False
            self._large.release()

    def take(self, byte_count: int) -> float:
        """Wait, with so many bytes in hand, until no other thread has a large body.

        The seconds that this took: whoever is being listened to is not slow meanwhile.
        """
        inside = getattr(self._mine, "inside", False)
        if not inside or not is_large(byte_count) or self._mine.taken:
            return 0.0
        began = time.monotonic()
        self._large.acquire()
        self._mine.taken = True
        return time.monotonic() - began
