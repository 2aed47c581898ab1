"""What holds for every test process.

Put here: what the way in which tests are started must not change. Not here: fixtures, which
stand beside their tests.
"""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

# A shell starts what runs in the background deaf to Ctrl-C, children inherit that, and Dagster
# gives SIGTERM the same treatment: no server that a test starts could then be stopped.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

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
