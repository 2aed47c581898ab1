"""The output of every command: tables for people, JSON and CSV for programs, progress on stderr.

Put here: the shared options, and printing rows.
Not here: the rows of a command.

Data goes to stdout, everything else to stderr. Colours obey NO_COLOR and the terminal.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBars
from rich.table import Table
from rich.text import Text

from domain.csv_text import csv_text
from domain.interval import format_instant
from orchestration.cli.terminal import EscapingStream, escape_controls

Progress = Callable[[int, int, str], None]
Row = Mapping[str, Any]
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

PLAIN_LINE_SECONDS = 10.0  # interval of the progress lines without a terminal
POLL_SECONDS = 0.5  # how late such a line may be
WIDTH_OF_A_FILE = 200
"""Width of tables in files and pipes, unless COLUMNS is set."""
BETWEEN_COLUMNS, AT_THE_EDGES = 3, 2


def _terminal_of(stream: TextIO) -> TextIO:
    """The terminal itself for rich, whose colours and bars are control characters too."""
    return stream.terminal if isinstance(stream, EscapingStream) else stream


def output_option(command: Decorated) -> Decorated:
    """`-o table|json|csv`, with `--json` and `--csv` as short forms of two of them."""
    chosen = click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "csv"]),
        default="table",
        show_default=True,
        help="Output format.",
    )
    as_json = click.option("--json", "output", flag_value="json", help="Same as -o json.")
    as_csv = click.option("--csv", "output", flag_value="csv", help="Same as -o csv.")
    return chosen(as_json(as_csv(command)))


home_option = click.option(
    "--home",
    "home_path",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="GPU_LEDGER_HOME",
    default=Path("."),
    show_default="the current folder, or $GPU_LEDGER_HOME",
    help="Home folder of the ledger.",
)


kubeconfig_option = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Kubeconfig; by default the pod's ServiceAccount, $KUBECONFIG or ~/.kube/config.",
)


def emit(
    rows: Sequence[Row],
    output: str,
    columns: Sequence[str] | None = None,
    title: str = "",
    empty: str = "",
) -> None:
    """Print rows on stdout; `columns` chooses and orders them (default: those of the first row).

    Without rows, a table prints the sentence `empty`.
    """
    names = list(columns if columns is not None else (rows[0] if rows else ()))
    if output == "json":
        shown = [{name: _plain(row.get(name)) for name in names} for row in rows]
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
    elif output == "csv":
        cells = ([_text(row.get(name)) for name in names] for row in rows)
        click.echo(csv_text(names, cells), nl=False)
    elif rows:
        _table(rows, names, title)
    else:
        click.echo(empty or f"{title or 'Rows'}: none.")


def emit_document(document: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout."""
    click.echo(json.dumps(_plain(document), indent=2, ensure_ascii=False))


def emit_result(result: Row, output: str, sentence: str) -> None:
    """Print the result of an action: a sentence for people, an object or a CSV row for programs."""
    if output == "table":
        click.echo(sentence)
    elif output == "json":
        emit_document(result)
    else:
        emit([result], output)


def _plain(value: object) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in value]
        case _:
            return _text(value)


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case datetime():
            return format_instant(value)
        case Decimal():
            return format(value, "f")
        case Fraction():
            return f"{value.numerator}/{value.denominator}"
        case list() | tuple() | set() | frozenset():
            return " ".join(_text(item) for item in value)
        case Mapping():
            return " ".join(f"{key}={_text(item)}" for key, item in value.items())
        case _:
            return str(value)


def _table(rows: Sequence[Row], names: Sequence[str], title: str) -> None:
    """Print a table; if a word would have to be broken, print one record below the other."""
    cells = [[escape_controls(_text(row.get(name))) for name in names] for row in rows]
    widths = [
        (max(map(_longest_word, column)), max(map(cell_len, column)))
        for column in ([name, *(row[n] for row in cells)] for n, name in enumerate(names))
    ]
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console(
        file=_terminal_of(sys.stdout),
        width=None if has_width else WIDTH_OF_A_FILE,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        highlight=False,
    )
    fitted = fit_columns(widths, console.width - BETWEEN_COLUMNS * (len(names) - 1) - AT_THE_EDGES)
    if title:  # a table would break its title at its own width
        console.print(Text(escape_controls(title), style="table.title"), soft_wrap=True)
    if fitted is None:
        click.echo("\n" + "\n\n".join(_record(names, row) for row in cells) + "\n")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, width in zip(names, fitted, strict=True):
        numeric = all(
            isinstance(row.get(name), (int, Decimal)) and not isinstance(row.get(name), bool)
            for row in rows
        )
        table.add_column(name, justify="right" if numeric else "left", min_width=width, width=width)
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def _record(names: Sequence[str], cells: Sequence[str]) -> str:
    longest = max(map(len, names))
    lines = (f"{name:<{longest}}  {cell}" for name, cell in zip(names, cells, strict=True))
    return "\n".join(line.rstrip() for line in lines)


def fit_columns(widths: Sequence[tuple[int, int]], room: int) -> list[int] | None:
    """The widths of columns (least, most) that fill the room; None if it is too small."""
    fitted = [least for least, _ in widths]
    left = room - sum(fitted)
    if left < 0:
        return None
    wanting = [n for n, (least, most) in enumerate(widths) if most > least]
    while left and wanting:
        for n in wanting[:left]:
            fitted[n] += 1
        left -= min(left, len(wanting))
        wanting = [n for n in wanting if fitted[n] < widths[n][1]]
    return fitted


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


@contextmanager
def progress(title: str) -> Iterator[Progress]:
    """A progress bar on stderr; without a terminal a line every ten seconds."""
    if not sys.stderr.isatty():
        lines = _PlainLines(title)
        try:
            yield lines.report
        finally:
            lines.end()
        return

    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[about]}"),
    )
    with ProgressBars(*columns, console=Console(file=_terminal_of(sys.stderr))) as bars:
        task = bars.add_task(title, total=None, about="")

        def report(done: int, total: int, about: str) -> None:
            bars.update(task, completed=done, total=total, about=escape_controls(about))

        yield report


class _PlainLines:
    """Prints a line every ten seconds, also for work that reports no progress."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._state = ""
        self._began = self._last = time.monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._print_repeatedly, name="progress", daemon=True).start()

    def report(self, done: int, total: int, about: str) -> None:
        with self._lock:
            self._state = f"{done} of {total} {about}".rstrip()
            self._print(at_once=done == total and total > 1)

    def end(self) -> None:
        self._ended.set()

    def _print_repeatedly(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            with self._lock:
                self._print()

    def _print(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self._last >= PLAIN_LINE_SECONDS:
            self._last = now
            click.echo(f"{self._title}: {self._state or f'{now - self._began:.0f} s'}", err=True)
