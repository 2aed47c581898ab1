"""Derived files of a day become one per table; a kill in between loses and duplicates nothing.

Put here: the rows that compaction keeps, the time of its run, and its kill points.
Not here: how files are read by a build (`test_warehouse_build`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from domain.clock import StoppedClock
from domain.decisions.rows import Source
from domain.interval import HOUR, Interval
from ingestion.evidence.compaction import SETTLED_AFTER, compact, finish
from ingestion.evidence.landing import Landing
from ingestion.evidence.parquet_files import Derivation
from ingestion.rebuild import derivations, rebuild
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.redecode import replay
from ingestion.thanos.runs import KINDS
from tests.derived_rows import rows_landed
from tests.samples_by_hand import CLUSTER, NODE, UP, Form, Server, every_ten_minutes, matrix
from warehouse.derived_files import NOTE_SUFFIX, PARQUET_SUFFIX, DerivedFolder
from warehouse.store import FolderStore

MIDNIGHT = datetime(2026, 10, 1, tzinfo=UTC)
SETTLED = MIDNIGHT + SETTLED_AFTER
SAMPLES = {Source.THANOS: derivations()[Source.THANOS]}
LOST = {"attempt_id"}


class Killed(BaseException):
    """Not an Exception, so that no code handles it."""


def answering(form: Form) -> Any:
    if form["query"].startswith("up") and "[" in form["query"]:
        end = int(form["time"]) - 600
        return matrix((UP[0], every_ten_minutes("1", end - 3600)))
    if "kube_node_info" in form["query"]:
        end = int(form["time"]) - 600
        return matrix((NODE[0], every_ten_minutes("1", end - 3600)))
    return matrix()


def home_of(
    tmp_path: Path,
    hours: int,
    again: tuple[int, ...] = (),
    answer: Callable[[Form], Any] = answering,
) -> tuple[Landing, Path]:
    landing = Landing(FolderStore(tmp_path / "landing"))
    clock = StoppedClock(MIDNIGHT + timedelta(days=5))
    for number in (*range(hours), *again):
        window = Interval(MIDNIGHT + number * HOUR, MIDNIGHT + (number + 1) * HOUR)
        client = Server(answer).client()
        pull_hours(CLUSTER, window, landing, tmp_path / "runs", clock, client)
    return landing, tmp_path / "runs"


def rows(landing: Landing, runs: Path, table: str, without: set[str] = frozenset()) -> list[str]:  # type: ignore[assignment]
    """All rows of a table, as a build reads them."""
    found = rows_landed(landing, runs, "c1", table)
    return sorted(str({k: v for k, v in row.items() if k not in without}) for row in found)


def test_a_final_day_becomes_one_file_per_table_with_the_same_rows(tmp_path: Path) -> None:
    landing, runs = home_of(tmp_path, 3)
    before = {table: rows(landing, runs, table) for table in ("runs", "telemetry")}
    assert compact(landing, runs, SETTLED, SAMPLES) == 1
    assert {table: rows(landing, runs, table) for table in ("runs", "telemetry")} == before
    found = sorted(path.name for path in (runs / "thanos/c1").iterdir())
    assert found == [
        f"2026-10-01{NOTE_SUFFIX}",
        f"2026-10-01.runs{PARQUET_SUFFIX}",
        f"2026-10-01.series{PARQUET_SUFFIX}",
        f"2026-10-01.telemetry{PARQUET_SUFFIX}",
    ]


def test_a_day_without_responses_is_compacted(tmp_path: Path) -> None:
    landing, runs = home_of(tmp_path, 2, answer=lambda _: matrix())
    assert compact(landing, runs, SETTLED, SAMPLES) == 1
    assert rows(landing, runs, "series") == []


def test_a_day_stores_the_labels_of_a_series_once(tmp_path: Path) -> None:
    landing, runs = home_of(tmp_path, 3)
    labels = set(rows(landing, runs, "series", LOST))
    assert len(rows(landing, runs, "series")) == 6
    compact(landing, runs, SETTLED, SAMPLES)
    assert len(rows(landing, runs, "series")) == 2
    assert set(rows(landing, runs, "series", LOST)) == labels


def test_a_day_that_may_still_change_is_not_compacted(tmp_path: Path) -> None:
    landing, runs = home_of(tmp_path, 2)
    assert compact(landing, runs, SETTLED - timedelta(seconds=1), SAMPLES) == 0
    assert compact(landing, runs, SETTLED, SAMPLES) == 1
    assert compact(landing, runs, SETTLED, SAMPLES) == 0


def test_a_late_attempt_is_added_to_its_day(tmp_path: Path) -> None:
    landing, runs = home_of(tmp_path, 2)
    compact(landing, runs, SETTLED, SAMPLES)
    landing, runs = home_of(tmp_path, 0, again=(1, 2))
    before = rows(landing, runs, "runs")
    assert compact(landing, runs, SETTLED, SAMPLES) == 1
    assert rows(landing, runs, "runs") == before
    assert len(DerivedFolder.of(runs, "thanos", "c1").compacted()) == 4


def test_compacting_in_one_or_several_steps_gives_the_same_files(
    tmp_path: Path,
) -> None:
    landing, runs = home_of(tmp_path, 2)
    compact(landing, runs, SETTLED, SAMPLES)
    landing, runs = home_of(tmp_path, 0, again=(2, 3))
    compact(landing, runs, SETTLED, SAMPLES)
    stepwise = {path.name: path.read_bytes() for path in (runs / "thanos/c1").iterdir()}
    rebuild(landing, runs)
    compact(landing, runs, SETTLED, SAMPLES)
    at_once = {path.name: path.read_bytes() for path in (runs / "thanos/c1").iterdir()}
    assert at_once == stepwise


def test_compacted_attempts_are_known(tmp_path: Path) -> None:
    landing, runs = home_of(tmp_path, 2)
    compact(landing, runs, SETTLED, SAMPLES)
    assert rebuild(landing, runs, missing_only=True) == 0
    folder = DerivedFolder.of(runs, "thanos", "c1")
    assert {attempt.attempt_id for attempt in landing.attempts()} <= folder.present()


def test_a_day_with_a_deleted_file_is_rebuilt_from_the_landing(tmp_path: Path) -> None:
    landing, runs = home_of(tmp_path, 2)
    before = {table: rows(landing, runs, table) for table in KINDS}
    for table in KINDS:
        compact(landing, runs, SETTLED, SAMPLES)
        (runs / f"thanos/c1/2026-10-01.{table}{PARQUET_SUFFIX}").unlink()
        assert rebuild(landing, runs, missing_only=True) == 2, table
        assert {table: rows(landing, runs, table) for table in KINDS} == before


def test_a_day_with_a_missing_file_is_rebuilt_before_compaction(tmp_path: Path) -> None:
    landing, runs = home_of(tmp_path, 2)
    next((runs / "thanos/c1").glob(f"*.series{PARQUET_SUFFIX}")).unlink()
    assert compact(landing, runs, SETTLED, SAMPLES) == 0
    rebuild(landing, runs, missing_only=True)
    assert compact(landing, runs, SETTLED, SAMPLES) == 1


def killed_at(step: int, act: Callable[[], object]) -> bool:
    """Whether the function was killed at its n-th change of the folder."""
    left = step

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            return real(*arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "replace", dying(os.replace))
        patched.setattr(Path, "unlink", dying(Path.unlink))
        try:
            act()
        except Killed:
            return True
    return False


def test_a_kill_anywhere_loses_and_duplicates_no_row(tmp_path: Path) -> None:
    """Also in a second compaction of a day, with old and new files in one folder."""
    step = 0
    killed = True
    while killed:
        step += 1
        home = tmp_path / str(step)
        landing, runs = home_of(home, 1)
        compact(landing, runs, SETTLED, SAMPLES)
        landing, runs = home_of(home, 0, again=(0, 1))
        before = rows(landing, runs, "runs")
        labels = set(rows(landing, runs, "series", LOST))
        killed = killed_at(step, lambda: compact(landing, runs, SETTLED, SAMPLES))  # noqa: B023
        finish(runs)
        assert rows(landing, runs, "runs") == before, step
        compact(landing, runs, SETTLED, SAMPLES)
        assert rows(landing, runs, "runs") == before, step
        assert set(rows(landing, runs, "series", LOST)) == labels
        hidden = [path.name for path in (runs / "thanos/c1").iterdir() if path.name[0] == "."]
        assert [name for name in hidden if not name.endswith(".unfinished")] == [], step
    assert step > 12


AS_IT_IS = {Source.THANOS: Derivation(replay, KINDS)}
WRITTEN_AGAIN = {Source.THANOS: Derivation(replay, KINDS, lambda tables: tables)}


def test_a_day_of_one_attempt_equals_a_day_written_again(
    tmp_path: Path,
) -> None:
    days = []
    for name, how in (("kept", AS_IT_IS), ("again", WRITTEN_AGAIN)):
        landing, runs = home_of(tmp_path / name, 1)
        assert compact(landing, runs, SETTLED, how) == 1
        days.append({path.name: path.read_bytes() for path in (runs / "thanos/c1").iterdir()})
        assert compact(landing, runs, SETTLED, how) == 0
    assert len(days[0]) == 4
    assert days[0] == days[1]


def test_a_kill_while_a_single_attempt_is_compacted_loses_nothing(tmp_path: Path) -> None:
    step = 0
    killed = True
    while killed:
        step += 1
        landing, runs = home_of(tmp_path / str(step), 1)
        before = rows(landing, runs, "runs")
        killed = killed_at(step, lambda: compact(landing, runs, SETTLED, AS_IT_IS))  # noqa: B023
        compact(landing, runs, SETTLED, AS_IT_IS)
        assert rows(landing, runs, "runs") == before, step
        hidden = [path.name for path in (runs / "thanos/c1").iterdir() if path.name[0] == "."]
        assert [name for name in hidden if not name.endswith(".unfinished")] == [], step
    assert step > 8


def test_an_attempt_belongs_to_the_day_of_its_windows_start(tmp_path: Path) -> None:
    landing, runs = home_of(tmp_path, 1)
    compact(landing, runs, SETTLED, SAMPLES)
    folder = DerivedFolder.of(runs, "thanos", "c1")
    assert set(folder.compacted().values()) == {date(2026, 10, 1)}
