"""What holds for every test process.

Put here: what the way in which tests are started must not change. Not here: fixtures, which
stand beside their tests.
"""

from __future__ import annotations

import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

from quality import suites
from tests import plain_expectations
from tests.replayed_models import ReplayedProject
from warehouse import build
from warehouse.dbt_run import DbtProject

# A shell starts what runs in the background deaf to Ctrl-C, children inherit that, and Dagster
# gives SIGTERM the same treatment: no server that a test starts could then be stopped.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where compiled files are not kept, every process compiles its libraries again, which takes longer
# than most tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How wide somebody's terminal is, is no business of a test: tables obey it.
os.environ.pop("COLUMNS", None)

# `make test` draws the same few examples in every run. The deeper tiers draw other ones for each
# commit, from the seed that their command prints. Nothing is kept from one run for the next.
EVERY_PROFILE = {
    "database": None,
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("test", derandomize=True, max_examples=20, **EVERY_PROFILE)
settings.register_profile("random", max_examples=int(os.environ.get("N", "100")), **EVERY_PROFILE)
settings.load_profile("test")

WITH_ENGINES = ("engines", "servers", "explore")
"""Markers of tests that run dbt and Great Expectations, as does every process that a test starts.
The others replay the statements that dbt ran, and evaluate the suites plainly: most of their time
would be that of the engines."""
VALIDATE = suites._validate


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    with_engines = any(item.get_closest_marker(name) for name in WITH_ENGINES)
    build.DbtProject = DbtProject if with_engines else ReplayedProject  # type: ignore[misc]
    suites._validate = VALIDATE if with_engines else plain_expectations.validate
