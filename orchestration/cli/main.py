"""The `gpu-ledger` command: a table of commands, each imported only when it is called.

Put here: the table, the order of help, and how errors become exit codes.
Not here: any command's own options or work; those live in the module that the table names.

Exit codes: 0 fine, 1 judged not billable or a check failed, 2 wrong use, 3 could not look.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence

import click

from domain.errors import LedgerError

# name -> (module below orchestration.cli, attribute, one-line help), in the order of the pipeline.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("demo", "demo", "Show the whole way from a fake estate to sealed invoices."),
    "init": ("init", "init", "Write a commented home: config.toml and the decision tables."),
    "doctor": ("doctor", "doctor", "Check that everything can be asked that bills rest on."),
    "decisions": ("decisions", "command", "Check what people decided."),
    "gpu": ("gpu", "command", "Say what a resource name is."),
    "mig": ("mig", "command", "Say what MIG layouts a card can have, and whether a file fits."),
    "fake": ("fake", "command", "Serve, export and explain a GPU estate that is not there."),
    "pull": ("evidence", "pull", "Ask the witnesses for hours, and land what they say."),
    "collect": ("collect", "collect", "Watch one cluster's Kubernetes API into a journal."),
    "hours": ("evidence", "hours", "List the hours of a period: expected, attempts, outcomes."),
    "rebuild": ("rebuild", "rebuild", "Decode the landed evidence again."),
    "landing": ("rebuild", "command", "Check the landed evidence against its hashes."),
    "refresh": ("facts", "refresh", "Build a period's facts from the landed evidence."),
    "judge": ("facts", "judge", "Say whether a period may be billed, and what stands against it."),
    "gaps": ("gaps", "gaps", "List what is missing of a period, and the command that heals it."),
    "accept-gap": ("gaps", "accept_gap", "Sign for a gap that cannot be healed."),
    "close": ("billing", "close", "Close a period and issue its invoices (a dry run by default)."),
    "invoice": ("billing", "invoice", "List invoices, or print one from its sealed record."),
    "void": ("billing", "void", "Negate an issued document by one of its own."),
    "recount": ("recount", "recount", "Count a closed period again, and show the corrections."),
    "usage": ("usage", "usage", "Say what was used and what it cost, by whatever is asked."),
    "nodes": ("nodes", "nodes", "Say how many nodes and GPUs were active, hour by hour."),
    "inventory": ("inventory", "inventory", "List every card and MIG instance, and its holder."),
    "quota": ("inventory", "quota", "List quotas beside what is used and allocated."),
    "query": ("query", "query", "Ask one of the named questions of analysts."),
    "publish": ("publish", "publish", "Copy the marts into a file that anybody may read."),
    "explain": ("audit", "explain", "Walk from an invoice line to the landed bytes, or back."),
    "compare": ("audit", "compare", "Put a month under the rules of other tools."),
    "verify": ("audit", "verify", "Check a bundle of issued documents, without any home."),
    "backup": ("audit", "backup", "Copy the four kept parts of a home, verified."),
    "restore": ("audit", "restore", "Make a home from a verified backup."),
    "up": ("up", "up", "Start Dagster's web pages and daemon on a home."),
    "support-bundle": ("shell", "support_bundle", "Write what somebody who helps needs to know."),
    "completion": ("shell", "completion", "Print what makes a shell complete commands."),
}


class LazyGroup(click.Group):
    """Knows every command's name and summary without importing any of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module_name, attribute, _ = COMMANDS[cmd_name]
        module = importlib.import_module(f"orchestration.cli.{module_name}")
        found = getattr(module, attribute)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[2]) for name, entry in COMMANDS.items()])


EPILOG = """\b
Examples:
  gpu-ledger demo                          from nothing to sealed invoices, in a minute or two
  gpu-ledger init my-ledger                a home of your own
  gpu-ledger close 2026-10 --home my-ledger

\b
Exit codes: 0 fine, 1 not billable or a check failed, 2 wrong use, 3 could not look.
"""


@click.command(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="gpu-ledger", prog_name="gpu-ledger")
@click.option("--json-errors", is_flag=True, help="Print errors as one JSON object on stderr.")
@click.pass_context
def cli(ctx: click.Context, json_errors: bool) -> None:
    """GPU bills that can be proved: from evidence to sealed invoices."""
    ctx.obj = {"json_errors": json_errors}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; every error of ours becomes its four parts and its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        result = cli.main(args=arguments, prog_name="gpu-ledger", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("Stopped.", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except LedgerError as error:
        _show(error, as_json="--json-errors" in arguments)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output left; Python would complain on exit
        sys.exit(0)
    sys.exit(result if isinstance(result, int) else 0)


def _show(error: LedgerError, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(error.as_dict(), ensure_ascii=False), err=True)
        return
    click.echo(error.message(), err=True)
    click.echo(f"  see:  docs/errors/{error.code}.md", err=True)
