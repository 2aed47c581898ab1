"""The same evidence gives the same facts: with any windows, in any order, once or twice, with any
number of threads, time zone and locale (invariants 10 and 22).

The locale has decimal commas and its own order of letters, and is compiled for the test.
`tests/servers/test_facts_in_the_next_duckdb.py` covers the next DuckDB.
"""

from __future__ import annotations

import locale
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from domain.billing_period import BillingPeriod
from domain.interval import Interval
from fake_gpu.fleet.model import Fleet
from tests.decisions_by_hand import decided
from tests.fleets import fleet as read
from tests.random_fleets import scenario
from tests.recorded_fleets import clusters_csv, days_of, record_fleet
from warehouse import connection
from warehouse.build import build_period
from warehouse.home import Home

pytestmark = pytest.mark.deep

PERIOD = BillingPeriod("2026-10")
SEEDS = (3, 44)


def facts_of(home: Home, fleets: list[Fleet]) -> str:
    decisions = decided(clusters_csv(fleets))
    build = build_period(home, PERIOD, decisions, closed_periods=frozenset())
    assert build.row_counts["fct_pod_hours"] > 50
    return build.facts_sha256


def cut_doubled_and_mixed(fleet: Fleet, rng: random.Random) -> list[Interval]:
    """Single hours, some of them twice, with the last ones first."""
    hours = [hour for day in days_of(fleet) for hour in day.split_at_hours()]
    mixed = hours + rng.sample(hours, 2)
    rng.shuffle(mixed)
    return mixed


@pytest.fixture
def estonian(expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A locale that writes 1,5 and sorts z before t."""
    compiler = shutil.which("localedef")
    if compiler is None or not Path("/usr/share/i18n/locales/et_EE").is_file():
        pytest.skip("no locale can be compiled here: Debian's package `locales` has them")
    name = "et_EE.UTF-8"
    command = [compiler, "-i", "et_EE", "-f", "UTF-8", str(tmp_path / name)]
    subprocess.run(command, check=True, capture_output=True)
    monkeypatch.setenv("LOCPATH", str(tmp_path))
    monkeypatch.setenv("LC_ALL", name)  # for processes that are started
    before = locale.setlocale(locale.LC_ALL)
    locale.setlocale(locale.LC_ALL, name)
    assert locale.localeconv()["decimal_point"] == ","
    assert sorted("tz", key=locale.strxfrm) == ["z", "t"]
    yield
    locale.setlocale(locale.LC_ALL, before)


def record_fleets(home: Home, rng: random.Random | None) -> list[Fleet]:
    """Both sources of the fleets, with a broken watch; in random order if `rng` is given."""
    fleets = [read(scenario(seed)) for seed in SEEDS]
    for fleet in reversed(fleets) if rng else fleets:
        gap = (fleet.started_at + 3000, fleet.started_at + 4200)
        record_fleet(
            home,
            fleet,
            unwatched=[gap],
            windows=cut_doubled_and_mixed(fleet, rng) if rng else (),
        )
    return fleets


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The hash of the facts in normal order, under the locale of all tests."""
    home = Home.create(tmp_path_factory.mktemp("plain") / "home")
    return facts_of(home, record_fleets(home, None))


def test_deliveries_threads_and_zone_change_no_byte(
    expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home.create(tmp_path / "home")
    fleets = record_fleets(home, random.Random(20261118))
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    monkeypatch.setattr(connection, "thread_count", lambda: 4)
    time.tzset()
    try:
        assert facts_of(home, fleets) == expected
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.usefixtures("estonian")
def test_a_locale_with_commas_and_another_order_changes_no_byte(
    expected: str, tmp_path: Path
) -> None:
    """Evidence is pulled, landed, decoded and counted under it."""
    home = Home.create(tmp_path / "home")
    assert facts_of(home, record_fleets(home, None)) == expected
