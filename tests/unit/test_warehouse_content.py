"""The hash of a table's rows.

Not here: comparison of hashes (`warehouse.switched`, `quality`).
"""

from __future__ import annotations

import duckdb
import pytest

from warehouse.content_hash import table_sha256


def hash_of(*rows: str, columns: str = "a varchar, b varchar") -> str:
    with duckdb.connect() as connection:
        connection.execute(f"create schema marts; create table marts.t ({columns})")
        for row in rows:
            connection.execute(f"insert into marts.t values {row}")
        return table_sha256(connection, "marts", "t")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("('a,b', 'c')", "('a', 'b,c')"),
        (r"('a\', 'c')", r"('a', '\c')"),
        (r"('a\,b', 'c')", r"('a\', 'b,c')"),
        (r"('\n', 'c')", "(null, 'c')"),
        ("('', 'c')", "(null, 'c')"),
    ],
)
def test_two_rows_never_share_a_hash(one: str, other: str) -> None:
    assert hash_of(one) != hash_of(other)


def test_lists_and_scalars_with_equal_text_differ() -> None:
    columns = "a varchar[], b bigint"
    assert hash_of("(['a', 'b'], 1)", columns=columns) != hash_of("(['a, b'], 1)", columns=columns)


def test_the_order_of_rows_does_not_matter() -> None:
    rows = ["('a', 'b')", "('c', null)", "('a', 'b')"]
    assert hash_of(*rows) == hash_of(*reversed(rows)) != hash_of(*rows[:2])
