"""The models and the hour ledger select the same attempts of an hour.

Put here: random attempts, and the selection of both.
Not here: examples of the rule (`int_attempts_used.yml`, `tests/unit/test_hours.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.decisions.rows import Source
from ingestion.evidence.hour_ledger import HourEntry, HourResponse
from warehouse.connection import connected
from warehouse.manifest import Hour, Outcome
from warehouse.project import dbt_project_dir

if TYPE_CHECKING:
    import duckdb

HOUR = datetime(2026, 10, 9, 14, tzinfo=UTC)
MODEL = dbt_project_dir() / "models" / "intermediate" / "int_attempts_used.sql"
REFERENCE = "{{ ref('stg_landing__attempts') }}"


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with connected(":memory:") as opened:
        opened.execute(
            "create table attempts (cluster_id varchar, source varchar, hour_second bigint, "
            "attempt_id varchar, attempt_sequence bigint, outcome varchar, "
            "sample_interval_seconds bigint, scrape_interval_seconds bigint)"
        )
        yield opened


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(Source), st.sampled_from(Outcome)),
        max_size=12,
    )
)
def test_the_models_count_the_attempts_that_the_hour_ledger_counts(
    connection: duckdb.DuckDBPyConnection, drawn: list[tuple[str, Source, Outcome]]
) -> None:
    entries: dict[tuple[str, Source], tuple[HourResponse, ...]] = {}
    connection.execute("delete from attempts")
    for sequence, (cluster_id, source, outcome) in enumerate(drawn):
        # The sequence decides, because the clock of the machine may have been set back.
        asked_at = HOUR - timedelta(minutes=sequence)
        response = HourResponse(f"{sequence}", sequence, asked_at, Hour(HOUR, outcome))
        entries[cluster_id, source] = (*entries.get((cluster_id, source), ()), response)
        row = (cluster_id, source, 0, response.attempt_id, sequence, outcome, 30, 30)
        connection.execute("insert into attempts values (?, ?, ?, ?, ?, ?, ?, ?)", row)
    sql = MODEL.read_text(encoding="utf-8").replace(REFERENCE, "attempts")
    counted = {row[0] for row in connection.sql(f"select attempt_id from ({sql})").fetchall()}
    assert counted == {
        response.attempt_id
        for (cluster_id, source), responses in entries.items()
        for response in HourEntry(cluster_id, source, HOUR, responses).used
    }
