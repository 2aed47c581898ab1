"""A store in memory with the guarantees of a store, which can be killed at any of its writes.

Put here: `MemoryStore`.
Not here: the stored contents.
"""

from __future__ import annotations


class Killed(BaseException):
    """The process was killed here. Not an `Exception`, so that no handler on the way catches it."""


class MemoryStore:
    """Named bytes; `kill_at=n` kills at the n-th write, before it (even n) or after it (odd n)."""

    def __init__(self, objects: dict[str, bytes] | None = None, kill_at: int = -1) -> None:
        self.objects = objects if objects is not None else {}
        self.kill_at = kill_at
        self.points = 0

    @property
    def location(self) -> str:
        return "memory"

    def create(self, key: str, body: bytes) -> bool:
        self._pass_point()
        created = key not in self.objects
        if created:
            self.objects[key] = bytes(body)
        self._pass_point()
        return created

    def read(self, key: str) -> bytes:
        from warehouse.store import ObjectMissing

        if key not in self.objects:
            raise ObjectMissing(self.location, key)
        return self.objects[key]

    def list(self, prefix: str) -> list[str]:
        return sorted(key for key in self.objects if key.startswith(prefix))

    def exists(self, key: str) -> bool:
        return key in self.objects

    def replace(self, key: str, body: bytes, expected: bytes | None) -> bool:
        self._pass_point()
        swapped = self.objects.get(key) == expected
        if swapped:
            self.objects[key] = bytes(body)
        self._pass_point()
        return swapped

    def _pass_point(self) -> None:
        if self.points == self.kill_at:
            raise Killed
        self.points += 1
