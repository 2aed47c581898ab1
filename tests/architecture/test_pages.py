"""The pages agree with the code: errors, findings, command line."""

from __future__ import annotations

import re
from pathlib import Path

from quality.finding_catalogue import CATALOGUE
from tests.every_error import every_error
from tests.written_pages import DOCS, TOCTREE, first_sentence, written

ROOT = Path(__file__).parents[2]
EXITS = {
    1: "not billable, or a check failed",
    2: "wrong use",
    3: "temporarily unavailable",
}


def errors_page() -> str:
    rows = [
        f"| [{code}]({code}.md) | {', '.join(f'`{kind.__name__}`' for kind in kinds)} "
        f"| {kinds[0].exit_code} | {first_sentence(_section(code, 'What it means'))} |"
        for code, kinds in sorted(every_error().items())
    ]
    exits = "; ".join(f"{number} {why}" for number, why in EXITS.items())
    return "\n".join(
        [
            "# Errors\n",
            "Each error has a code and a page with its meaning, its effect on bills and its"
            " remedy.\n`gpu-ledger --json-errors` prints code, place and remedy for a"
            f" machine. Exit\ncodes: {exits}. This list is generated from the code.\n",
            "| code | name | exit | what it means |",
            "|---|---|---|---|",
            *rows,
            TOCTREE,
        ]
    )


def _section(code: str, title: str) -> str:
    text = (DOCS / "errors" / f"{code}.md").read_text(encoding="utf-8")
    return text.split(f"## {title}\n")[1].split("\n## ")[0]


def test_every_error_is_on_the_list_of_errors() -> None:
    """After an intended change, run this file with GPU_LEDGER_WRITE_GOLDEN=1."""
    page = errors_page()
    assert page == written("errors/index.md", page)


def test_every_error_has_a_page_and_every_page_an_error() -> None:
    errors = every_error()
    pages = {path.stem: path for path in (ROOT / "docs" / "errors").glob("*-*.md")}
    assert sorted(pages) == sorted(errors)
    for code, page in pages.items():
        text = page.read_text(encoding="utf-8")
        titles = {f"# {code}: {kind.__name__}" for kind in errors[code]}
        assert text.partition("\n")[0] in titles, page
        for section in ("## What it means", "## Effect on bills", "## What to do"):
            assert section in text, f"{page} lacks {section!r}"


def test_every_error_has_a_golden_message() -> None:
    goldens = {path.stem for path in (ROOT / "tests" / "messages" / "golden").glob("*.txt")}
    assert {"-".join(name.split("-")[:2]) for name in goldens} == set(every_error())
    tests = "".join(p.read_text() for p in (ROOT / "tests" / "messages").glob("test_*.py"))
    assert [name for name in goldens if not re.search(rf"\b{name}\b", tests)] == []


def test_no_error_has_the_code_of_a_finding() -> None:
    """`gpu-ledger explain CODE` shows one page."""
    assert not every_error().keys() & {kind.code for kind in CATALOGUE.values()}


def test_every_command_has_a_summary_and_examples() -> None:
    import click

    from orchestration.cli.main import COMMANDS, cli

    context = click.Context(cli)
    for name, (_, _, summary) in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None, name
        assert summary.endswith("."), name
        leaves = command.commands.values() if isinstance(command, click.Group) else [command]
        for leaf in leaves:
            own = click.Context(leaf, info_name=leaf.name, help_option_names=["-h", "--help"])
            text = leaf.get_help(own)
            assert "Example" in text, f"{name} {leaf.name} shows no example"
