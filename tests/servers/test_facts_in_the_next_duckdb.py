"""The next DuckDB version calculates the same canonical bytes from the same evidence (invariant
22).

Put here: one fleet. Not here: the method (`tests/another_duckdb.py`), or reading the published
copy (`test_published_copy_in_other_duckdbs`).
"""

from __future__ import annotations

import pytest

from tests.another_duckdb import NEXT, compare

pytestmark = pytest.mark.servers


def test_the_next_duckdb_counts_the_same_facts() -> None:
    assert compare(NEXT, seeds=(3,)).startswith("DuckDB ")
