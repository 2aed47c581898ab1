"""`gpu-ledger decisions`: validate the decision tables.

Put here: reading the decision tables of a home, and listing their problems.
Not here: their rules (`domain.decisions`).
"""

from __future__ import annotations

from pathlib import Path

import click

from domain.decisions import read_decisions, unknown_to_catalogue
from orchestration.cli.output import emit, home_option, output_option
from orchestration.open_home import OpenHome, decision_files
from orchestration.steps import compare_with_closed
from warehouse.device_tables import catalogue_of


@click.group()
def command() -> None:
    """Check the decision tables.

    \b
    Examples:
      gpu-ledger decisions check --home my-ledger
    """


@command.command(
    epilog="""\b
Examples:
  gpu-ledger decisions check --home my-ledger
  gpu-ledger decisions check -o json
"""
)
@home_option
@output_option
def check(home_path: Path, output: str) -> int:
    """Read every decision table; list each problem with file, line, values and remedy.

    Compares the tables with the sealed copy of each closed month, and the prices with those of the
    last closed month. The exit code is 1 if there are problems.
    """

    opened = OpenHome.at(home_path)
    decisions, problems = read_decisions(decision_files(opened.home))
    problems = [*problems, *decisions.problems]
    if not problems:
        problems += unknown_to_catalogue(decisions.rates, catalogue_of(decisions))
        since = compare_with_closed(opened)
        problems += [*since.edits, *since.prices]
    rows = [problem.as_dict() for problem in problems]
    if rows or output != "table":
        emit(rows, output, ["code", "where", "seen", "why", "remedy"])
    if not rows:
        click.echo(f"The decisions are valid; their hash is {decisions.sha256}.", err=True)
    return 1 if rows else 0
