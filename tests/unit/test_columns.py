"""Columns made from their bytes are the columns that pyarrow makes from Python's values.

Put here: every kind of column, with and without values, against `pyarrow.array`.
Not here: which tables have them.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion import columns
from ingestion.derived import ZSTD_LEVEL, write_parquet

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANTS = st.integers(0, 2**52).map(lambda micros: EPOCH + timedelta(microseconds=micros))
KINDS: dict[str, tuple[st.SearchStrategy[Any], pa.DataType]] = {
    "text": (st.none() | WORDS, pa.string()),
    "whole": (st.none() | st.integers(-(2**63), 2**63 - 1), pa.int64()),
    "flag": (st.none() | st.booleans(), pa.bool_()),
    "time": (st.none() | INSTANTS, pa.timestamp("us", "UTC")),
    "texts": (st.lists(WORDS, max_size=3), pa.list_(pa.string())),
    "labels": (st.lists(st.tuples(WORDS, WORDS), max_size=3), pa.map_(pa.string(), pa.string())),
}


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_a_column_is_what_pyarrow_makes_of_the_same_values(kind: str, data: st.DataObject) -> None:
    values, type_ = KINDS[kind]
    chosen = data.draw(st.lists(values, max_size=20))
    found = columns.column(chosen, kind)
    found.validate(full=True)
    assert found.equals(pa.array(chosen, type_))


@given(st.lists(st.none() | st.floats(allow_nan=False), max_size=20))
def test_a_fraction_that_is_none_is_null(values: list[float | None]) -> None:
    found = columns.numbers(np.array(values, np.float64))
    found.validate(full=True)
    assert found.equals(pa.array(values, pa.float64()))


@given(st.lists(st.none() | st.binary(min_size=16, max_size=16), max_size=20))
def test_sixteen_bytes_come_back(values: list[bytes | None]) -> None:
    found = columns.sixteen_bytes(values)
    found.validate(full=True)
    assert found.storage.to_pylist() == values


def test_instants_and_repeated_words_come_back() -> None:
    second = datetime(2026, 10, 1, tzinfo=UTC)
    millis = np.array([int(second.timestamp() * 1000) + 137], np.int64)
    [found] = columns.milliseconds(millis).to_pylist()
    assert found == second + timedelta(milliseconds=137)
    assert columns.constant("a", 3).to_pylist() == ["a", "a", "a"]
    assert columns.constant("a", 0).to_pylist() == []
    assert columns.named(np.array([1, 0, 1]), ["x", "y"]).to_pylist() == ["y", "x", "y"]


def test_asking_for_an_hour_imports_no_pandas(tmp_path: Path) -> None:
    """Half a second of a command that takes one; other tools import it, and we do not."""
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.unit.test_limits_of_ingestion import pull\n"
        "from tests.samples_by_hand import Server, healthy\n"
        "from ingestion.kubernetes.tables import TABLES, filled\n"
        "sys.modules.pop('pandas', None)\n"
        "attempt = pull(Path(sys.argv[1]), Server(healthy))\n"
        "assert all(filled(table, attempt, []).num_rows == 0 for table in TABLES)\n"
        "print('pandas' in sys.modules)\n"
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", code, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=root, check=True)
    assert run.stdout == "False\n"


def test_a_file_without_rows_is_what_would_have_been_written(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())})
    for name in ("first", "second"):
        write_parquet(tmp_path / name, table)
    pq.write_table(table, tmp_path / "plain", compression="zstd", compression_level=ZSTD_LEVEL)
    written = [(tmp_path / name).read_bytes() for name in ("first", "second", "plain")]
    assert written == [written[0]] * 3
