"""`gpu-ledger rebuild` and `landing`: decode the evidence again, and verify it.

Put here: the commands for the landed evidence.
Not here: decoding and verifying (`ingestion`).
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from ingestion.evidence.chain_heads import heads_of, read_heads
from ingestion.rebuild import rebuild as decode_again
from orchestration import steps
from orchestration.cli.output import emit, emit_result, home_option, output_option, progress
from orchestration.open_home import OpenHome

REBUILD_EPILOG = """\b
Examples:
  gpu-ledger rebuild --home my-ledger                   all of runs/, from the landed bytes
  gpu-ledger rebuild --missing-only                     missing and damaged files
"""


@click.command(epilog=REBUILD_EPILOG)
@click.option("--missing-only", is_flag=True, help="Only write files that are missing or damaged.")
@home_option
@output_option
def rebuild(missing_only: bool, home_path: Path, output: str) -> None:
    """Decode the landed evidence into runs/ again, with the same content."""
    opened = OpenHome.at(home_path)
    with progress("Decoding") as report:
        count = decode_again(opened.landing, opened.home.runs, report, missing_only)
    emit_result({"attempts": count}, output, f"{count} attempts were decoded.")


@click.group()
def command() -> None:
    """Check the landed evidence.

    \b
    Examples:
      gpu-ledger landing verify --home my-ledger
      gpu-ledger landing heads -o json --home my-ledger > heads-2026-11-18.json
    """


@command.command(
    epilog="""\b
Examples:
  gpu-ledger landing verify
  gpu-ledger landing verify -o json
  gpu-ledger landing verify --heads heads-2026-11-18.json
"""
)
@click.option(
    "--heads",
    "heads_path",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Compare with these heads too: the JSON of `gpu-ledger landing heads`, as a source "
    "keeps it.",
)
@home_option
@output_option
def verify(heads_path: Path | None, home_path: Path, output: str) -> int:
    """Compare every landed byte and every manifest with their hashes.

    Compares the ends of the chains with those of the last check of a month, and the responses with
    those sealed by closed months. The exit code is 1 if anything differs.
    """
    try:
        heads = read_heads(heads_path.read_bytes()) if heads_path else []
    except (ValueError, OSError) as cause:
        raise click.BadParameter(
            f"{heads_path} has no heads: {cause}. Use the output of "
            "`gpu-ledger landing heads -o json`.",
            param_hint="--heads",
        ) from None
    with progress("Checking"):
        opened = OpenHome.at(home_path)
        report = steps.verify_landing(opened.landing, opened.record, heads)
    problems = [problem.as_dict() for problem in report.problems]
    emit(problems, output, empty="Every landed response is unchanged.")
    click.echo(
        f"{report.attempt_count} attempts and {report.body_count} bodies were read; "
        f"{len(report.problems)} problems.",
        err=True,
    )
    for key in report.set_aside:
        click.echo(f"Replaced by the good bytes, and kept: {key}", err=True)
    return 1 if report.problems else 0


@command.command(
    epilog="""\b
Examples:
  gpu-ledger landing heads
  gpu-ledger landing heads -o json > heads-2026-11-18.json
"""
)
@home_option
@output_option
def heads(home_path: Path, output: str) -> None:
    """Print the last manifest of every chain: cluster, source, number, hash.

    Store the output elsewhere, for example with an auditor. `gpu-ledger landing verify --heads
    FILE` compares it later: each manifest names the hash of the one before it, so that the last one
    proves its whole chain.
    """
    found = heads_of(OpenHome.at(home_path).landing.store)
    columns = ["cluster_id", "source", "sequence", "sha256"]
    emit([asdict(head) for head in found], output, columns, empty="Nothing has landed yet.")


@command.command(
    epilog="""\b
Examples:
  gpu-ledger landing show 004eb9df068a4a3df1b01c7d7488221bd65cd530bfe063bcbb613898891ac174 | jq .
"""
)
@click.argument("sha256")
@home_option
def show(sha256: str, home_path: Path) -> None:
    """Print a landed response byte for byte, after its hash was verified."""
    sys.stdout.buffer.write(OpenHome.at(home_path).landing.read_body(sha256))
