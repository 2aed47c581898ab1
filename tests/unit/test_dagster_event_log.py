"""The event log that holds its files, against Dagster's own: the same rows in the same files.

Put here: what is written, when it is whole, and what stays open.
Not here: how long it takes (`bench_backfill`).
"""

# No `from __future__ import annotations` here: Dagster reads the types of parameters.

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.event_log import SqliteEventLogStorage

from orchestration.event_log import INDEX, HeldEventLog

HOURS = ("2026-10-01T00", "2026-10-01T01", "2026-10-01T02")


@dg.asset(
    partitions_def=dg.HourlyPartitionsDefinition(HOURS[0], timezone="UTC", fmt="%Y-%m-%dT%H"),
    check_specs=[dg.AssetCheckSpec("whole", asset="hours")],
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def hours(context: dg.AssetExecutionContext) -> Iterator[Any]:
    context.log_event(dg.AssetObservation("hours", partition=HOURS[1], description="degraded"))
    yield dg.MaterializeResult(metadata={"series": 7}, tags={"why": "late"})
    yield dg.AssetCheckResult(check_name="whole", passed=False)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Any]:
    """Every event of a run of three hours, as Dagster itself kept it."""
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("stock"))) as instance:
        ran = dg.materialize(
            [hours],
            instance=instance,
            tags={
                "dagster/asset_partition_range_start": HOURS[0],
                "dagster/asset_partition_range_end": HOURS[-1],
            },
        )
        return [
            record.event_log_entry for record in instance.get_records_for_run(ran.run_id).records
        ]


@contextmanager
def log_in(folder: Path, kind: type[Any]) -> Iterator[Any]:
    log = kind(str(folder))
    yield log
    log.dispose()


def rows(folder: Path) -> dict[str, list[str]]:
    """All rows of all files, but for when they were written."""
    found = {}
    for path in sorted(folder.glob("*.db")):
        with closing(sqlite3.connect(path)) as connection:
            tables = connection.execute("select name from sqlite_master where type = 'table'")
            for (table,) in tables.fetchall():
                columns = [row[1] for row in connection.execute(f"pragma table_info({table})")]
                said_when = ("create_timestamp", "update_timestamp", "migration_completed")
                kept = ", ".join(f'"{name}"' for name in columns if name not in said_when)
                said = connection.execute(f"select {kept} from {table}").fetchall()
                found[f"{path.name} {table}"] = sorted(map(repr, said))
    return found


def test_it_writes_what_dagsters_own_class_writes(told: Sequence[Any], tmp_path: Path) -> None:
    with log_in(tmp_path / "stock", SqliteEventLogStorage) as log:
        for event in told:
            log.store_event(event)
    with log_in(tmp_path / "held", HeldEventLog) as log:
        for event in told:
            log.store_event(event)

    expected = rows(tmp_path / "stock")
    assert rows(tmp_path / "held") == expected
    assert len(expected["index.db event_logs"]) >= 3 + 3 + 1 + 2  # planned, made, seen, checked


def test_a_batch_is_the_same_rows_and_whole_or_not_there(
    told: Sequence[Any], tmp_path: Path
) -> None:
    together = [
        event
        for event in told
        if event.is_dagster_event and event.dagster_event_type.value.startswith("ASSET_")
    ]
    with log_in(tmp_path / "stock", SqliteEventLogStorage) as log:
        for event in together:
            log.store_event(event)
    with log_in(tmp_path / "held", HeldEventLog) as log:
        broken = [*together[:-1], together[-1]._replace(dagster_event="not an event")]
        with pytest.raises(Exception, match="Not a dagster event"):
            log.store_event_batch(broken)
        before = rows(tmp_path / "held")
        log.store_event_batch(together)

    assert before["index.db event_logs"] == []
    assert rows(tmp_path / "held") == rows(tmp_path / "stock")


def test_either_class_reads_and_goes_on_with_what_the_other_wrote(
    told: Sequence[Any], tmp_path: Path
) -> None:
    half = len(told) // 2
    with log_in(tmp_path, SqliteEventLogStorage) as stock, log_in(tmp_path, HeldEventLog) as held:
        for event in told[:half]:
            stock.store_event(event)
        held.store_event_batch(told[half:])
        for log in (stock, held):
            read = log.get_records_for_run(told[0].run_id).records
            assert [record.event_log_entry for record in read] == list(told)


def test_the_pages_are_shown_a_run_within_a_second_and_its_end_at_once(
    told: Sequence[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They look whether a run's file has changed; an open one has a log beside it instead."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    steps = [event for event in told if event.step_key]
    [end] = [event for event in told if event.dagster_event_type is dg.DagsterEventType.RUN_SUCCESS]
    with log_in(tmp_path, HeldEventLog) as log:

        def hidden(event: Any) -> bool:
            log.store_event(event)
            return (tmp_path / f"{event.run_id}.db-wal").exists()

        assert not hidden(steps[0])
        assert hidden(steps[1])
        now[0] += 1.0
        assert not hidden(steps[2])
        assert hidden(steps[3])
        log.get_records_for_run(end.run_id)
        assert not (tmp_path / f"{end.run_id}.db-wal").exists()
        assert not hidden(end)


def test_the_last_event_before_a_long_silence_is_shown_too(
    told: Sequence[Any], tmp_path: Path
) -> None:
    first, second = [event for event in told if event.step_key][:2]
    with log_in(tmp_path, HeldEventLog) as log:
        log.store_event(first)
        log.store_event(second)
        beside = tmp_path / f"{second.run_id}.db-wal"
        assert beside.exists()
        until = time.monotonic() + 60
        while beside.exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert not beside.exists()


def test_few_files_of_runs_are_held(
    told: Sequence[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestration.event_log.RUNS_HELD", 2)
    with log_in(tmp_path, HeldEventLog) as log:
        for number in range(4):
            log.store_event(told[0]._replace(run_id=f"run-{number}"))
        assert list(log._engines) == [INDEX, "run-2", "run-3"]
        log.wipe()
        log.store_event(told[0]._replace(run_id="run-0"))
        assert len(rows(tmp_path)["run-0.db event_logs"]) == 1
