"""The virtual clock: fixed, running, driven, and its waiters."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from domain.errors import LedgerError
from fake_gpu.clock import SimulatedPastIsFixed, VirtualClock, driven, fixed, running

START = datetime(2026, 10, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_a_fixed_clock_does_not_advance() -> None:
    clock = fixed(START)
    assert clock.now() == START
    with pytest.raises(SimulatedPastIsFixed, match="it is fixed"):
        clock.advance_to(START + HOUR)


def test_a_driven_clock_advances_only_on_request_and_never_back() -> None:
    clock = driven(START)
    clock.advance_to(START + HOUR)
    assert clock.now() == START + HOUR
    clock.advance(90)
    assert clock.now_seconds() == int((START + HOUR).timestamp()) + 90
    with pytest.raises(SimulatedPastIsFixed, match="the earlier 2026-10-01T00:00:00Z"):
        clock.advance_to(START)
    assert clock.now_seconds() == int((START + HOUR).timestamp()) + 90


def test_listeners_run_before_waiters_wake_and_before_advance_returns() -> None:
    clock = driven(START)
    told: list[str] = []

    def listener(when: datetime) -> None:
        time.sleep(0.1)  # a waiter that woke too early would be first
        told.append(f"listener {when:%H:%M}")

    clock.add_listener(listener)
    waiter = threading.Thread(
        target=lambda: (clock.wait_until(START + HOUR), told.append("waiter"))
    )
    waiter.start()
    clock.advance_to(START + HOUR / 2)
    assert told == ["listener 00:30"]
    clock.advance_to(START + HOUR)
    waiter.join(5)
    assert told == ["listener 00:30", "listener 01:00", "waiter"]


def test_waiting_for_the_past_returns_at_once() -> None:
    driven(START).wait_until(START - HOUR)
    fixed(START).wait_until(START)
    assert driven(START).now() == START


def test_a_running_clock_advances_at_its_speed() -> None:
    real = [100.0]
    clock = VirtualClock(START, "running", 3600.0, monotonic=lambda: real[0])
    assert clock.now() == START
    real[0] += 2.0
    assert clock.now() == START + 2 * HOUR
    real[0] += 1 / 7200
    assert clock.now() == START + 2 * HOUR  # whole seconds only


def test_waiting_on_a_running_clock_ends_at_its_time() -> None:
    clock = running(START, 10_000.0)
    clock.wait_until(START + timedelta(minutes=5))
    assert clock.now() >= START + timedelta(minutes=5)


def test_closing_wakes_the_waiters() -> None:
    clock = driven(START)
    waiter = threading.Thread(target=clock.wait_until, args=(START + HOUR,))
    waiter.start()
    clock.close()
    waiter.join(5)
    assert not waiter.is_alive()


@pytest.mark.parametrize("speed", [0, -1, 10_001])
def test_the_speed_has_limits(speed: float) -> None:
    with pytest.raises(SimulatedPastIsFixed, match="at most 10000"):
        running(START, speed)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(LedgerError, match="no time zone"):
        driven(START).advance_to(datetime(2026, 10, 2))  # noqa: DTZ001 (the point of the test)
