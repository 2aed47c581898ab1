"""Named queries: SQL files over the marts, with a title, parameters and a text for an empty
result.

Put here: reading and running them.
Not here: the queries (`docs/reference/queries/*.sql`), or printing results.

    -- Which tenants have the highest burn rate?          the title, ends with a question mark
    --
    -- The meaning of the rows, in a line or more.
    --
    -- param period = newest: the billing period            name, default, meaning
    -- empty: No tenant has used anything.                  the text for a result without rows
    select …
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from domain.billing_period import BillingPeriod
from domain.errors import FileDamaged, UnknownName
from domain.money import format_nanos
from warehouse.reports.opened_facts import Facts, Row
from warehouse.store import reading

NEWEST = "newest"
NANOS = "_nanos"
_PARAMETER = re.compile(r"-- param (?P<name>[a-z_]+) = (?P<default>[^:]*): (?P<meaning>.+)")
_EMPTY = "-- empty: "


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """One query, as in its file."""

    name: str
    title: str
    meaning: str
    parameters: Mapping[str, str]  # name to default
    when_empty: str
    sql: str


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a query, and its parameters."""

    columns: tuple[str, ...]
    rows: list[Row]
    parameters: Mapping[str, str]


def questions_folder() -> Path:
    """The folder of the queries: inside the installed package, or in a checkout's docs."""
    here = Path(__file__).resolve().parents[1]
    installed = here / "_questions"
    return installed if installed.is_dir() else here.parent / "docs" / "reference" / "queries"


def questions() -> tuple[NamedQuery, ...]:
    """Every query, by name; raises FileDamaged."""
    return tuple(map(_read, sorted(questions_folder().glob("*.sql"))))


def question(name: str) -> NamedQuery:
    """The query of a name; other files may be damaged; raises UnknownName, FileDamaged."""
    paths = {path.stem: path for path in questions_folder().glob("*.sql")}
    if name not in paths:
        near = get_close_matches(name, sorted(paths), n=3, cutoff=0.3)
        raise UnknownName(
            where=f"query {name!r}",
            seen="no query has this name",
            why="only tested queries have a name",
            remedy=f"did you mean {', '.join(near)}?" if near else "gpu-ledger query --list",
        )
    return _read(paths[name])


def ask(facts: Facts, asked: NamedQuery, given: Mapping[str, str]) -> QueryResult:
    """The result, of the newest period unless one is given; amounts are exact decimals as text."""
    for name in given:
        if name not in asked.parameters:
            raise UnknownName(
                where=f"query {asked.name}",
                seen=f"it has no parameter {name!r}; it has: {', '.join(asked.parameters)}",
                why="an ignored parameter would return the result of another query",
                remedy=f"gpu-ledger query {asked.name} --show",
            )
    parameters = {**asked.parameters, **given}
    if parameters.get("period") == NEWEST:
        parameters["period"] = facts.newest.name
    if "period" in parameters:
        period = BillingPeriod(parameters["period"])
        facts.require(period.interval)
        if day := parameters.get("day"):
            _require_day(asked, day, period)
    found = facts.rows(asked.sql, parameters)
    names = tuple(column[0] for column in facts.connection.description or ())
    rows = [
        {name.removesuffix(NANOS): _shown(name, value) for name, value in row.items()}
        for row in found
    ]
    return QueryResult(tuple(name.removesuffix(NANOS) for name in names), rows, parameters)


def _require_day(asked: NamedQuery, day: str, period: BillingPeriod) -> None:
    days = {f"{at:%Y-%m-%d}" for at in period.interval.hours()}
    if day not in days:
        raise UnknownName(
            where=f"query {asked.name}",
            seen=f"day={day} is not a day of {period}, such as {min(days)}",
            why="an empty result would look like a result without problems",
            remedy=f"gpu-ledger query {asked.name} --show",
        )


def _shown(name: str, value: object) -> object:
    """Amounts as exact decimals of the currency; everything else as it is."""
    return format_nanos(int(str(value))) if name.endswith(NANOS) and value is not None else value


def _read(path: Path) -> NamedQuery:
    with reading(str(path), "install gpu-ledger again, or save the file as UTF-8 text"):
        text = path.read_text(encoding="utf-8")
    head = [line for line in text.splitlines() if line.startswith("--")]
    parameters: dict[str, str] = {}
    when_empty, meaning = "", []
    for line in head[1:]:
        if match := _PARAMETER.fullmatch(line):
            parameters[match["name"]] = match["default"].strip()
        elif line.startswith(_EMPTY):
            when_empty = line.removeprefix(_EMPTY)
        else:
            meaning.append(line.removeprefix("--").strip())
    title = "".join(head[:1]).removeprefix("-- ")
    if not title.endswith("?") or not when_empty:
        raise FileDamaged(
            where=str(path),
            seen="its comment has no question in the first line"
            if when_empty
            else "its comment has no line `-- empty: …`",
            why="a result without its meaning can be misread",
            remedy="install gpu-ledger again, or correct the comment as in the other files",
        )
    return NamedQuery(path.stem, title, " ".join(meaning).strip(), parameters, when_empty, text)
