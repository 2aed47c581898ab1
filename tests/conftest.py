"""Settings of every test process.

Put here: making tests independent of the way they are started.
Not here: fixtures, which are beside their tests.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

from quality import suites
from tests import plain_expectations
from tests.replayed_models import ReplayedProject
from warehouse import build, connection
from warehouse.dbt_run import DbtProject

# A shell starts background processes with SIGINT ignored, and children inherit that. Dagster then
# ignores SIGTERM as well, so a test could not stop a server.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Without compiled files, every process compiles its libraries again, which takes longer than most
# tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The width of tables depends on this variable.
os.environ.pop("COLUMNS", None)

# `make test` uses the same few examples in every run. The deeper tiers use different examples for
# each commit, from the seed that their command prints. No example is kept for the next run.
EVERY_PROFILE = {
    "database": None,
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("test", derandomize=True, max_examples=20, **EVERY_PROFILE)
settings.register_profile("random", max_examples=int(os.environ.get("N", "100")), **EVERY_PROFILE)
settings.load_profile("test")

WITH_ENGINES = ("engines", "servers", "explore")
"""Markers of tests that run dbt and Great Expectations, also in processes that a test starts. Other
tests replay the recorded statements of dbt and evaluate the suites without Great Expectations,
which would take most of their time.
"""
VALIDATE = suites._validate
THREADS = connection.THREAD_LIMIT

LONG_FILES = (
    "test_spark_cluster.py",
    "test_spark_engine.py",
    "test_pages_in_a_browser.py",
    "test_images.py",
    "test_up_survives_kills.py",
    "test_ledger_bills_fake_gpus.py",
    "test_shipped_rules.py",
    "test_collector_follows_real_cluster.py",
    "test_alerts_reach_alertmanager.py",
    "test_fake_equals_control_plane.py",
    "test_dagster_month.py",
    "test_pages_as_typed.py",
    "test_simulated_months.py",
    "test_closed_months_rebuilt.py",
    "test_thin_line.py",
    "test_home_of_release.py",
    "test_demo_kept_running.py",
    "test_mutants.py",
    "test_damaged_files.py",
)
"""Files that run first: each takes a minute or more, and at the end of a tier it would keep one
process busy while the others have no file left.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: number for number, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Collect garbage less often, and never in the imported modules: it took 6 % of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    with_engines = any(item.get_closest_marker(name) for name in WITH_ENGINES)
    build.DbtProject = DbtProject if with_engines else ReplayedProject  # type: ignore[misc]
    suites._validate = VALIDATE if with_engines else plain_expectations.validate
    # The rows of a test are too few for a second thread, which only costs time.
    connection.THREAD_LIMIT = THREADS if with_engines else 1
