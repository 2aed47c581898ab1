"""The same evidence gives the same facts: however it is cut, in whatever order it comes, twice or
once, with whatever number of threads, in whatever time zone and locale (invariants 10 and 22)."""

from __future__ import annotations

import locale
import random
import time
from pathlib import Path

import pytest

from domain.billing_period import BillingPeriod
from domain.interval import Interval
from fake_gpu.estate.model import Estate
from tests.decisions_by_hand import decided
from tests.estates import estate as read
from tests.lived_estates import clusters_csv, days_of, live
from tests.random_estates import scenario
from warehouse import connection
from warehouse.build import build_period
from warehouse.home import Home

pytestmark = pytest.mark.slow

PERIOD = BillingPeriod("2026-10")
SEEDS = (3, 44)


def facts_of(home: Home, estates: list[Estate]) -> str:
    decisions = decided(clusters_csv(estates))
    build = build_period(home, PERIOD, decisions, closed_periods=frozenset())
    assert build.row_counts["fct_pod_hours"] > 50
    return build.facts_sha256


def cut_doubled_and_mixed(estate: Estate, rng: random.Random) -> list[Interval]:
    """Single hours, some of them twice, with the last ones first."""
    hours = [hour for day in days_of(estate) for hour in day.split_at_hours()]
    mixed = hours + rng.sample(hours, 2)
    rng.shuffle(mixed)
    return mixed


def test_deliveries_threads_zone_and_locale_change_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(20261118)
    estates = [read(scenario(seed)) for seed in SEEDS]
    gaps = [(estate.started_at + 3000, estate.started_at + 4200) for estate in estates]
    plain = Home.create(tmp_path / "plain")
    for estate, gap in zip(estates, gaps, strict=True):
        live(plain, estate, unwatched=[gap])
    expected = facts_of(plain, estates)

    other = Home.create(tmp_path / "other")
    for estate, gap in reversed(list(zip(estates, gaps, strict=True))):
        live(other, estate, unwatched=[gap], windows=cut_doubled_and_mixed(estate, rng))
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    monkeypatch.setattr(connection, "thread_count", lambda: 1)
    time.tzset()
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, "C.UTF-8")
        assert facts_of(other, estates) == expected
    finally:
        locale.setlocale(locale.LC_ALL, before)
        monkeypatch.undo()
        time.tzset()
