"""Output of commands: rows for people and for programs."""

from __future__ import annotations

import csv
import io
import json
import re
import threading
import time
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from orchestration.cli import output
from orchestration.cli.output import emit, progress

ROWS = [
    {
        "tenant": "team-a",
        "hour": datetime(2026, 10, 1, tzinfo=UTC),
        "weight": Fraction(3, 7),
        "amount": Decimal("1234567890123456789.000000001"),
        "whole": True,
    },
    {"tenant": "=HYPERLINK(1)", "hour": None, "weight": Fraction(1), "amount": 0, "whole": False},
]


def test_json_keeps_every_digit(capsys: pytest.CaptureFixture[str]) -> None:
    emit(ROWS, "json")
    first = json.loads(capsys.readouterr().out)[0]
    assert first == {
        "tenant": "team-a",
        "hour": "2026-10-01T00:00:00Z",
        "weight": "3/7",
        "amount": "1234567890123456789.000000001",
        "whole": True,
    }


def test_a_cell_that_a_spreadsheet_would_execute_is_quoted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    emit(ROWS, "csv")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert rows[1]["tenant"] == "'=HYPERLINK(1)"
    assert rows[0]["tenant"] == "team-a"
    assert rows[1]["hour"] == ""


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+1", "@x", "\tx", "\rx", "\nx"])
def test_each_risky_beginning_is_quoted(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    emit([{"name": text}], "csv")
    [row] = csv.DictReader(io.StringIO(capsys.readouterr().out, newline=""))
    assert row["name"] == "'" + text


@pytest.mark.parametrize("number", [-5, "-5", "-3.60", Decimal("-3.60"), Fraction(-3, 7)])
def test_a_negative_number_stays_a_number(
    number: object, capsys: pytest.CaptureFixture[str]
) -> None:
    emit([{"number": number}], "csv")
    assert capsys.readouterr().out == f"number\n{number}\n"


def test_a_table_shows_markup_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    emit([{"pod": "[red]not a colour[/red]"}], "table")
    assert "[red]not a colour[/red]" in capsys.readouterr().out


def test_no_rows_are_a_sentence_in_a_table_and_an_empty_list_in_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    emit([], "table", empty="No gaps.")
    emit([], "table", title="Nodes")
    emit([], "json", empty="No gaps.")
    assert capsys.readouterr().out == "No gaps.\nNodes: none.\n[]\n"


def test_progress_without_a_terminal_is_one_line_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress("Asking") as report:
        report(1, 3, "east")
        report(3, 3, "")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "Asking: 3 of 3\n"


def test_without_a_terminal_a_line_every_ten_seconds_shows_progress(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    with progress("Asking") as report:
        for second in range(31):
            now[0] = float(second)
            report(second, 100, "")
    assert capsys.readouterr().err.splitlines() == [
        "Asking: 10 of 100",
        "Asking: 20 of 100",
        "Asking: 30 of 100",
    ]


def test_work_without_progress_reports_that_it_continues(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PLAIN_LINE_SECONDS", 0.05)
    monkeypatch.setattr(output, "POLL_SECONDS", 0.01)
    lines: list[str] = []
    deadline = time.monotonic() + 60
    with progress("Checking"):
        while len(lines) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
            lines += capsys.readouterr().err.splitlines()
    lines += capsys.readouterr().err.splitlines()
    assert len(lines) > 1
    assert set(lines) == {"Checking: 0 s"}
    for thread in threading.enumerate():
        if thread.name == "progress":
            thread.join(30)
            assert not thread.is_alive()  # it ended with the work
    assert capsys.readouterr().err == ""


def test_no_colour_is_printed_if_it_is_disabled(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    emit(ROWS, "table", title="t")
    assert "\x1b[" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    emit(ROWS, "table", title="t")
    assert "\x1b[" not in capsys.readouterr().out


DOCUMENTS = [
    {
        "invoice": f"INV-{number:06}",
        "tenant": "a-tenant-with-a-long-name",
        "cause": "kubernetes: collector lost, 3600 of 3600 seconds missing",
        "billed": Decimal("1234567.89"),
        "sha256": "0123456789abcdef" * 4,
    }
    for number in (1, 2)
]


@pytest.mark.parametrize("columns", [*range(1, 90, 11), 60, 120, 140, 160, 200])
def test_numbers_are_never_broken_on_a_narrow_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    emit(DOCUMENTS, "table", title="October")
    printed = capsys.readouterr().out
    for row in DOCUMENTS:
        for word in " ".join(map(str, row.values())).split():
            assert printed.split().count(word) >= 1, (columns, word)
    is_a_table = "───" in printed
    assert is_a_table is (columns > 130)  # 10 + 25 + 10 + 10 + 64, and the space between
    if is_a_table:
        assert max(map(len, printed.splitlines())) <= columns


def test_wide_rows_are_a_table_and_narrow_ones_a_list(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"invoice": "INV-000001", "billed": Decimal("4.74")}]
    monkeypatch.setenv("COLUMNS", "21")  # widths 10 and 6, three between them, two at the edges
    emit(rows, "table")
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines == ["invoice      billed", "─" * 19, "INV-000001     4.74"]
    monkeypatch.setenv("COLUMNS", "20")
    emit(rows, "table")
    assert capsys.readouterr().out == "\ninvoice  INV-000001\nbilled   4.74\n\n"


@pytest.mark.parametrize(
    ("widths", "room", "fitted"),
    [
        ([(3, 3), (4, 4)], 7, [3, 4]),
        ([(3, 3), (4, 4)], 6, None),
        ([(3, 3), (4, 9)], 100, [3, 9]),
        ([(3, 5), (4, 9)], 10, [5, 5]),
        ([(3, 8), (4, 9)], 10, [5, 5]),
        ([(1, 9), (1, 2), (1, 1)], 9, [6, 2, 1]),
    ],
)
def test_width_is_shared_among_columns_that_need_it(
    widths: list[tuple[int, int]], room: int, fitted: list[int] | None
) -> None:
    assert output.fit_columns(widths, room) == fitted


def test_no_command_waits_for_input() -> None:
    """With or without a terminal, a missing value is an error and not a question."""
    folder = Path(output.__file__).parents[1]
    asking = re.compile(r"click\.(prompt|confirm|pause|getchar)|(?<![\w.])input\(|prompt=|getpass")
    found = [path.name for path in folder.rglob("*.py") if asking.search(path.read_text("utf-8"))]
    assert found == []
