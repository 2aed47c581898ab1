"""What holds for every test process.

Put here: what the way in which tests are started must not change. Not here: fixtures, which
stand beside their tests.
"""

from __future__ import annotations

import os
import signal

# A shell starts what runs in the background deaf to Ctrl-C, children inherit that, and Dagster
# gives SIGTERM the same treatment: no server that a test starts could then be stopped.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How wide somebody's terminal is, is no business of a test: tables obey it.
os.environ.pop("COLUMNS", None)
