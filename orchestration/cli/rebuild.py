"""`gpu-ledger rebuild` and `landing`: derived files from evidence, and evidence itself.

Put here: the commands about what is landed.
Not here: decoding and checking (`ingestion`).
"""

from __future__ import annotations

from pathlib import Path

import click

from orchestration.cli.output import emit, emit_done, home_option, output_option, progress

REBUILD_EPILOG = """\b
Examples:
  gpu-ledger rebuild --home my-ledger                   all of runs/, from the landed bytes
  gpu-ledger rebuild --missing-only                     what a crash left out or a disk changed
"""


@click.command(epilog=REBUILD_EPILOG)
@click.option("--missing-only", is_flag=True, help="Leave files that are as they were written.")
@home_option
@output_option
def rebuild(missing_only: bool, home_path: Path, output: str) -> None:
    """Decode the landed evidence again into runs/; the content is the same as before."""
    from ingestion.rebuild import rebuild as decode_again
    from orchestration.open_home import OpenHome

    opened = OpenHome.at(home_path)
    with progress("Decoding") as report:
        count = decode_again(opened.landing, opened.home.runs, report, missing_only)
    emit_done({"attempts": count}, output, f"{count} attempts were decoded.")


@click.group()
def command() -> None:
    """Check the landed evidence.

    \b
    Examples:
      gpu-ledger landing verify --home my-ledger
    """


@command.command(
    epilog="""\b
Examples:
  gpu-ledger landing verify
  gpu-ledger landing verify -o json
"""
)
@home_option
@output_option
def verify(home_path: Path, output: str) -> int:
    """Read every landed byte and every manifest, and compare them with their hashes.

    Exit 1 when anything differs.
    """
    from orchestration.open_home import OpenHome

    with progress("Checking"):
        report = OpenHome.at(home_path).landing.verify()
    problems = [problem.as_dict() for problem in report.problems]
    emit(problems, output, empty="Everything that was landed is as it came.")
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
  gpu-ledger landing show 004eb9df068a4a3df1b01c7d7488221bd65cd530bfe063bcbb613898891ac174 | jq .
"""
)
@click.argument("sha256")
@home_option
def show(sha256: str, home_path: Path) -> None:
    """Print a landed answer byte for byte, read again against the hash that is its name."""
    import sys

    from orchestration.open_home import OpenHome

    sys.stdout.buffer.write(OpenHome.at(home_path).landing.read_body(sha256))
