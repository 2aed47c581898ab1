"""Every page of the tutorials is typed again, as a reader would; a stale block fails.

These are the first ten minutes of four users as well. What the pages say of the demo's amounts is
what `test_thin_line` says with a pencil; a page is compared with what is really said, line by line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestration.cli.up import DEMO_HOME, in_its_time
from orchestration.demo.unfinished import DEMO, unfinished
from tests.transcripts import Typed, commands, difference, type_page

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
ON_THE_DEMO = ("auditor", "analyst", "programme-owner")


def stale(typed: list[Typed], really: list[str]) -> list[str]:
    pairs = zip(typed, really, strict=True)
    return [
        f"{one.where} $ {one.command}\n{found}"
        for one, said in pairs
        if (found := difference(one.said, said))
    ]


def test_the_demo_and_the_pages_that_stand_on_it(tmp_path: Path) -> None:
    """One demo, typed once; an auditor, an analyst and a programme owner go on from there."""
    for name in ("the-demo", *ON_THE_DEMO):
        typed = commands(TUTORIALS / f"{name}.md")
        assert len(typed) > 1
        assert stale(typed, type_page(typed, tmp_path)) == []


def test_an_operator_heals_a_month_and_closes_it(tmp_path: Path) -> None:
    """`gpu-ledger up --demo` is this home and this estate, with Dagster's pages before it."""
    with unfinished(DEMO, tmp_path / DEMO_HOME, no_bar) as made:
        typed = commands(TUTORIALS / "operator.md")
        assert typed[0].command == in_its_time(made).replace(f"{tmp_path.resolve()}/", "")
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
        Typed("page.md:4", "cat <<END\nx\n\nEND", ("x",)),
        Typed("page.md:9", "true", ()),
    ]
    assert type_page(commands(page), tmp_path) == ["x\n\n", ""]


@contextlib.contextmanager
def no_bar(_: str) -> Iterator[Callable[[int, int, str], None]]:
    yield lambda done, total, what: None
