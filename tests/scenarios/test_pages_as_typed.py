"""Every page of the tutorials is run like by a reader; an outdated block fails.

These are also the first ten minutes of four kinds of users. The amounts of the demo on the pages
are those that `test_thin_line` calculates by hand; a page is compared with the output line by line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestration.cli.up import DEMO_HOME, export_command
from orchestration.demo.open_month import DEMO, open_month
from tests.transcripts import CommandOutput, PageCommand, commands, difference, stale, type_page

pytestmark = [pytest.mark.deep, pytest.mark.engines]

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
ON_THE_DEMO = ("auditor", "analyst", "programme-owner", "tenant")


def test_the_demo_and_the_pages_that_stand_on_it(tmp_path: Path) -> None:
    """One demo, run once; an auditor, an analyst, a programme owner and a tenant continue."""
    for name in ("the-demo", *ON_THE_DEMO):
        typed = commands(TUTORIALS / f"{name}.md")
        assert len(typed) > 1
        assert stale(typed, type_page(typed, tmp_path)) == []


def test_an_operator_repairs_a_month_and_closes_it(tmp_path: Path) -> None:
    """`gpu-ledger up --demo` has the same home and simulated fleet, with Dagster's pages."""
    with open_month(DEMO, tmp_path / DEMO_HOME, no_bar) as made:
        typed = commands(TUTORIALS / "operator.md")
        assert typed[0].command == export_command(made).replace(f"{tmp_path.resolve()}/", "")
        assert stale(typed, type_page(typed, tmp_path)) == []


def test_a_cluster_of_ones_own_from_samples_alone_and_then_a_collector(tmp_path: Path) -> None:
    typed = commands(TUTORIALS / "your-own-cluster.md")
    assert stale(typed, type_page(typed, tmp_path)) == []


def test_no_tutorial_is_left_out() -> None:
    pages = {path.stem for path in TUTORIALS.glob("*.md")}
    assert pages == {"the-demo", *ON_THE_DEMO, "operator", "your-own-cluster"}


@pytest.mark.parametrize(
    ("said", "really", "same"),
    [
        (("a", "b"), "a\nb\n", True),
        (("a",), "a\nb\n", False),
        (("a", "…"), "a\nb\nc\n", True),
        (("…", "c"), "a\nb\nc\n", True),
        (("…", "b"), "a\nb\nc\n", False),
        (("x …z",), "x y z\n", True),
        (("x …z",), "x y\n", False),
        ((), "", True),
        ((), "a surprise\n", False),
    ],
)
def test_a_page_is_compared_line_by_line(said: tuple[str, ...], really: str, same: bool) -> None:
    assert (difference(said, really) == "") is same


def test_a_block_is_read_with_its_continuations(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# t\n\n```console\n$ cat <<END\n> x\n>\n> END\nx\n$ true\n```\n")
    assert commands(page) == [
        PageCommand("page.md:4", "cat <<END\nx\n\nEND", ("x",)),
        PageCommand("page.md:9", "true", ()),
    ]
    assert type_page(commands(page), tmp_path) == [CommandOutput("x\n\n"), CommandOutput("")]


@pytest.mark.parametrize(
    ("block", "faults"),
    [
        ("$ true", 0),
        ("$ (echo no; exit 3)\nno", 1),
        ("$ (echo no; exit 3)\nno\n$ echo $?\n3", 0),
        ("$ (echo no; exit 3)\nno\n$ echo $?\n1", 1),
        ("$ (echo no; exit 3)\nno\n$ true\n$ echo $?\n0", 1),
        ("$ no-such-command\n…", 1),
        ("$ false | true", 0),
    ],
)
def test_a_command_that_fails_has_to_be_shown_to_fail(
    block: str, faults: int, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```console\n{block}\n```\n")
    typed = commands(page)
    assert len(stale(typed, type_page(typed, tmp_path))) == faults


@contextlib.contextmanager
def no_bar(_: str) -> Iterator[Callable[[int, int, str], None]]:
    yield lambda done, total, what: None
