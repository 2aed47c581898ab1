"""The lease: one writer, a growing fence, and an error for a replaced writer.

Put here: taking, renewing, losing and releasing. Not here: the record's use of a stale fence.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from domain.clock import StoppedClock
from warehouse.lease import LEASE_KEY, LeaseHeld, LeaseLost, acquire, lease
from warehouse.store import FolderStore, Store, open_store

NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FolderStore(tmp_path) if request.param == "folder" else open_store("memory://record")


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock(NOON)


def test_each_holder_gets_a_higher_fence(store: Store, clock: StoppedClock) -> None:
    fences = []
    for _ in range(3):
        with lease(store, "me", clock) as held:
            fences.append(held.fence)
    assert fences == [1, 2, 3]


def test_a_second_holder_is_refused_with_the_name_of_the_first(
    store: Store, clock: StoppedClock
) -> None:
    with (
        lease(store, "closer on host-a", clock, 600),
        pytest.raises(LeaseHeld) as caught,
        lease(store, "other", clock),
    ):
        pass
    assert "closer on host-a" in caught.value.seen
    assert "2026-10-01T12:10:00Z" in caught.value.seen


def test_a_lease_is_free_at_its_expiry_and_not_a_second_earlier(
    store: Store, clock: StoppedClock
) -> None:
    acquire(store, "crashed", clock, 600)
    clock.wait_until(NOON + timedelta(seconds=599))
    with pytest.raises(LeaseHeld):
        acquire(store, "next", clock, 600)
    clock.wait_until(NOON + timedelta(seconds=600))
    assert acquire(store, "next", clock, 600).fence == 2


def test_a_replaced_holder_gets_an_error_at_its_next_check(
    store: Store, clock: StoppedClock
) -> None:
    slow = acquire(store, "slow", clock, 600)
    assert slow.check() == 1
    clock.wait_until(NOON + timedelta(seconds=601))
    acquire(store, "fast", clock, 600)
    with pytest.raises(LeaseLost) as caught:
        slow.check()
    assert "fence 2 of fast" in caught.value.seen
    with pytest.raises(LeaseLost):
        slow.renew()


def test_an_expired_lease_is_lost_even_if_it_was_not_taken(
    store: Store, clock: StoppedClock
) -> None:
    held = acquire(store, "slow", clock, 600)
    clock.wait_until(NOON + timedelta(seconds=600))
    with pytest.raises(LeaseLost):
        held.check()


def test_renewing_keeps_the_fence_and_moves_the_expiry(store: Store, clock: StoppedClock) -> None:
    held = acquire(store, "long work", clock, 600)
    clock.wait_until(NOON + timedelta(seconds=500))
    held.renew()
    assert held.fence == 1
    assert held.expires_at == NOON + timedelta(seconds=1100)
    clock.wait_until(NOON + timedelta(seconds=1000))
    assert held.check() == 1


def test_a_release_by_a_replaced_holder_does_not_affect_its_successor(
    store: Store, clock: StoppedClock
) -> None:
    slow = acquire(store, "slow", clock, 600)
    clock.wait_until(NOON + timedelta(seconds=601))
    fast = acquire(store, "fast", clock, 600)
    slow.release()
    assert fast.check() == 2
    with pytest.raises(LeaseHeld):
        acquire(store, "third", clock, 600)


def test_a_lease_is_released_when_the_work_fails(store: Store, clock: StoppedClock) -> None:
    with pytest.raises(ZeroDivisionError), lease(store, "me", clock):
        raise ZeroDivisionError
    assert acquire(store, "next", clock, 600).fence == 2


def test_a_released_lease_is_free_for_a_host_with_a_slow_clock(
    store: Store, clock: StoppedClock
) -> None:
    with lease(store, "fast clock", clock, 600):
        pass
    behind = StoppedClock(NOON - timedelta(hours=1))
    assert acquire(store, "slow clock", behind, 600).fence == 2


def test_a_lost_lease_object_does_not_lower_the_fence_of_the_record(
    store: Store, clock: StoppedClock
) -> None:
    assert acquire(store, "after a restore", clock, 600, above=41).fence == 42


def test_two_holders_of_one_name_and_second_are_distinguished(
    clock: StoppedClock, tmp_path: Path
) -> None:
    class Interleaved(FolderStore):
        """A store in which another holder wins between the read and the swap."""

        def replace(self, key: str, body: bytes, expected: bytes | None) -> bool:
            if not FolderStore(tmp_path).exists(LEASE_KEY):
                acquire(FolderStore(tmp_path), "me", clock, 600)
            return super().replace(key, body, expected)

    with pytest.raises(LeaseHeld):
        acquire(Interleaved(tmp_path), "me", clock, 600)
