"""`gpu-ledger explain`, `compare`, `verify`, `backup` and `restore`.

Put here: the commands of auditors and of operators who keep backups.
Not here: tracing (`billing.explain`), verifying (`billing.verifier`), copying (`billing.backup`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import click

from billing.backup import back_up, verify_backup
from billing.backup import restore as restore_home
from billing.compare import RULES, compare_period
from billing.events import Head
from billing.explain import ExplainStep, explain_line, explain_response, on_a_screen
from billing.guard import release_restored
from billing.record import Record
from billing.verifier import read_bundle
from billing.verifier import verify as check
from domain.billing_period import BillingPeriod
from domain.clock import SystemClock
from domain.errors import LedgerError, UnknownName
from domain.money import format_nanos
from ingestion.evidence.landing import Landing
from orchestration.cli.output import (
    emit,
    emit_document,
    emit_result,
    home_option,
    output_option,
    progress,
)
from orchestration.cli.time_arguments import NEWEST_WITH_FACTS, newest_month_note, period_argument
from orchestration.open_home import OpenHome
from orchestration.steps import repair_facts, verify_landing
from warehouse.home import Home
from warehouse.reports.opened_facts import newest_period
from warehouse.store import Store

CODE = re.compile(r"[A-Za-z]+-[0-9]{3}")
"""The form of a code of an error or a finding; documents have longer numbers, INV-000001."""

EXPLAIN_EPILOG = """\b
Examples:
  gpu-ledger explain INV-000001 --line 2                  sum, pods, days and hashes on one screen
  gpu-ledger explain INV-000001 --line 2 --pod POD_UID    another of its pods
  gpu-ledger explain INV-000001 --line 2 --all            every row of each step
  gpu-ledger explain INV-000001 --line 2 -o json          the same for programs
  gpu-ledger explain --answer SHA256                      the lines that a response affects
  gpu-ledger explain GAP-001                              the page of a finding or an error
"""


@click.command(epilog=EXPLAIN_EPILOG)
@click.argument("number", metavar="[NUMBER|CODE]", required=False)
@click.option("--line", type=int, help="Number of the line of the document.")
@click.option(
    "--pod", "pod_uid", default="", help="UID of the pod to trace (default: the longest one)."
)
@click.option("--all", "whole", is_flag=True, help="Print every row of each step.")
@click.option(
    "--answer", "sha256", help="Hash of a landed response: list the lines that it affects."
)
@home_option
@output_option
def explain(
    number: str | None,
    line: int | None,
    pod_uid: str,
    whole: bool,
    sha256: str | None,
    home_path: Path,
    output: str,
) -> None:
    """Trace an invoice line to the landed bytes, or landed bytes to invoice lines.

    The table shows the largest rows of each step and the number of further ones; -o json and -o csv
    print every row. For the CODE of an error or a finding it prints the page, without a home.
    """
    if number and CODE.fullmatch(number):
        page = read_page(number.upper())
        done = {"code": number.upper(), "page": page}
        emit_result(done, output, page.rstrip("\n"))
        return

    home = Home.open(home_path)
    with progress("Tracing"):
        if sha256:
            steps = explain_response(home, sha256)
        elif number and line is not None:
            steps = explain_line(home, number, line, pod_uid)
        else:
            raise click.UsageError("give a document's NUMBER and --line, or --answer, or a CODE")
    if output == "json":
        emit_document({"steps": [_as_dict(step) for step in steps]})
        return
    shown = steps if whole or output != "table" else on_a_screen(steps)
    for step in shown:
        rows = [dict(zip(step.columns, row, strict=True)) for row in step.rows]
        emit(rows, output, step.columns, title=step.title)
        if step.note:
            click.echo(f"{step.note}\n")
    if shown != steps:
        click.echo("Every row: --all. Another pod: --pod POD_UID. For programs: -o json.")


def _as_dict(step: ExplainStep) -> dict[str, object]:
    rows = [dict(zip(step.columns, row, strict=True)) for row in step.rows]
    return {"title": step.title, "rows": rows, "note": step.note}


def read_page(code: str) -> str:
    """The page of an error or of a finding, as Markdown."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "_pages"
    pages = installed if installed.is_dir() else package.parent / "docs"
    for folder in ("errors", "findings"):
        path = pages / folder / f"{code}.md"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise UnknownName(
        where=f"code {code!r}",
        seen="no error and no finding has this code",
        why="each printed code has a page",
        remedy="copy it from the message, such as: gpu-ledger explain GAP-001",
    )


COMPARE_EPILOG = """\b
Examples:
  gpu-ledger compare 2026-10
  gpu-ledger compare 2026-10 -o csv > other-tools.csv
"""


@click.command(epilog=COMPARE_EPILOG)
@period_argument(NEWEST_WITH_FACTS)
@home_option
@output_option
def compare(period: BillingPeriod | None, home_path: Path, output: str) -> int:
    """Apply the billing rules of other tools to PERIOD, by tenant.

    Prints the amount by each tool's rule, and the difference to the ledger's amount.
    """
    opened = OpenHome.at(home_path)
    if period is None:
        period = newest_period(opened.home)
        click.echo(newest_month_note(period), err=True)
    titles = {rule.name: rule.title for rule in RULES}
    with progress("Comparing"):
        repair_facts(opened, period)
        compared = compare_period(opened.home, period)
    rows = [
        {
            "tenant": found.tenant,
            "rule": titles[found.rule],
            "ledger": format_nanos(found.ledger_nanos),
            "would_bill": format_nanos(found.rule_nanos),
            "difference": format_nanos(found.nanos),
        }
        for found in compared
    ]
    empty = f"No tenant used a device in {period}: no rule bills anything."
    emit(rows, output, ["tenant", "rule", "ledger", "would_bill", "difference"], empty=empty)
    return 0


VERIFY_EPILOG = """\b
Examples:
  gpu-ledger verify documents/2026-10/tenants/team-a/INV-000001.zip
  gpu-ledger verify documents/2026-10/2026-10.zip --head head-as-attested.json
"""


@click.command(epilog=VERIFY_EPILOG)
@click.argument("bundle", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--head",
    "head_path",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A copy of head.json that was stored elsewhere.",
)
@output_option
def verify(bundle: Path, head_path: Path | None, output: str) -> int:
    """Verify a bundle of issued documents without a home: chain, files, prices, totals.

    An unknown, missing or changed file is a problem. Rows with `not checked` name the properties
    that a bundle alone cannot prove. The exit code is 1 if there are problems.
    """
    head = head_path.read_bytes() if head_path else None
    with progress("Checking"):
        report = check(read_bundle(bundle), head)
    rows = [{"result": "ok", "subject": subject} for subject in report.checked]
    rows += [{"result": "not checked", "subject": subject} for subject in report.unverified]
    rows += [{"result": "WRONG", "subject": subject} for subject in report.problems]
    emit(rows, output, ["result", "subject"])
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
@output_option
def backup(folder: Path, home_path: Path, output: str) -> int:
    """Copy the parts of a home that cannot be rebuilt into an empty FOLDER, and verify the copy.

    These are config.toml, decisions/, landing/ and record/. Every copied file is read again and
    compared with its hash. A damaged home is also copied: the command lists all damage, its exit
    code is 1, and `gpu-ledger restore` refuses the backup.
    """
    with progress("Copying"):
        copied = back_up(Home.open(home_path), folder, _evidence_problems)
    done = {
        "file_count": len(copied.files),
        "byte_count": copied.byte_count,
        "head_sequence": copied.head.sequence,
        "head_sha256": copied.head.sha256,
    }
    sentence = (
        f"{len(copied.files)} files, {copied.byte_count} bytes; "
        f"the record's head is event {copied.head.sequence} with {copied.head.sha256}."
    )
    return _emit_with_problems(done, copied.problems, output, sentence)


def _evidence_problems(landing: Store, record: Record) -> Sequence[LedgerError]:
    return verify_landing(Landing(landing), record).problems


def _emit_with_problems(
    done: dict[str, object], problems: Sequence[LedgerError], output: str, sentence: str
) -> int:
    """Print the result, then every problem; returns 1 if there is one."""
    rows = [problem.as_dict() for problem in problems]
    if output == "json":
        emit_document({**done, "problems": rows})
    else:
        emit_result(done, output, sentence)
        for problem in problems:
            click.echo(problem.message(), err=True)
        if problems:
            click.echo(f"{len(problems)} problems.", err=True)
    return 1 if problems else 0


RESTORE_EPILOG = """\b
Examples:
  gpu-ledger restore /mnt/backup/2026-11-18 --home restored-ledger
  gpu-ledger restore --head head-as-attested.json --home restored-ledger
  gpu-ledger restore --by "Ada Example" --and "Bob Example" --home restored-ledger
"""


@click.command(epilog=RESTORE_EPILOG)
@click.argument(
    "folder", type=click.Path(path_type=Path, file_okay=False, exists=True), required=False
)
@click.option(
    "--head",
    "head_path",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Latest copy of head.json that was stored elsewhere.",
)
@click.option(
    "--by",
    "first",
    default="",
    help="Name of the person who confirms that nothing was issued since.",
)
@click.option("--and", "second", default="", help="Name of a second person who confirms it.")
@home_option
@output_option
def restore(
    folder: Path | None,
    head_path: Path | None,
    first: str,
    second: str,
    home_path: Path,
    output: str,
) -> int:
    """Create a home from a verified backup in FOLDER, or permit writes to a restored one.

    A damaged backup is not restored: all damage is listed, and the exit code is 1. A restored
    record is read-only until the latest published head is given, or two people confirm that nothing
    was issued since the backup.
    """
    confirmed = bool(head_path or first or second)
    if folder is None and not confirmed:
        raise click.UsageError("give the FOLDER of a backup, or --head, or --by and --and")
    clock = SystemClock()
    with progress("Copying"):
        if folder is None:
            home = Home.open(home_path)
        else:
            copied = verify_backup(folder, _evidence_problems)
            if copied.problems:
                done = {"home": str(home_path), "is_restored": False, "may_be_written": False}
                sentence = f"{folder} is damaged; nothing was restored."
                return _emit_with_problems(done, copied.problems, output, sentence)
            home = restore_home(copied, home_path, clock)
    messages = []
    if folder:
        messages.append(
            f"Restored into {home.path}. Next: gpu-ledger refresh --home {home.path}; "
            "add --period for each closed month whose facts you need"
        )
    if confirmed:
        release_restored(
            Record(home.record_store()),
            clock,
            attested=Head(*_sequence_and_hash(head_path)) if head_path else None,
            names=(first, second),
        )
        messages.append("The record can be written again.")
    done = {"home": str(home.path), "is_restored": bool(folder), "may_be_written": confirmed}
    return _emit_with_problems(done, (), output, "\n".join(messages))


def _sequence_and_hash(path: Path) -> tuple[int, str]:
    """The number and hash of the record's last event, from a copy of head.json."""
    try:
        found = json.loads(path.read_bytes())
        sequence, digest = int(found["sequence"]), str(found["sha256"])
    except (ValueError, TypeError, KeyError):
        sequence, digest = 0, ""
    if sequence < 1 or not digest:
        raise click.BadParameter(
            f"{path} is no head: it needs a sequence and a sha256, as documents/PERIOD/head.json",
            param_hint="--head",
        )
    return sequence, digest
