"""The `gpu-ledger` command: a table of commands, each imported only when it is called.

Put here: the table, the order of help, and exit codes.
Not here: the options and the work of a command; they are in the module that the table names.

Exit codes: 0 success, 1 a check failed, 2 invalid use, 3 a source could not be read.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from domain.errors import LedgerError, TemporarilyUnavailable, WrongUse
from orchestration.cli.terminal import guard_terminals

# name -> (module below orchestration.cli, attribute, one-line help), in the order of the pipeline.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("demo", "demo", "Run a month of a simulated fleet, from samples to sealed invoices."),
    "init": ("init", "init", "Write a commented home: config.toml and the decision tables."),
    "doctor": (
        "doctor",
        "doctor",
        "Check sources, rights, metrics, clocks and journals of every cluster.",
    ),
    "decisions": ("decisions", "command", "Check the decision tables."),
    "gpu": ("gpu", "command", "Classify a resource name: GPU class, MIG profile, share, weight."),
    "mig": ("mig", "command", "List MIG layouts; check mig-parted files; plan a node's change."),
    "fake": ("fake", "command", "Serve, export and check simulated GPU clusters."),
    "pull": ("pull", "pull", "Query the sources for due hours, and land the responses."),
    "collect": ("collect", "collect", "Watch a cluster's Kubernetes API and write its journal."),
    "hours": ("hours", "hours", "List the expected hours of a period, with their attempts."),
    "rebuild": ("rebuild", "rebuild", "Decode the landed evidence again."),
    "landing": ("rebuild", "command", "Verify the landed evidence; print or show parts of it."),
    "refresh": ("facts", "refresh", "Build a period's facts from the landed evidence."),
    "check": (
        "facts",
        "check_period",
        "Check whether a period can be closed, and list the findings.",
    ),
    "gaps": ("gaps", "gaps", "List the gaps of a period, and the command that backfills each."),
    "accept-gap": ("gaps", "accept_gap", "Accept a gap that cannot be backfilled."),
    "close": ("billing", "close", "Close a period and issue its invoices (a dry run by default)."),
    "invoice": ("billing", "invoice", "List invoices, or print one from its sealed record."),
    "void": ("billing", "void", "Void an issued document by a new one."),
    "recount": ("recount", "recount", "Recalculate a closed period, and list the corrections."),
    "usage": ("usage", "usage", "Print usage and cost by tenant, workload, class, day or label."),
    "nodes": ("nodes", "nodes", "List active worker nodes and GPUs by hour."),
    "inventory": ("inventory", "inventory", "List every card and MIG instance, and its holder."),
    "quota": ("inventory", "quota", "List quotas with used and allocated devices."),
    "budgets": ("alerts", "budgets", "List budgets and the state of each of their steps."),
    "alerts": ("alerts", "alerts", "Send alerts about budgets and the ledger to Alertmanager."),
    "health": (
        "health",
        "health",
        "List problems of GPUs and nodes, and the affected pods and tenants.",
    ),
    "prune": ("prune", "prune", "Find idle GPU workloads, scale them to zero, restore them."),
    "query": ("query", "query", "Run a named query over the marts."),
    "publish": ("publish", "publish", "Copy the marts into a DuckDB file and Parquet for readers."),
    "portal": ("portal", "portal", "Serve pages and an API for tenants and the provider."),
    "explain": (
        "audit",
        "explain",
        "Trace an invoice line to the landed bytes; print a code's page.",
    ),
    "compare": ("audit", "compare", "Compare a month with the billing rules of other tools."),
    "verify": ("audit", "verify", "Verify a bundle of issued documents, without a home."),
    "backup": (
        "audit",
        "backup",
        "Copy the parts of a home that cannot be rebuilt, and verify the copy.",
    ),
    "restore": ("audit", "restore", "Create a home from a verified backup."),
    "up": ("up", "up", "Start the Dagster web UI and daemon for a home."),
    "support-bundle": (
        "support",
        "support_bundle",
        "Write a ZIP for support requests, without secrets or amounts.",
    ),
    "completion": ("support", "completion", "Print the completion script of a shell."),
}


class PlaceFailed(TemporarilyUnavailable):
    """The operating system could not read or write a file."""

    code = "STORE-001"

    def __init__(self, cause: OSError) -> None:
        super().__init__(
            where=str(cause.filename or "a file"),
            seen=cause.strerror or str(cause),
            why="the file could not be read or written; existing data is unchanged",
            remedy="free space, repair access, or move away a folder that has the name of a file "
            "(df -h, ls -ld); then run the command again",
        )


class WrongCommand(WrongUse):
    """An invalid command line, as an error for programs."""

    code = "COMMAND-001"

    def __init__(self, error: click.ClickException) -> None:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "gpu-ledger"
        super().__init__(
            where=command,
            seen=error.format_message(),
            why="the command line is invalid; nothing was run",
            remedy=f"{command} --help",
        )


class LazyGroup(click.Group):
    """Knows every command's name and summary without importing any of them."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest similar names for an unknown command."""
        if args[0] in COMMANDS or args[0].startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise click.exceptions.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)

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


JSON_ERRORS = "--json-errors"
PRIVATE = 0o077
"""The umask: new files and folders are readable by their owner only."""
EPILOG = """\b
Examples:
  gpu-ledger demo                          a simulated month, in about a minute
  gpu-ledger init my-ledger                a home of your own
  gpu-ledger close 2026-10 --home my-ledger

\b
Exit codes: 0 success, 1 a check failed, 2 invalid use, 3 a source could not be read.
"""


@click.command(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="gpu-ledger", prog_name="gpu-ledger")
@click.option(JSON_ERRORS, is_flag=True, help="Print errors as one JSON object on stderr.")
def cli(json_errors: bool) -> None:
    """Turn Prometheus/Thanos samples and Kubernetes events into verifiable GPU invoices."""
    del json_errors  # `main` removed it, at any position


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an error of ours is printed with its four parts and its exit code."""
    os.umask(PRIVATE)
    guard_terminals()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    as_json = JSON_ERRORS in arguments
    arguments = [argument for argument in arguments if argument != JSON_ERRORS]
    try:
        result = cli.main(args=arguments, prog_name="gpu-ledger", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("Stopped.", err=True)
        sys.exit(130)
    except click.ClickException as error:
        if not as_json:
            error.show()
            sys.exit(error.exit_code)
        _fail(WrongCommand(error), as_json=True)
    except LedgerError as error:
        _fail(error, as_json=as_json)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the pipe has ended; else Python would print an error
        sys.exit(0)
    except OSError as error:
        _fail(PlaceFailed(error), as_json=as_json)
    sys.exit(result if isinstance(result, int) else 0)


def _fail(error: LedgerError, *, as_json: bool) -> NoReturn:
    if as_json:
        click.echo(json.dumps(error.as_dict(), ensure_ascii=False), err=True)
    else:
        click.echo(error.message(), err=True)
        click.echo(f"  see:    gpu-ledger explain {error.code}", err=True)
    sys.exit(error.exit_code)
