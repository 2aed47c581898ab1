"""`gpu-ledger query`: run a named query over the facts.

Put here: the command.
Not here: the queries themselves (`docs/reference/queries/*.sql`).
"""

from __future__ import annotations

from pathlib import Path

import click

from domain.billing_period import BillingPeriod
from orchestration.cli.output import emit, emit_document, home_option, output_option
from orchestration.cli.time_arguments import PERIOD
from warehouse.home import Home
from warehouse.reports.named_queries import ask, question, questions
from warehouse.reports.opened_facts import open_facts

SCHEMA = "gpu-ledger/query/1"

QUERY_EPILOG = """\b
Examples:
  gpu-ledger query --list
  gpu-ledger query tenants-by-burn-rate
  gpu-ledger query cost-of-a-gap --param day=2026-10-09 --csv
  gpu-ledger query node-hours-at-the-maximum --show         its SQL, as a starting point
"""


@click.command(epilog=QUERY_EPILOG)
@click.argument("name", required=False)
@click.option("--list", "listed", is_flag=True, help="List the named queries.")
@click.option("--show", is_flag=True, help="Print the SQL of the query instead of running it.")
@click.option("--param", "given", multiple=True, help="Parameter as name=value (repeatable).")
@click.option("--period", type=PERIOD, help="The same as --param period=2026-10.")
@home_option
@output_option
def query(
    name: str | None,
    listed: bool,
    show: bool,
    given: tuple[str, ...],
    period: BillingPeriod | None,
    home_path: Path,
    output: str,
) -> None:
    """Run a named query over the marts; `--list` prints the names.

    Each query is one SQL file, for the newest period unless `period` is given.
    """
    if listed:
        rows = [
            {"name": one.name, "asks": one.title, "parameters": ", ".join(one.parameters)}
            for one in questions()
        ]
        emit(rows, output)
        return
    if name is None:
        raise click.UsageError("give the NAME of a query, or --list")
    asked = question(name)
    if show:
        click.echo(asked.sql, nl=False)
        return
    with open_facts(Home.open(home_path)) as facts:
        named = {"period": period.name} if period else {}
        answer = ask(facts, asked, named | dict(_pair(text) for text in given))
    if output == "json":
        emit_document(
            {
                "schema": SCHEMA,
                "name": asked.name,
                "asks": asked.title,
                "parameters": dict(answer.parameters),
                "columns": list(answer.columns),
                "rows": answer.rows,
            }
        )
        return
    if output == "csv" or answer.rows:
        emit(answer.rows, output, answer.columns, title=asked.title)
    else:
        click.echo(f"{asked.title}\n{asked.when_empty}")


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise click.UsageError(f"--param {text}: write it as name=value")
    return name, value
