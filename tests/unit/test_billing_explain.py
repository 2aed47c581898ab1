"""Explanation of a line down to the bytes of its evidence, and of bytes up to their lines."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import zstandard

from billing.close import close_period
from billing.explain import (
    ROWS_SHOWN,
    ExplainStep,
    explain_line,
    explain_response,
    on_a_screen,
)
from billing.sealing import SealBroken
from domain.clock import StoppedClock
from domain.decisions import Source
from domain.errors import UnknownName
from domain.interval import HOUR, Interval, parse_instant
from quality.run import check_period
from tests.marts_by_hand import Pod, World, at
from warehouse.manifest import AttemptDraft, Hour, Outcome, QueryResponse, Sampling

ANSWER = b'{"status":"success","pod":"uid-team-a-train","again":"uid-team-a-train"}'
SHA = hashlib.sha256(ANSWER).hexdigest()


def land(world: World, body: bytes, hour: str, sequence: int) -> None:
    """Land one response for one hour, with its manifest."""
    digest = hashlib.sha256(body).hexdigest()
    store = world.home.landing_store()
    store.create(f"objects/{digest[:2]}/{digest}.zst", zstandard.compress(body))
    started_at = parse_instant(hour)
    asked_at = datetime(2026, 10, 9, 15, tzinfo=UTC)
    draft = AttemptDraft(
        *("c1", Source.THANOS, asked_at, asked_at + timedelta(seconds=1)),
        window=Interval(started_at, started_at + HOUR),
        code_version="0.1.0",
        sampling=Sampling(30, 30),
        answers=(QueryResponse("all", "", 200, digest, len(body), 1),),
        hours=(Hour(started_at, Outcome.OK, series_count=1, sample_count=1),),
    )
    key = f"manifests/c1/thanos/{sequence:010}.json"
    store.create(key, draft.written(sequence, "")[1])


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("closed") / "home")
    world.pods = [
        Pod("team-a", "train", at("09 10:15"), at("09 11:30")),
        Pod("team-a", "other", at("09 13:00"), at("09 14:00")),
    ]
    land(world, ANSWER, "2026-10-09T10:00:00Z", 1)
    land(world, b"something about noon", "2026-10-09T12:00:00Z", 2)
    world.write()
    clock = StoppedClock(datetime(2026, 11, 4, tzinfo=UTC))
    close_period(
        world.home,
        world.period,
        world.decisions,
        lambda: check_period(world.home, world.period, world.decisions, clock),
        clock,
        dry_run=False,
    )
    return world


@pytest.fixture
def world(closed: World, tmp_path: Path) -> World:
    return closed.copied(tmp_path / "home")


def step(steps: list[ExplainStep], title: str) -> ExplainStep:
    [found] = [one for one in steps if one.title.startswith(title)]
    return found


def test_a_line_is_explained_down_to_the_bytes_that_name_its_pod(world: World) -> None:
    steps = explain_line(world.home, "INV-000001", 1, "uid-team-a-train")
    assert [one.title for one in steps] == [
        "Document",
        "Line",
        "Pods behind the line, as sealed, the longest first",
        "Hours of pod train in the facts",
        "Rules that decided these hours",
        "Attempts for these hours",
        "Responses, byte for byte",
    ]
    # (4500 + 3600) s at 3.60 an hour
    assert step(steps, "Line").note.startswith("8100 s × 1/1 × 3.6 / 3600 s = 8.1 EUR")
    assert step(steps, "Pods").note == "8100 device seconds in all"
    assert [row[4:] for row in step(steps, "Hours").rows] == [
        ("confirmed", "agree", "2700", "2700000000"),
        ("confirmed", "agree", "1800", "1800000000"),
    ]
    assert step(steps, "Rules").rows == (
        ("agree", "known", "confirmed", "agree", "lifecycle", "", "false"),
    )
    assert [row[:3] for row in step(steps, "Attempts").rows] == [
        ("thanos", "1", "2026-10-09T10:00:00Z")
    ]
    [response] = step(steps, "Responses").rows
    assert response == (SHA, str(len(ANSWER)), "2, at byte 27, 54", "sealed with the close")


def test_responses_that_name_the_pod_come_first(world: World) -> None:
    others = [f"another answer, {number}".encode() for number in range(8)]
    for number, body in enumerate(others, 3):
        land(world, body, "2026-10-09T10:00:00Z", number)
    shown = step(explain_line(world.home, "INV-000001", 1, "uid-team-a-train"), "Responses").rows
    rest = sorted(hashlib.sha256(body).hexdigest() for body in others)
    assert min(rest) < SHA, "by its hash alone it would not be the first"
    assert [row[0] for row in shown] == [SHA, *rest]


def test_bytes_are_explained_up_to_the_lines_of_their_hours(world: World) -> None:
    steps = explain_response(world.home, SHA)
    assert step(steps, "Lines").rows == (("INV-000001", "1", "team-a", "train"),)


def test_evidence_after_the_close_is_marked(world: World) -> None:
    land(world, b"late, uid-team-a-train", "2026-10-09T11:00:00Z", 3)
    rows = step(explain_line(world.home, "INV-000001", 1, "uid-team-a-train"), "Responses").rows
    assert {row[3] for row in rows} == {"sealed with the close", "after the close"}


def test_changed_bytes_stop_the_explanation(world: World) -> None:
    path = world.path / "landing" / "objects" / SHA[:2] / f"{SHA}.zst"
    path.write_bytes(zstandard.compress(ANSWER + b" "))
    with pytest.raises(SealBroken):
        explain_line(world.home, "INV-000001", 1, "uid-team-a-train")


def test_without_sealed_facts_the_explanation_shows_how_to_get_them(world: World) -> None:
    (world.path / "warehouse.duckdb").unlink()
    hours = step(explain_line(world.home, "INV-000001", 1), "Hours")
    assert hours.rows == ()
    assert "gpu-ledger refresh --period 2026-10" in hours.note
    world.pods.pop()
    world.write()
    hours = step(explain_line(world.home, "INV-000001", 1), "Hours")
    assert hours.note == "the warehouse has other facts than the sealed ones"


def test_unknown_names_cannot_be_explained(world: World) -> None:
    with pytest.raises(UnknownName):
        explain_line(world.home, "INV-000009", 1)
    with pytest.raises(UnknownName, match="its last line is 1"):
        explain_line(world.home, "INV-000001", 2)
    with pytest.raises(UnknownName, match="no pod of this UID"):
        explain_line(world.home, "INV-000001", 1, "uid-nobody")
    with pytest.raises(UnknownName, match="no manifest names this hash"):
        explain_response(world.home, "0" * 64)


def test_screen_shows_sum_longest_pods_days_and_the_omitted_number(world: World) -> None:
    """Two pods; one response names the explained one and nine do not. Omitted rows are counted."""
    for number in range(8):
        land(world, f"another answer, {number}".encode(), "2026-10-09T10:00:00Z", 3 + number)
    whole = explain_line(world.home, "INV-000001", 1)
    screen = on_a_screen(whole)
    assert [one.kind for one in screen] == [one.kind for one in whole]
    assert step(screen, "Line") == step(whole, "Line")
    # 75 and 60 minutes
    assert [(row[0], row[3]) for row in step(screen, "Pods").rows] == [
        ("train", "4500"),
        ("other", "3600"),
    ]
    assert step(screen, "Days of pod train").rows == (("2026-10-09", "4500", "4.5"),)
    assert step(screen, "Days").note == "4500 s in 2 segments of hours"
    assert step(screen, "Attempts").rows == (
        ("thanos", "ok", "9", "1", "2026-10-09T10:00:00Z", "2026-10-09T10:00:00Z"),
    )
    assert [row[0] for row in step(screen, "Responses").rows] == [SHA]
    assert step(screen, "Responses").note.startswith("1 of 9 name the pod; each was read again")


def test_long_output_is_cut_on_a_screen_with_a_note(world: World) -> None:
    """Without a pod name in them, responses are listed in order."""
    for number in range(8):
        land(world, f"noon, {number}".encode(), "2026-10-09T13:00:00Z", 3 + number)
    whole = explain_line(world.home, "INV-000001", 1, "uid-team-a-other")
    responses = step(on_a_screen(whole), "Responses")
    assert len(responses.rows) == ROWS_SHOWN < len(step(whole, "Responses").rows) == 8
    assert responses.note.startswith(f"{ROWS_SHOWN} of 8 are shown; 0 of 8 name the pod; ")
