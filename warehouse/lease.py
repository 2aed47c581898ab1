"""The lease: one writer at a time, and a number that shows that a later writer has followed.

Put here: acquiring, renewing, checking and releasing the lease of a store.
Not here: the refusal of stale writes itself: the record stores the fence in each event and refuses
one that is lower than the last.

Expiry only decides when another writer may try. The fence protects the record: it grows with every
holder, so a writer that was suspended past its expiry writes with a number that is too low.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from domain.clock import Clock
from domain.errors import TemporarilyUnavailable
from domain.identity import canonical_json
from domain.interval import format_instant, parse_instant
from warehouse.store import ObjectMissing, Store, reading

LEASE_KEY = "lease.json"
LEASE_SECONDS = 600
"""Longer than the longest write to a record; a crashed holder blocks others for this long."""

RELEASED = datetime(1970, 1, 1, tzinfo=UTC)
"""The expiry of a released lease: in the past by the clock of every host."""


class LeaseHeld(TemporarilyUnavailable):
    """Another process holds the lease."""

    code = "LOCK-001"

    def __init__(self, location: str, state: LeaseState) -> None:
        super().__init__(
            where=location,
            seen=f"{state.holder} holds the lease (fence {state.fence}) "
            f"until {format_instant(state.expires_at)}",
            why="two writers at once would give two documents one number",
            remedy="wait for it to end; after a crash it expires at that time",
        )


class LeaseLost(TemporarilyUnavailable):
    """This writer's lease has expired or was taken over."""

    code = "LOCK-001"

    def __init__(self, location: str, held: LeaseState, present: LeaseState | None) -> None:
        now = f"fence {present.fence} of {present.holder}" if present else "no lease at all"
        super().__init__(
            where=location,
            seen=f"{held.holder} wrote under fence {held.fence}; the store now has {now}, "
            f"and its lease ran until {format_instant(held.expires_at)}",
            why="another writer may have started; writing on could undo its work",
            remedy="run the same command again: it resumes from what is recorded",
        )


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The content of the lease object."""

    fence: int
    holder: str
    expires_at: datetime
    nonce: str  # two holders never write the same bytes, so a swap distinguishes them

    def to_bytes(self) -> bytes:
        value = {
            "expires_at": format_instant(self.expires_at),
            "fence": self.fence,
            "holder": self.holder,
            "nonce": self.nonce,
        }
        return canonical_json(value) + b"\n"

    @classmethod
    def from_bytes(cls, body: bytes) -> LeaseState:
        value = json.loads(body)
        expires_at = parse_instant(value["expires_at"])
        return cls(int(value["fence"]), str(value["holder"]), expires_at, str(value["nonce"]))


class Lease:
    """A lease that is held; `fence` goes into everything written under it."""

    def __init__(self, store: Store, clock: Clock, seconds: int, state: LeaseState) -> None:
        self._store = store
        self._clock = clock
        self._seconds = seconds
        self._state = state

    @property
    def fence(self) -> int:
        return self._state.fence

    @property
    def expires_at(self) -> datetime:
        return self._state.expires_at

    def check(self) -> int:
        """The fence, if the lease is still held; raises LeaseLost otherwise."""
        present = _present(self._store)[1]
        if present != self._state or self._clock.now() >= self._state.expires_at:
            raise LeaseLost(self._store.location, self._state, present)
        return self.fence

    def renew(self) -> None:
        """Hold it for the full time again; raises LeaseLost if another process has it."""
        self.check()
        self._swap(replace(self._state, expires_at=_expiry(self._clock, self._seconds)))

    def release(self) -> None:
        """Release it. The fence stays in the store, so that the next one is higher."""
        with contextlib.suppress(LeaseLost):
            self._swap(replace(self._state, expires_at=RELEASED))

    def _swap(self, state: LeaseState) -> None:
        if not self._store.replace(LEASE_KEY, state.to_bytes(), self._state.to_bytes()):
            raise LeaseLost(self._store.location, self._state, _present(self._store)[1])
        self._state = state


@contextlib.contextmanager
def lease(
    store: Store, holder: str, clock: Clock, seconds: int = LEASE_SECONDS, above: int = 0
) -> Iterator[Lease]:
    """Hold the store's lease for a block. `above`: a fence already seen in the record."""
    held = acquire(store, holder, clock, seconds, above)
    try:
        yield held
    finally:
        held.release()


def acquire(store: Store, holder: str, clock: Clock, seconds: int, above: int = 0) -> Lease:
    """Take the lease, or raise LeaseHeld. Prefer `lease`, which also releases it."""
    body, present = _present(store)
    if present and clock.now() < present.expires_at:
        raise LeaseHeld(store.location, present)
    # A restored store may have lost the lease object; the record has its fences.
    fence = max(present.fence if present else 0, above) + 1
    state = LeaseState(fence, holder, _expiry(clock, seconds), os.urandom(8).hex())
    if not store.replace(LEASE_KEY, state.to_bytes(), body):
        raise LeaseHeld(store.location, _present(store)[1] or state)
    return Lease(store, clock, seconds, state)


def _present(store: Store) -> tuple[bytes | None, LeaseState | None]:
    try:
        body = store.read(LEASE_KEY)
    except ObjectMissing:
        return None, None
    remedy = "when no other command is writing, delete it, then run the same command again"
    with reading(f"{store.location}/{LEASE_KEY}", remedy):
        return body, LeaseState.from_bytes(body)


def _expiry(clock: Clock, seconds: int) -> datetime:
    return clock.now().replace(microsecond=0) + timedelta(seconds=seconds)
