"""The pages agree with the code: errors, findings, command line."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

from domain.errors import LedgerError

ROOT = Path(__file__).parents[2]
PACKAGES = ("domain", "warehouse", "ingestion", "quality", "billing", "fake_gpu", "orchestration")
KINDS = {"WrongUse", "BadInput", "NotBillable", "CheckFailed", "EvidenceChanged", "CouldNotLook"}


def every_error() -> dict[str, type[LedgerError]]:
    """Import every module of ours and return the concrete errors by code."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if found.name != "orchestration.definitions":  # reads a home when it is imported
                importlib.import_module(found.name)
    concrete: dict[str, type[LedgerError]] = {}
    todo = list(LedgerError.__subclasses__())
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        if kind.__name__ in KINDS or not kind.__module__.startswith(PACKAGES):
            continue
        assert "code" in kind.__dict__, f"{kind.__module__}.{kind.__name__} has no code of its own"
        other = concrete.setdefault(kind.code, kind)
        assert other is kind, f"{kind.code} names both {other.__name__} and {kind.__name__}"
    return concrete


def test_every_error_has_a_page_and_every_page_an_error() -> None:
    errors = every_error()
    pages = {path.stem: path for path in (ROOT / "docs" / "errors").glob("*-*.md")}
    assert sorted(pages) == sorted(errors)
    for code, page in pages.items():
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"# {code}: {errors[code].__name__}\n"), page
        for section in ("## What it means", "## Does it change a bill", "## What to do"):
            assert section in text, f"{page} lacks {section!r}"


def test_every_error_has_a_golden_message() -> None:
    goldens = {path.stem for path in (ROOT / "tests" / "messages" / "golden").glob("*.txt")}
    assert sorted(set(every_error()) - goldens) == []
    tests = "".join(p.read_text() for p in (ROOT / "tests" / "messages").glob("test_*.py"))
    assert [code for code in every_error() if not re.search(rf"\b{code}\b", tests)] == []


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
