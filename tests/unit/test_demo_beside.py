"""A process that runs steps: in their order, telling how far it is, and what went wrong."""

from __future__ import annotations

import os
import pickle
from datetime import UTC, datetime
from pathlib import Path

import pytest

from domain.billing_period import BillingPeriod
from domain.errors import LedgerError
from orchestration.demo.beside import Beside, HelperGone, Progress, beside
from orchestration.demo.clockwork import CollectorStuck
from warehouse.build import PeriodIsClosed


def write(path: Path, text: str, report: Progress) -> None:
    report(1, 2, text)
    path.write_text(path.read_text() + text if path.exists() else text)


def refuse(name: str, report: Progress) -> None:
    raise PeriodIsClosed(BillingPeriod(name))


def test_steps_run_in_their_order_and_tell_how_far_they_are(tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    with beside() as helper:
        helper.begin(write, tmp_path / "said", "one ")
        helper.begin(write, tmp_path / "said", "two")
        helper.finish(lambda *word: told.append(word))
        assert (tmp_path / "said").read_text() == "one two"
        helper.begin(refuse, "2026-10")
        with pytest.raises(PeriodIsClosed, match="recount 2026-10"):
            helper.finish()
    assert told == [(1, 2, "one "), (1, 2, "two")]


def fill_the_disk(name: str, report: Progress) -> None:
    raise OSError(28, "No space left on device", name)


def test_a_full_disk_over_there_is_that_error_here() -> None:
    with beside() as helper:
        helper.begin(fill_the_disk, "runs")
        with pytest.raises(OSError, match="No space left") as raised:
            helper.finish()
    assert raised.value.filename == "runs"


def listen_for_ever(helper: Beside, told: list[tuple[int, int, str]]) -> None:
    while True:
        helper.listen(lambda *word: told.append(word))


def test_what_is_said_meanwhile_is_heard_without_waiting(tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    with beside() as helper:
        helper.listen(lambda *word: told.append(word))  # nothing was begun
        helper.begin(write, tmp_path / "said", "one")
        helper.begin(refuse, "2026-10")
        with pytest.raises(PeriodIsClosed):
            listen_for_ever(helper, told)
        helper.finish()  # it heard of both already
    assert told == [(1, 2, "one")]


def leave(report: Progress) -> None:
    os._exit(3)


def test_a_process_that_is_gone_is_missed_wherever_it_is_spoken_to() -> None:
    with beside() as helper:
        helper.begin(leave)
        with pytest.raises(HelperGone):
            helper.finish()
        with pytest.raises(HelperGone):
            helper.begin(leave)


@pytest.mark.parametrize(
    "error",
    [
        PeriodIsClosed(BillingPeriod("2026-10")),
        CollectorStuck("c-1", datetime(2026, 10, 1, tzinfo=UTC), {"pods": "HTTP 503"}),
    ],
)
def test_an_error_comes_whole_from_another_process(error: LedgerError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert again.message() == error.message()
    assert again.args == error.args
