"""The amount of `make explore`.

Put here: the marker of tests that are one long case.
Not here: tests that repeat a case N times, which read N themselves.
"""

from __future__ import annotations

import os

import pytest

one_long_case = pytest.mark.skipif(
    int(os.environ.get("N", "1000")) < 1000, reason="one long case: runs with N=1000 and more"
)
"""A fraction of one case would test nothing, and a whole one takes minutes."""
