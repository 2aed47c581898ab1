"""`gpu-ledger explain`, `verify`, `backup`, `restore`: checking what was issued, and keeping it.

Put here: the commands of auditors and of whoever keeps the copies.
Not here: walking (`billing.explain`), verifying (`billing.verifier`), copying (`billing.backup`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestration.cli.output import emit, emit_document, home_option, output_option

if TYPE_CHECKING:
    from billing.explain import Stop

EXPLAIN_EPILOG = """\b
Examples:
  gpu-ledger explain INV-000001 --line 2
  gpu-ledger explain INV-000001 --line 2 --pod POD_UID -o json
  gpu-ledger explain --answer SHA256        forward: which lines an answer touches
"""


@click.command(epilog=EXPLAIN_EPILOG)
@click.argument("number", required=False)
@click.option("--line", type=int, help="The line of the document.")
@click.option("--pod", "pod_uid", default="", help="Follow this pod to its bytes.")
@click.option("--answer", "sha256", help="Walk forward from the hash of a landed answer.")
@home_option
@output_option
def explain(
    number: str | None,
    line: int | None,
    pod_uid: str,
    sha256: str | None,
    home_path: Path,
    output: str,
) -> None:
    """Walk from an invoice line to the landed bytes, or from bytes to the lines they touch."""
    from billing.explain import explain_answer, explain_line
    from warehouse.home import Home

    home = Home.open(home_path)
    if sha256:
        stops = explain_answer(home, sha256)
    elif number and line is not None:
        stops = explain_line(home, number, line, pod_uid)
    else:
        raise click.UsageError("give a document's NUMBER and --line, or --answer")
    if output == "json":
        emit_document({"stops": [_as_dict(stop) for stop in stops]})
        return
    for stop in stops:
        rows = [dict(zip(stop.columns, row, strict=True)) for row in stop.rows]
        emit(rows, output, stop.columns, title=stop.title)
        if stop.note:
            click.echo(f"{stop.note}\n")


def _as_dict(stop: Stop) -> dict[str, object]:
    rows = [dict(zip(stop.columns, row, strict=True)) for row in stop.rows]
    return {"title": stop.title, "rows": rows, "note": stop.note}


VERIFY_EPILOG = """\b
Examples:
  gpu-ledger verify documents/2026-10/team-a/INV-000001.zip
  gpu-ledger verify documents/2026-10/2026-10.zip --head head-as-witnessed.json
"""


@click.command(epilog=VERIFY_EPILOG)
@click.argument("bundle", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--head",
    "head_path",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="head.json as a witness keeps it.",
)
@output_option
def verify(bundle: Path, head_path: Path | None, output: str) -> int:
    """Check a bundle of issued documents without any home: hashes, chain, totals, prices.

    Exit 1 when anything is wrong.
    """
    from billing.verifier import verify as check

    head = json.loads(head_path.read_bytes()) if head_path else None
    report = check(bundle.read_bytes(), head)
    rows = [{"result": "ok", "what": what} for what in report.checked]
    rows += [{"result": "WRONG", "what": what} for what in report.problems]
    emit(rows, output, ["result", "what"])
    click.echo("verified" if report.passed else "NOT verified", err=True)
    return 0 if report.passed else 1


@click.command(
    epilog="""\b
Examples:
  gpu-ledger backup /mnt/backup/2026-11-18 --home my-ledger
"""
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@home_option
def backup(folder: Path, home_path: Path) -> None:
    """Copy the four kept parts of a home into an empty FOLDER, and read every copy back."""
    from billing.backup import back_up
    from warehouse.home import Home

    report = back_up(Home.open(home_path), folder)
    click.echo(
        f"{report.file_count} files, {report.byte_count} bytes; "
        f"the record's head is event {report.head_sequence} with {report.head_sha256}."
    )


@click.command(
    epilog="""\b
Examples:
  gpu-ledger restore /mnt/backup/2026-11-18 --home restored-ledger
"""
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@home_option
def restore(folder: Path, home_path: Path) -> None:
    """Make a home from a verified backup in FOLDER.

    The restored record stays read-only until it is shown the latest witnessed head.
    """
    from billing.backup import restore as restore_home
    from domain.clock import SystemClock

    home = restore_home(folder, home_path, SystemClock())
    click.echo(f"Restored into {home.path}; next: gpu-ledger rebuild --home {home.path}")
