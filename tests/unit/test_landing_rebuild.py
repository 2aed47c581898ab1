"""Derived files are decoded again from the landing, with equal content.

Put here: rebuilding all or missing files, and responses that are not decoded as before.
Not here: the decoding of a response.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from domain.clock import StoppedClock
from domain.errors import OtherVersionNeeded
from domain.interval import Interval
from ingestion.evidence.landing import BodyChanged, Landing
from ingestion.rebuild import rebuild
from ingestion.thanos.pull import pull_hours
from tests.samples_by_hand import CLUSTER, TEN, Form, Server, healthy, in_union
from warehouse.derived_files import PARQUET_SUFFIX
from warehouse.manifest import Attempt, Outcome
from warehouse.store import FolderStore


def landed(tmp_path: Path) -> tuple[Landing, Attempt]:
    landing = Landing(FolderStore(tmp_path / "landing"))
    window = Interval(TEN, TEN + timedelta(hours=1))
    server = Server(lambda form: in_union(form, with_unions=True))
    clock = StoppedClock(TEN + timedelta(days=2))
    return landing, pull_hours(CLUSTER, window, landing, tmp_path / "runs", clock, server.client())


def content(tmp_path: Path) -> dict[str, bytes]:
    files = sorted((tmp_path / "runs").rglob("*.parquet"))
    return {path.name: path.read_bytes() for path in files}


def test_everything_is_rebuilt_to_the_same_bytes(tmp_path: Path) -> None:
    landing, _ = landed(tmp_path)
    before = content(tmp_path)
    assert len(before) == 3
    assert rebuild(landing, tmp_path / "runs") == 1
    assert content(tmp_path) == before


@pytest.mark.parametrize("kind", ["runs", "series", "telemetry"])
def test_a_crash_between_the_manifest_and_its_files_is_repaired(tmp_path: Path, kind: str) -> None:
    landing, attempt = landed(tmp_path)
    before = content(tmp_path)
    (tmp_path / f"runs/thanos/c1/{attempt.attempt_id}.{kind}{PARQUET_SUFFIX}").unlink()
    assert rebuild(landing, tmp_path / "runs", missing_only=True) == 1
    assert content(tmp_path) == before
    assert rebuild(landing, tmp_path / "runs", missing_only=True) == 0


def test_derived_files_without_a_landed_attempt_are_deleted(tmp_path: Path) -> None:
    landing, _ = landed(tmp_path)
    stray = tmp_path / "runs/thanos/c1/deadbeef.runs.parquet"
    stray.write_bytes(b"made up")
    rebuild(landing, tmp_path / "runs")
    assert not stray.exists()


def test_a_failed_response_is_rebuilt_without_runs(tmp_path: Path) -> None:
    no_time = {"metric": {}, "values": [["ten o'clock", "1"]]}
    body = {"status": "success", "data": {"resultType": "matrix", "result": [no_time]}}

    def answering(form: Form) -> httpx.Response:
        return httpx.Response(200, json=body) if "phase" in form["query"] else healthy(form)

    landing = Landing(FolderStore(tmp_path / "landing"))
    attempt = pull_hours(
        CLUSTER,
        Interval(TEN, TEN + timedelta(hours=1)),
        landing,
        tmp_path / "runs",
        StoppedClock(TEN + timedelta(days=2)),
        Server(answering).client(),
    )
    assert attempt.outcome is Outcome.DEGRADED
    before = content(tmp_path)
    rebuild(landing, tmp_path / "runs")
    assert content(tmp_path) == before


def test_changed_evidence_stops_a_rebuild_and_names_the_file(tmp_path: Path) -> None:
    landing, attempt = landed(tmp_path)
    digest = max(attempt.answers, key=lambda answer: answer.byte_count).sha256
    path = tmp_path / f"landing/objects/{digest[:2]}/{digest}.zst"
    changed = bytearray(path.read_bytes())
    changed[-5] ^= 1
    path.write_bytes(changed)
    with pytest.raises(BodyChanged, match=digest):
        rebuild(landing, tmp_path / "runs")


def test_a_changed_decoding_stops_a_rebuild(tmp_path: Path) -> None:
    landing, attempt = landed(tmp_path)
    bad = landing.land_body(json.dumps({"status": "error"}).encode())
    answers = tuple(
        replace(answer, sha256=bad.sha256) if answer.ask == "phase" else answer
        for answer in attempt.answers
    )
    landing.append_attempt(replace(attempt.draft, answers=answers))
    with pytest.raises(OtherVersionNeeded, match="phase"):
        rebuild(landing, tmp_path / "runs")
