"""The form of a decision table: its columns, their meaning, and the class of its rows.

Put here: tables and columns.
Not here: the tables themselves (`domain.decisions.tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from domain.decisions.cells import Cell
from domain.decisions.rows import Row, TableName


@dataclass(frozen=True, slots=True)
class DecisionColumn:
    """One column: its cells, its meaning, and an example."""

    name: str
    cell: Cell[Any]
    meaning: str
    example: str
    field: str = ""  # the row's attribute, when it has another name (a unit at its end)
    may_be_absent: bool = False  # from the header; its cells then count as empty

    @property
    def attribute(self) -> str:
        return self.field or self.name


@dataclass(frozen=True, slots=True)
class Objection:
    """A problem of a whole row with valid cells."""

    column: str
    seen: str
    remedy: str


@dataclass(frozen=True, slots=True)
class DecisionTable:
    """One file of decisions/."""

    name: TableName
    about: str
    row_class: type[Row]
    columns: tuple[DecisionColumn, ...]
    check: Callable[[Any], Iterable[Objection]]

    @property
    def file(self) -> str:
        return f"{self.name.value}.csv"

    def cells_of(self, row: Row) -> tuple[str, ...]:
        """The row as canonical text: equal decisions have equal cells, however they were typed."""
        return tuple(column.cell.write(getattr(row, column.attribute)) for column in self.columns)
