"""A flipped bit in a derived file is found, and the file is decoded again from the landing.

Put here: flipped bits in the files and notes of both sources, in single files and in days.
Not here: a refresh that finds one (`tests/scenarios/test_thin_line`).
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from domain.clock import StoppedClock
from domain.decisions.rows import Source
from domain.interval import HOUR, Interval
from ingestion.evidence.landing import Landing
from ingestion.kubernetes.journal import JournalWriter
from ingestion.kubernetes.journal_decoder import write_lifecycle
from ingestion.kubernetes.journal_lines import line_of
from ingestion.kubernetes.lifecycle_tables import TABLES
from ingestion.kubernetes.pull import pull_hours as pull_journal
from ingestion.rebuild import compact_settled, rebuild, repair_runs
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.runs import KINDS
from tests.samples_by_hand import CLUSTER, TEN, Server, healthy
from warehouse.derived_files import NOTE_SUFFIX, DerivedFilesNote, DerivedFolder, read_note
from warehouse.store import FolderStore

LATER = TEN + timedelta(days=5)
FLIPS_PER_FILE = 25
FLIPS_PER_FILE_OF_A_DAY = 4  # after each one the day is built again


def landed(home: Path) -> Landing:
    """Land and decode two hours of samples, in one attempt each, and one hour of a journal."""
    landing = Landing(FolderStore(home / "landing"))
    for hour in (TEN, TEN + HOUR):
        window = Interval(hour, hour + HOUR)
        client = Server(healthy).client()
        pull_hours(CLUSTER, window, landing, home / "runs", StoppedClock(LATER), client)
    spool = FolderStore(home / "spool")
    writer = JournalWriter(spool, "c1", "collector", "0.1.0")
    writer.add([line_of("watched", TEN, resource="pods", until="2026-10-01T10:59:59Z")])
    writer.flush(TEN)
    attempt = pull_journal("c1", Interval(TEN, TEN + HOUR), spool, landing, StoppedClock(LATER))
    write_lifecycle(landing, home / "runs", attempt)
    return landing


def files(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted((home / "runs").rglob("*.*.*"))}


def flipped(body: bytes, place: int, bit: int) -> bytes:
    return body[:place] + bytes([body[place] ^ 1 << bit]) + body[place + 1 :]


@pytest.mark.deep
@pytest.mark.parametrize("compacted", [False, True], ids=["loose", "days"])
def test_a_flipped_bit_anywhere_is_repaired(
    tmp_path: Path, compacted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    landing = landed(tmp_path)
    if compacted:
        assert compact_settled(landing, tmp_path / "runs", LATER) == 2
    before = files(tmp_path)
    parts = (1, 1) if compacted else (2, 1)
    assert len(before) == parts[0] * (len(KINDS) + 1) + parts[1] * (len(TABLES) + 1)
    rng = random.Random(20261001)
    flips = FLIPS_PER_FILE_OF_A_DAY if compacted else FLIPS_PER_FILE
    for path, body in before.items():
        for place in sorted(rng.sample(range(len(body)), flips)):
            caplog.clear()
            path.write_bytes(flipped(body, place, rng.randrange(8)))
            assert repair_runs(landing, tmp_path / "runs") >= 1, (path.name, place)
            assert [path.name in line for line in caplog.messages] == [True]
            if compacted:
                compact_settled(landing, tmp_path / "runs", LATER)
            assert files(tmp_path) == before, (path.name, place)
    caplog.clear()
    assert repair_runs(landing, tmp_path / "runs") == 0
    assert caplog.messages == []


def test_one_message_names_one_file_and_counts_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    landing = landed(tmp_path)
    for path in (tmp_path / "runs").rglob("*.parquet"):
        path.write_bytes(b"PAR1")
    assert repair_runs(landing, tmp_path / "runs") == 3
    [line] = caplog.messages
    others = 2 * len(KINDS) + len(TABLES) - 1
    assert line.startswith("runs/thanos/c1/")
    assert f"and {others} more: not as it was written" in line


@pytest.mark.parametrize("note", ["none", '["an", "earlier", "form"]', "{}", "\x00"])
def test_files_with_an_empty_note_are_decoded_again(tmp_path: Path, note: str) -> None:
    landing = landed(tmp_path)
    before = files(tmp_path)
    for path in (tmp_path / "runs").rglob(f"*{NOTE_SUFFIX}"):
        path.unlink() if note == "none" else path.write_text(note)
    assert repair_runs(landing, tmp_path / "runs") == 3
    assert files(tmp_path) == before


def test_only_the_selected_hours_are_read(tmp_path: Path) -> None:
    landing = landed(tmp_path)
    [first, _] = landing.attempts(source=Source.THANOS)
    loose = DerivedFolder.of(tmp_path / "runs", "thanos", "c1").loose(first.attempt_id, "runs")
    loose.write_bytes(b"PAR1")
    assert repair_runs(landing, tmp_path / "runs", taken=hours_from(TEN + HOUR)) == 0
    assert repair_runs(landing, tmp_path / "runs", taken=hours_from(TEN)) == 1
    assert len(loose.read_bytes()) > 4


def hours_from(hour: datetime) -> Mapping[Source, Interval]:
    return dict.fromkeys(Source, Interval(hour, TEN + 2 * HOUR))


def test_a_day_is_not_built_from_a_changed_file(tmp_path: Path) -> None:
    """Otherwise wrong rows would get a valid hash."""
    landing = landed(tmp_path)
    whole = tmp_path / "whole"
    shutil.copytree(tmp_path / "runs", whole)
    assert compact_settled(landing, whole, LATER) == 2
    attempt = landing.attempts(source=Source.THANOS)[0]
    loose = DerivedFolder.of(tmp_path / "runs", "thanos", "c1").loose(attempt.attempt_id, "runs")
    loose.write_bytes(flipped(loose.read_bytes(), 60, 3))
    assert compact_settled(landing, tmp_path / "runs", LATER) == 1
    assert repair_runs(landing, tmp_path / "runs") == 1
    assert compact_settled(landing, tmp_path / "runs", LATER) == 1
    in_runs = {path.name: body for path, body in files(tmp_path).items()}
    assert in_runs == {path.name: path.read_bytes() for path in whole.rglob("*.*.*")}


def test_a_rebuild_writes_notes(tmp_path: Path) -> None:
    landing = landed(tmp_path)
    before = files(tmp_path)
    assert rebuild(landing, tmp_path / "runs") == 3
    assert files(tmp_path) == before


def test_an_edited_note_is_not_valid(tmp_path: Path) -> None:
    path = tmp_path / "note"
    note = DerivedFilesNote(("a", "b"), {"runs": "00", "series": "11"})
    path.write_bytes(note.text())
    assert read_note(path) == note
    path.write_bytes(note.text().replace(b'"00"', b'"01"'))
    assert read_note(path) is None
