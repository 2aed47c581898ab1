"""The table of speed goals shows which goals are reached and which are not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench import __main__ as table
from bench.measurement import Measurement

REACHED = Measurement("P1", "ours against curl", 1.1, 1.25, "at most", "2.2 s against 2.0 s")
MISSED = Measurement("P1", "with gzip", 1.3, 1.1, "at most", "2.6 s against 2.0 s")
FASTER = Measurement("P2", "against orjson", 19.9, 20.0, "at least", "1 s against 19.9 s")


def test_a_limit_is_reached_when_it_is_met_exactly() -> None:
    exact = Measurement("P4", "finer", 1.2, 1.2, "at most", "")
    assert exact.reached
    assert not FASTER.reached
    assert "MISSED" in FASTER.line()


def test_one_missed_row_misses_the_goal_on_the_page() -> None:
    outcomes = [
        table.Outcome("P1", (REACHED, MISSED), ""),
        table.Outcome("P7", (), "no prometheus is installed"),
        table.Outcome("P4", (Measurement("P4", "finer", 1.0, 1.2, "at most", "half"),), ""),
    ]
    assert [outcome.result for outcome in outcomes] == ["not reached", "not measured", "reached"]
    page = table.page(outcomes)
    assert "1 of 3 goals are reached." in page
    assert "| P1 | with gzip | 1.3 x | at most 1.1 | **not reached** |" in page
    assert "- Not measured: no prometheus is installed." in page
    assert "2.6 s against 2.0 s" in page


def test_every_goal_belongs_to_one_bench() -> None:
    measured = [goal for goals in table.BENCHES.values() for goal in goals]
    assert sorted(measured) == sorted(table.GOALS)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("from bench.measurement import CannotMeasure\ndef measure():\n"
         "    raise CannotMeasure('no server here')\n", "no server here"),
        ("def measure():\n    raise ValueError('broken')\n", "ended with 1: ValueError: broken"),
    ],
)  # fmt: skip
def test_a_goal_that_cannot_be_measured_shows_the_reason(
    text: str, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bench"
    folder.mkdir()
    (folder / "bench_odd.py").write_text(text)
    monkeypatch.setattr("bench.__path__", [*sys.modules["bench"].__path__, str(folder)])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # inherited by the process of the bench
    monkeypatch.setattr(table, "BENCHES", {"bench_odd": ("P1",)})
    [outcome] = table.measure(["P1"])
    assert missing in outcome.missing
    assert outcome.result == "not measured"


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, Path]:
    page, kept = tmp_path / "page.md", tmp_path / "measured.json"
    monkeypatch.setattr(table, "PAGE", page)
    monkeypatch.setattr(table, "KEPT", kept)
    return page, kept


def test_an_unknown_goal_is_refused_and_the_page_is_unchanged(places: tuple[Path, Path]) -> None:
    with pytest.raises(SystemExit):
        table.main(["P10"])
    assert not any(place.exists() for place in places)


def test_a_goal_measured_alone_keeps_the_stored_rows_of_the_others(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    page, _ = places
    table.write_kept(
        {
            "P1": table.Outcome("P1", (MISSED,), "", "2026-01-02", 0.5),
            "P2": table.Outcome("P2", (FASTER,), "", "2026-01-02", 0.5),
        }
    )
    monkeypatch.setattr(
        table, "measure", lambda goals: [table.Outcome("P1", (REACHED,), "", "2026-03-04", 7.0)]
    )
    assert table.main(["P1"]) == 0
    text = page.read_text()
    assert "| P1 | ours against curl | 1.1 x | at most 1.25 | reached |" in text
    assert "with gzip" not in text
    assert "| P2 | against orjson | 19.9 x | at least 20 | **not reached** |" in text
    assert "Measured on 2026-03-04 at a load of 7." in text
    assert "Measured on 2026-01-02 at a load of 0.5." in text
    assert f"1 of {len(table.GOALS)} goals are reached." in text
    assert "Not measured: it was never measured." in text


def test_measurements_survive_json() -> None:
    assert Measurement(**json.loads(json.dumps(MISSED.as_dict()))) == MISSED
